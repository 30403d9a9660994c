"""Replays: recorded calls decided again under another policy."""

"""Failures by what they have in common: of one cause, under one fingerprint."""

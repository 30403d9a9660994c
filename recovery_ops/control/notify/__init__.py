"""Telling people: what happened is found in tables, what a rule asks for becomes a message, and the outbox sends it."""

"""Decides what was recorded again, by the same rules, under another policy; and says what cannot be known."""

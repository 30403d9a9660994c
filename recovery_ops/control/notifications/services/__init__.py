"""Actions: one function each of notifications."""

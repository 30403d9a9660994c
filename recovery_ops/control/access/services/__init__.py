"""Actions: one function each of access."""

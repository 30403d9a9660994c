"""Actions: one function each of replay."""

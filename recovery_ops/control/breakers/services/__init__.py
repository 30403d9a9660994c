"""Actions: one function each of breakers."""

"""Actions: one function each of issues."""

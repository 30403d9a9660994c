"""Actions: one function each of policies."""

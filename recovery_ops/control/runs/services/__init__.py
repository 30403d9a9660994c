"""Actions: one function each of runs."""

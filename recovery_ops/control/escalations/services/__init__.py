"""Actions: one function each of escalations."""

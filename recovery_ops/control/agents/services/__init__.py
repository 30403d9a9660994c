"""Actions: one function each of agents."""

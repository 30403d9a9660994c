"""Pages of agents."""

"""Tables of agents."""

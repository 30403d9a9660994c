"""API views of agents."""

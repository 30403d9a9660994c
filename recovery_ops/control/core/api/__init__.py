"""API views of core."""

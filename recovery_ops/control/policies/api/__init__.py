"""API views of policies."""

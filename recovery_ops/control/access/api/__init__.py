"""API views of access."""

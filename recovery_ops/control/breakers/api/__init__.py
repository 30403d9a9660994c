"""API views of breakers."""

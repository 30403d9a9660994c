"""API views of notifications."""

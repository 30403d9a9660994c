"""Pages of breakers."""

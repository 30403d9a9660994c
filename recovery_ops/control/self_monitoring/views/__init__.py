"""Pages of self monitoring."""

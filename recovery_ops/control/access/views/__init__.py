"""Pages of access."""

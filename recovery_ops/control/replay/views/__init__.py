"""Pages of replay."""

"""Pages of capacity."""

"""Pages of dashboard."""

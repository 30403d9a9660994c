"""Pages of issues."""

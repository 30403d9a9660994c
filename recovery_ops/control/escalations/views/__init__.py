"""Pages of escalations."""

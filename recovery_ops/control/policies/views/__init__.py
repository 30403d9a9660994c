"""Pages of policies."""

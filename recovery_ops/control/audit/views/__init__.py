"""Pages of audit."""

"""Long lists as files."""

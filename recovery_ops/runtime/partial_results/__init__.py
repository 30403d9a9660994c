"""Several calls for one answer, some of which may fail."""

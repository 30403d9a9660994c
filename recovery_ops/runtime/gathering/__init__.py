"""Several calls for one answer, of which some may fail."""

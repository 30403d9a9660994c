"""Issues: failures grouped by fingerprint, counted when they arrive."""

"""Issues: failures grouped by their fingerprint."""

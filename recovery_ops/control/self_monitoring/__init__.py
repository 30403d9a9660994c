"""Health, metrics and storage of the console itself."""

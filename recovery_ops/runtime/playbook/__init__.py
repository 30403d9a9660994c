"""What is done about a failure that retrying does not mend."""

"""What several test modules share; nothing here is a test."""

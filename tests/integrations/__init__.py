"""The integrations, against the real packages and servers that misbehave."""

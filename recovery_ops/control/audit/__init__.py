"""The audit log: a chain of entries, one for each action."""

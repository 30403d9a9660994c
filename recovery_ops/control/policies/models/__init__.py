"""Tables of policies."""

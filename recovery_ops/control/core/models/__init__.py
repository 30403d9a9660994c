"""Tables of core."""

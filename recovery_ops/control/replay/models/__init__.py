"""Tables of replay."""

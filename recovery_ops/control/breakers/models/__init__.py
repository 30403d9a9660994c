"""Tables of breakers."""

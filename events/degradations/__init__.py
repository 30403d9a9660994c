"""Degradations: what capability is reduced, since when, to what, and who got the weaker answer."""

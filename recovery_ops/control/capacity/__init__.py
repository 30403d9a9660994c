"""Capacity incidents, degradations and amplification."""

"""Faults on purpose, against real processes: whether every fact that was sent is stored, and once."""

"""The demonstration's generated history, and the removal of its environment."""

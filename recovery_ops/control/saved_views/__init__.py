"""Filters that a user keeps under a name, for one screen."""

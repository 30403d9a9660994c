"""Runbooks: instructions for people, by class of failure."""

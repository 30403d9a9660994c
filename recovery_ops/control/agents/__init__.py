"""Agents and their instances: settings, labels and pauses."""

"""Integrations against small stand-ins for their packages, so that they run in every environment."""

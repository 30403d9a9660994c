"""Reads for pages, API and exports of escalations."""

"""Paused work as JSON: the wish, and what is observed of it."""

from __future__ import annotations

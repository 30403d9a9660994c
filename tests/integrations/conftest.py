"""Leaves what needs the integrations' packages to the environment that has them."""

from __future__ import annotations

from importlib.util import find_spec

IS_INSIDE = find_spec("anthropic") is not None
collect_ignore = ["test_packages.py"] if IS_INSIDE else ["packages"]

"""Which templates an answer was made of: a page is known by them, whatever it says."""

from __future__ import annotations

from typing import Any


def templates_of(answer: Any) -> set[str]:
    """The names of all templates of an answer."""
    return {one.name for one in answer.templates if one.name}

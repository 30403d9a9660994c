"""Texts of agents and people, as far as they may stand in a message."""

from __future__ import annotations

LINES_MOST = 20
"""What a message of several things says a line about each of; the last line counts the rest."""


def shown(text: str, most: int) -> str:
    """One line of at most so many characters."""
    line = "".join(one if one.isprintable() else " " for one in text)
    return line if len(line) <= most else f"{line[: most - 1]}…"

"""What every verb of the command line shares: exit codes, what asks a console, what says something to a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

DONE, REFUSED, NO_ANSWER, NOT_APPLIED, WAITS = 0, 1, 3, 4, 5

Say = Callable[[str], None]

Ask = Callable[[str], str]
"""Puts a question to whoever sits at the terminal and returns what they typed."""


class Asking(Protocol):
    """A console that answers with documents."""

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
        """The document it answers with. Raises Refusal."""


def every(console: Asking, path: str, name: str) -> Iterator[dict[str, Any]]:
    """The rows called `name` of a list, page after page. Raises Refusal."""
    further: str | None = path
    while further is not None:
        found = console.ask("GET", further)
        yield from found[name]
        further = found["next"]


class Unconfirmed(Exception):
    """It reaches everybody, and nobody has typed the name that says that this is meant."""


class Refusal(Exception):
    """What a console refused; `fields` says what is wrong with each part of what was sent."""

    fields: Mapping[str, str]

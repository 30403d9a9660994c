"""What every verb of the command line shares: exit codes, what asks a console, what says something to a person."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

DONE, REFUSED, NO_ANSWER, NOT_APPLIED, WAITS = 0, 1, 3, 4, 5

USUAL = 50
"""How many rows a list says that is not told how many."""
PAGE = 200
"""The most that the console gives at once."""

MORE = "There are more: --all, or a higher --limit."
"""What a list says below its last row where that is not all."""

REASON_HELP = (
    "recorded in the audit log; required for overrides, releases, approvals, notes, production and many objects"
)

Say = Callable[[str], None]

_CONTROLS = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}

Ask = Callable[[str], str]
"""Puts a question to whoever sits at the terminal and returns what they typed."""


def plain(text: object) -> str:
    """As text without what steers a terminal: agents and people may have written it. Lines and tabs stay."""
    return str(text).translate(_CONTROLS)


class Asking(Protocol):
    """A console that answers with documents."""

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
        """The document it answers with. Raises Refusal."""


class Fetching(Asking, Protocol):
    """A console that gives out files, too."""

    def pieces(self, path: str) -> Iterator[bytes]:
        """What it answers with, piece by piece: a file. Raises Refusal."""


def keep_file(console: Fetching, path: str, name: str, say: Say) -> int:
    """Keep what the console answers as a file of this name, which may not be there yet. Raises Refusal."""
    target = Path(name)
    if target.exists():
        say(f"{target} is there already: choose another name.")
        return REFUSED
    pieces = console.pieces(path)
    first = next(pieces, b"")  # what is refused leaves no empty file behind
    with target.open("xb") as file:
        size_bytes = file.write(first) + sum(file.write(piece) for piece in pieces)
    say(f"{target}: {size_bytes:,} bytes")
    return DONE


def every(console: Asking, path: str, name: str) -> Iterator[dict[str, Any]]:
    """The rows called `name` of a list, page after page. Raises Refusal."""
    further: str | None = path
    while further is not None:
        found = console.ask("GET", further)
        yield from found[name]
        further = found["next"]


def add_paging(one: argparse.ArgumentParser, usual: int = USUAL) -> None:
    """`--limit` and `--all`, by which every list says how much it says."""
    how_many = one.add_mutually_exclusive_group()
    how_many.add_argument("--limit", type=_count, default=usual, metavar="N", help=f"most entries ({usual})")
    how_many.add_argument("--all", action="store_true", help="all pages")


def say_rows(
    console: Asking,
    path: str,
    name: str,
    options: argparse.Namespace,
    lines: Callable[[dict[str, Any]], Iterable[str]],
    say: Say,
    *,
    nothing: str = "",
) -> dict[str, Any]:
    """Say the rows called `name` of a list, each as its `lines`, and that there are more where that is so; `nothing`
    where there is none. Returns the first page, for what it says besides. Raises Refusal.
    """
    left: int | None = None if options.all else options.limit
    first: dict[str, Any] | None = None
    further: str | None = f"{path}{'&' if '?' in path else '?'}limit={PAGE if left is None else min(left, PAGE)}"
    while further is not None and left != 0:
        found = console.ask("GET", further)
        first = first or found
        rows = found[name][:left]
        for row in rows:
            for line in lines(row):
                say(line)
        left = None if left is None else left - len(rows)
        further = found["next"] if len(rows) == len(found[name]) else further
    if first is not None and not first[name] and nothing:
        say(nothing)
    if further is not None:
        say(MORE)
    return first or {}


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


class Unconfirmed(Exception):
    """It reaches everybody, and nobody has typed the name that says that this is meant."""


class Refusal(Exception):
    """What a console refused; `fields` says what is wrong with each part of what was sent."""

    fields: Mapping[str, str]

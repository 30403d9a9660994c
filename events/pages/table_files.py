"""Tables as files: CSV that a spreadsheet opens without running anything, JSON and NDJSON for programs, and Markdown
for a post-mortem.

A file holds exactly what the page shows with the same address, and says this address: CSV in the last cell of the first
row.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from itertools import chain
from typing import Any, TypeVar

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.encoding import escape_uri_path

from events.timelines import Table

CSV, JSON, NDJSON, MARKDOWN = "csv", "json", "ndjson", "md"
ONLY = "only"
"""Names a column that the file is to have, once for each; without it, it has all."""
KINDS = {
    CSV: "text/csv; charset=utf-8",
    JSON: "application/json",
    NDJSON: "application/x-ndjson",
}
"""The kinds of files of rows, each with its type."""
MARKDOWN_TYPE = "text/markdown; charset=utf-8"
_BEFORE_A_FORMULA = re.compile(r"""(^|[;\t])(?=[\s"\u200b-\u200f\u2060\ufeff]*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20])""")
"""Where a cell begins with a sign of a formula (the last four: full-width): at its start, or behind what other
spreadsheets take for the end of a cell, whatever the quotes say.
"""
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")

_NUMBERS = frozenset({int, float})

T = TypeVar("T", bound=HttpResponseBase)
Cell = object
"""A text, number, moment or length of time; None for what is not known."""


def is_asked(request: HttpRequest, *kinds: str) -> bool:
    """Whether the address asks for a file of one of these kinds: `format=csv`. Without kinds: for one of rows."""
    return request.GET.get("format") in (kinds or KINDS)


def rows_answer(
    request: HttpRequest, name: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]
) -> HttpResponse:
    """Rows as the file that the address asks for, CSV or JSON. Moments are ISO in UTC, lengths of time seconds; what is
    not known is an empty field of CSV, a null of JSON. NDJSON has a row in each line and nothing else.
    """
    kind = request.GET.get("format", CSV)
    pieces = pieces_of(kind, columns, rows, only=request.GET.getlist(ONLY), address=address_of(request))
    return _file("".join(pieces), f"{name}.{kind}", KINDS[kind])


def pieces_of(
    kind: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, only: Sequence[str], address: str
) -> Iterator[str]:
    """The text of such a file, piece by piece, so that a long one need not be held whole.

    It has those columns that `only` names; all of them where it names none of these.
    """
    places = [place for place, name in enumerate(columns) if name in set(only)]
    if places:
        columns, rows = [columns[place] for place in places], ([row[place] for place in places] for row in rows)
    if kind == CSV:
        yield from _lines_of_csv([*columns, address], rows)
        return
    told = (json.dumps(dict(zip(columns, map(_plain, row), strict=True))) for row in rows)
    if kind == NDJSON:
        yield from (f"{one}\n" for one in told)
        return
    yield f'{{\n "address": {json.dumps(address)},\n "rows": ['
    first = next(told, None)
    if first is not None:
        yield f"\n  {first}"
        yield from (f",\n  {one}" for one in told)
        yield "\n "
    yield "]\n}"


def json_answer(request: HttpRequest, name: str, document: Mapping[str, Any]) -> HttpResponse:
    """A document as a file; `address` says where it can be seen."""
    return _file(json.dumps({"address": address_of(request), **document}, indent=1), f"{name}.json", "application/json")


def csv_answer(name: str, columns: Sequence[Cell], rows: Iterable[Sequence[Cell]]) -> HttpResponse:
    """Rows as a CSV file of this name; no cell of it is run."""
    return _file("".join(_lines_of_csv(columns, rows)), f"{name}.csv", KINDS[CSV])


def _lines_of_csv(columns: Sequence[Cell], rows: Iterable[Sequence[Cell]]) -> Iterator[str]:
    written = _Written()
    lines = csv.writer(written, quoting=csv.QUOTE_NONNUMERIC)
    for row in chain([columns], rows):
        # Numbers and nothing are written as they are; for so many cells the way there costs more than the look.
        lines.writerow([one if one is None or type(one) in _NUMBERS else csv_cell(one) for one in row])
        yield written.line


class _Written:
    """Where a line of CSV is written to."""

    line = ""

    def write(self, line: str) -> None:
        """Keep it until the next one."""
        self.line = line


def markdown_answer(
    request: HttpRequest, name: str, title: str, lines: Iterable[str], tables: Iterable[Table]
) -> HttpResponse:
    """A page as a Markdown file."""
    return _file(markdown_of(title, lines, tables, address=address_of(request)), f"{name}.md", MARKDOWN_TYPE)


def markdown_of(title: str, lines: Iterable[str], tables: Iterable[Table], *, address: str) -> str:
    """A page as Markdown: its title, its sentences, its tables, and where it can be seen."""
    parts = [f"# {_escaped(title)}", *(f"- {_escaped(line)}" for line in lines), "", f"<{address}>", ""]
    for table in tables:
        if table.rows:
            parts += [f"## {_escaped(table.title)}", "", *_markdown(table), ""]
    return "\n".join(parts)


def _markdown(table: Table) -> Iterable[str]:
    yield f"| {' | '.join(map(_escaped, table.columns))} |"
    yield f"|{' --- |' * len(table.columns)}"
    for row in table.rows:
        yield f"| {' | '.join(_escaped('unknown' if value is None else str(value)) for value in row)} |"


def csv_cell(value: Cell) -> str | int | float:
    """A cell that is read as what it is: a text that a spreadsheet would run stands behind an apostrophe."""
    if type(value) is str and (not value or (value[0].isalnum() and value.isprintable() and ";" not in value)):
        return value
    if type(value) is datetime:
        return _moment(value)
    plain = _plain(value)
    if plain is None:
        return ""
    if isinstance(plain, bool):
        return "yes" if plain else "no"
    if not isinstance(plain, str):
        return plain
    # A row is a line: who reads files line by line sees no other one.
    return " ⏎ ".join(_BEFORE_A_FORMULA.sub(r"\1'", plain).splitlines())


def _plain(value: Cell) -> str | int | float | None:
    """A value as JSON has it."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    return str(value)


def _moment(value: datetime) -> str:
    at = value if value.tzinfo is UTC else value.astimezone(UTC)
    return f"{at.isoformat(timespec='milliseconds')[: -len('+00:00')]}Z"


def _escaped(text: str) -> str:
    """Text that stays text: it comes from agents, and Markdown lets HTML and links through."""
    plain = re.sub(r"([\\`*_{}\[\]#|!~])", r"\\\1", " ".join(text.split()))
    return escape(plain, quote=False)


def address_of(request: HttpRequest) -> str:
    """The page without the word that makes a file of it."""
    query = request.GET.copy()
    for name in ("format", ONLY):
        query.pop(name, None)
    path = escape_uri_path(request.path)
    return request.build_absolute_uri(f"{path}?{query.urlencode()}" if query else path)


def _file(content: str, name: str, kind: str) -> HttpResponse:
    return as_file(HttpResponse(content, content_type=kind), name)


def as_file(answer: T, name: str) -> T:
    """The answer as something that a browser keeps under this name, and nobody on the way does."""
    stem, _, ending = name.rpartition(".")
    safe = _NOT_IN_NAMES.sub("-", stem.lower()).strip("-") or "table"
    answer["Content-Disposition"] = f'attachment; filename="{safe}.{ending}"'
    answer["Cache-Control"] = "private, no-store"
    return answer

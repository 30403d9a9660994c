"""Tables as files: CSV that a spreadsheet opens without running anything, and Markdown for a post-mortem.

A file holds exactly what the page shows with the same address; the address stands in the last cell of the first row.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from io import StringIO

from django.http import HttpRequest, HttpResponse

from events.timelines import Table

CSV, MARKDOWN = "csv", "md"
_BEGINS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")

Cell = object
"""A text, number, moment or length of time; None for what is not known."""


def is_asked(request: HttpRequest, kind: str = CSV) -> bool:
    """Whether the address asks for a file of this kind: `format=csv`."""
    return request.GET.get("format") == kind


def csv_answer(request: HttpRequest, name: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> HttpResponse:
    """Rows as a file. Moments are ISO in UTC, lengths of time seconds, what is not known an empty field."""
    written = StringIO()
    lines = csv.writer(written)
    lines.writerow([*map(_cell, columns), _address(request)])
    lines.writerows([_cell(value) for value in row] for row in rows)
    return _file(written.getvalue(), f"{name}.csv", "text/csv; charset=utf-8")


def markdown_answer(
    request: HttpRequest, name: str, title: str, lines: Iterable[str], tables: Iterable[Table]
) -> HttpResponse:
    """A page as Markdown: its title, its sentences, its tables, and where it can be seen."""
    parts = [f"# {_escaped(title)}", *(f"- {_escaped(line)}" for line in lines), "", f"<{_address(request)}>", ""]
    for table in tables:
        if table.rows:
            parts += [f"## {_escaped(table.title)}", "", *_markdown(table), ""]
    return _file("\n".join(parts), f"{name}.md", "text/markdown; charset=utf-8")


def _markdown(table: Table) -> Iterable[str]:
    yield f"| {' | '.join(map(_escaped, table.columns))} |"
    yield f"|{' --- |' * len(table.columns)}"
    for row in table.rows:
        yield f"| {' | '.join(_escaped('unknown' if value is None else str(value)) for value in row)} |"


def _cell(value: Cell) -> str | int | float:
    """A cell that is read as what it is: a text that a spreadsheet would run stands behind an apostrophe."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return value
    text = str(value)
    return f"'{text}" if text.lstrip(" ").startswith(_BEGINS_A_FORMULA) else text


def _escaped(text: str) -> str:
    """Text that stays text: it comes from agents, and Markdown lets HTML and links through."""
    plain = re.sub(r"([\\`*_{}\[\]#|!~])", r"\\\1", " ".join(text.split()))
    return escape(plain, quote=False)


def _address(request: HttpRequest) -> str:
    """The page without the word that makes a file of it."""
    query = request.GET.copy()
    query.pop("format", None)
    return request.build_absolute_uri(f"{request.path}?{query.urlencode()}" if query else request.path)


def _file(content: str, name: str, kind: str) -> HttpResponse:
    stem, _, ending = name.rpartition(".")
    safe = _NOT_IN_NAMES.sub("-", stem.lower()).strip("-") or "table"
    answer = HttpResponse(content, content_type=kind)
    answer["Content-Disposition"] = f'attachment; filename="{safe}.{ending}"'
    answer["Cache-Control"] = "private, no-store"
    return answer

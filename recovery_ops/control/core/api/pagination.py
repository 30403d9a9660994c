"""Every list page by page, by one convention: `limit` rows from `cursor` on, and `next`, where the rest is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import urlencode

from django.db.models import Model, QuerySet
from django.utils.encoding import escape_uri_path
from rest_framework.request import Request

from recovery_ops.control.core.api.requests import read_number_parameter
from recovery_ops.control.core.cursors import BadCursor, Place, after_place, cut, place_of
from recovery_ops.control.core.rejections import CommandRejected

MOST = 200
USUAL = 50
T = TypeVar("T")
M = TypeVar("M", bound=Model)
Next = str | None
"""The address of the next page, None at the end."""
_CURSOR = "start of the page, the `cursor` in the address `next` of an answer; empty for the first page"


def paged(most: int = MOST) -> dict[str, str]:
    """The parameters of a list, for `asks`."""
    return {"limit": f"from 1 to {most}", "cursor": _CURSOR}


def asked_for(request: Request, kinds: Sequence[type], *, most: int = MOST) -> tuple[int, Place | None]:
    """How many rows, and behind which place. Raises CommandRejected (400)."""
    limit = read_number_parameter(request, "limit", USUAL)
    if not 1 <= limit <= most:
        raise CommandRejected("invalid", f"limit is from 1 to {most}.", fields={"limit": f"is from 1 to {most}"})
    given = request.query_params.get("cursor", "")
    try:
        return limit, place_of(given, kinds) if given else None
    except BadCursor:
        detail = "cursor does not belong to this list; request the address `next` of an answer, or omit cursor."
        raise CommandRejected("bad_cursor", detail, fields={"cursor": "does not belong to this list"}) from None


def page_of(
    request: Request,
    rows: Iterable[T],
    place: Callable[[T], Place],
    kinds: Sequence[type],
    *,
    span: tuple[datetime, datetime] | None = None,
) -> tuple[list[T], Next]:
    """A page of rows that are all at hand, in the order of their places; a `span` is kept for the pages to come.

    Raises CommandRejected (400).
    """
    limit, after = asked_for(request, kinds)
    shown, cursor = after_place(rows, place, after, limit)
    return shown, next_page(request, cursor, span)


def newest_of(request: Request, found: QuerySet[M], field: str = "number", *, most: int = MOST) -> tuple[list[M], Next]:
    """A page of what has a number that grows, the newest first. Raises CommandRejected (400)."""
    limit, after = asked_for(request, (int,), most=most)
    if after is not None:
        found = found.filter(**{f"{field}__lt": after[0]})
    rows = list(found.order_by(f"-{field}")[: limit + 1])
    shown, cursor = cut(rows, lambda row: (getattr(row, field),), limit)
    return shown, next_page(request, cursor)


def next_page(request: Request, cursor: str, span: tuple[datetime, datetime] | None = None) -> Next:
    """The address of the page behind a cursor, with everything else that was asked for."""
    if not cursor:
        return None
    asked: dict[str, Any] = request.query_params.dict()
    if span is not None:
        asked |= {"from": span[0].isoformat(), "to": span[1].isoformat()}
    return f"{escape_uri_path(request.path)}?{urlencode(asked | {'cursor': cursor})}"

"""What is remembered of a trace as long as nothing in it is known to have failed: whose child went well.

A child that went well after another failed shows that their parent, should it fail, fails by itself. It may be sent
before the other two, from another service or past a Collector that tries again, when nothing says yet that its trace
will matter. So the parent's place is kept, and that child's end, for whoever finds that the parent failed.
"""

# ruff: noqa: S608  (nothing but constants is put together; every value is a parameter)

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import orjson
from django.db import connection

from events.models import OpenParent

MOST_KEPT = 2_000_000
"""A sweep leaves so many, the newest: each is about a hundred bytes, and a busy fleet has as many in half an hour."""


class SpanOf(NamedTuple):
    """A span of an environment."""

    environment: str
    trace_id: str
    span_id: str


_INTO = "INSERT INTO events_openparent (key, whole_ns, seen_us)"
_JOINED = (
    "ON CONFLICT (key) DO UPDATE SET seen_us = excluded.seen_us,"
    " whole_ns = CASE WHEN excluded.whole_ns > events_openparent.whole_ns"
    " THEN excluded.whole_ns ELSE events_openparent.whole_ns END"
)
# In one statement and in order: two processes that remember the same wait for each other, and never for ever.
_REMEMBER = {
    "postgresql": f"{_INTO} SELECT key, ends, %s FROM unnest(%s::bigint[], %s::bigint[]) AS told(key, ends) {_JOINED}",
    "sqlite": (
        f"{_INTO} SELECT told.value, ends.value, %s FROM json_each(%s) AS told"
        f" JOIN json_each(%s) AS ends ON ends.key = told.key WHERE true {_JOINED}"
    ),
}
_RECALL = {
    "postgresql": "SELECT key, whole_ns FROM events_openparent WHERE key = ANY(%s::bigint[])",
    "sqlite": "SELECT key, whole_ns FROM events_openparent WHERE key IN (SELECT value FROM json_each(%s))",
}


def remember(ends_ns: Mapping[SpanOf, int], seen_us: int) -> None:
    """Note when the last child of each of these spans ended that went well."""
    if not ends_ns:
        return
    ordered = sorted((_key(span), end_ns) for span, end_ns in ends_ns.items())
    told = [_list([key for key, _ in ordered]), _list([end_ns for _, end_ns in ordered])]
    with connection.cursor() as cursor:
        cursor.execute(_REMEMBER[connection.vendor], [seen_us, *told])


def recall(spans: Iterable[SpanOf]) -> dict[SpanOf, int]:
    """When the last child of each of these ended that went well, of those of which one is remembered."""
    keys = {_key(span): span for span in spans}
    if not keys:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_RECALL[connection.vendor], [_list(list(keys))])
        return {keys[key]: whole_ns for key, whole_ns in cursor.fetchall()}


def since_us() -> int:
    """Since when one has to have been told of to be among those that are kept; 0 where they are few."""
    newest = OpenParent.objects.order_by("-seen_us").values_list("seen_us", flat=True)
    return newest[MOST_KEPT : MOST_KEPT + 1].first() or 0


def _list(numbers: list[int]) -> list[int] | str:
    return orjson.dumps(numbers).decode() if connection.vendor == "sqlite" else numbers


def _key(span: SpanOf) -> int:
    digest = hashlib.blake2b("/".join(span).encode(errors="replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)

"""What is remembered of a trace as long as nothing in it is known to have failed: whose child went well.

A child that went well after another failed shows that their parent, should it fail, fails by itself. It may be sent
before the other two, from another service or past a Collector that tries again, when nothing says yet that its trace
will matter. So the parent's place is kept, and that child's end, for whoever finds that the parent failed.
"""

# ruff: noqa: S608  (nothing but constants is put together; every value is a parameter)

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

import orjson
from django.db import connection, models

from events.store.copying import array_of

MOST_KEPT = 2_000_000
"""So many a process remembers in an hour, and so many a sweep leaves, the newest; one is about ninety bytes."""
_HOUR_US = 3_600_000_000


class OpenParent(models.Model):
    """A span that has not come yet, of a trace in which nothing is known to have failed, of which a child went well.

    Nearly all of these are never asked for, so they are small: eight bytes stand for a span's place.
    """

    key = models.BigIntegerField(primary_key=True, help_text="Of its environment, trace and span.")
    whole_ns = models.BigIntegerField(help_text="The end of its last child that went well.")
    seen_us = models.BigIntegerField(help_text="When it was last told of.")

    class Meta:
        indexes = [models.Index(fields=["seen_us"], name="open_parent_by_time")]

    def __str__(self) -> str:
        return f"{self.key:x}"


class SpanOf(NamedTuple):
    """A span of an environment."""

    environment: str
    trace_id: str
    span_id: str


_INTO = "INSERT INTO events_openparent (key, whole_ns, seen_us)"
_JOINED = "ON CONFLICT (key) DO UPDATE SET " + ", ".join(
    f"{name} = CASE WHEN excluded.{name} > {mine} THEN excluded.{name} ELSE {mine} END"
    for name, mine in (("whole_ns", "events_openparent.whole_ns"), ("seen_us", "events_openparent.seen_us"))
)
# In one statement and in order: two processes that remember the same wait for each other, and never for ever.
_REMEMBER = {
    "postgresql": f"{_INTO} SELECT key, ends, %s FROM unnest(%s::bigint[], %s::bigint[]) AS told(key, ends) {_JOINED}",
    "sqlite": (
        f"{_INTO} SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), %s FROM json_each(%s)"
        f" WHERE true {_JOINED}"
    ),
}
_RECALL = {
    "postgresql": "SELECT key, whole_ns FROM events_openparent WHERE key = ANY(%s::bigint[])",
    "sqlite": "SELECT key, whole_ns FROM events_openparent WHERE key IN (SELECT value FROM json_each(%s))",
}


class _Hour:
    """How many were remembered in this hour."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hour = self._count = 0

    def room_for(self, wanted: int, seen_us: int) -> int:
        """How many of these may be."""
        with self._lock:
            if (hour := seen_us // _HOUR_US) != self._hour:
                self._hour, self._count = hour, 0
            room = max(0, min(wanted, MOST_KEPT - self._count))
            self._count += room
            return room


_hour = _Hour()


def remember(ends_ns: Mapping[SpanOf, int], seen_us: int) -> None:
    """Note when the last child of each of these spans ended that went well; nothing of what is too much for an hour."""
    room = _hour.room_for(len(ends_ns), seen_us)
    ends: dict[int, int] = {}
    for span, end_ns in islice(ends_ns.items(), room):
        key = _key(span)
        ends[key] = max(ends.get(key, 0), end_ns)
    if not ends:
        return
    ordered = sorted(ends.items())
    is_sqlite = connection.vendor == "sqlite"
    told = [orjson.dumps(ordered).decode()] if is_sqlite else [array_of(one) for one in zip(*ordered, strict=True)]
    with connection.cursor() as cursor:
        cursor.execute(_REMEMBER[connection.vendor], [seen_us, *told])


def recall(spans: Iterable[SpanOf]) -> dict[SpanOf, int]:
    """When the last child of each of these ended that went well, of those of which one is remembered."""
    keys = {_key(span): span for span in spans}
    if not keys:
        return {}
    with connection.cursor() as cursor:
        listed = orjson.dumps(list(keys)).decode() if connection.vendor == "sqlite" else array_of(list(keys))
        cursor.execute(_RECALL[connection.vendor], [listed])
        return {keys[key]: whole_ns for key, whole_ns in cursor.fetchall()}


def since_us() -> int:
    """Since when one has to have been told of to be among those that are kept; 0 where they are few."""
    newest = OpenParent.objects.order_by("-seen_us").values_list("seen_us", flat=True)
    return newest[MOST_KEPT : MOST_KEPT + 1].first() or 0


def _key(span: SpanOf) -> int:
    digest = hashlib.blake2b("/".join(span).encode(errors="replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)

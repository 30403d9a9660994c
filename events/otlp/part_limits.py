"""Refuses bodies that hold far more parts than anybody sends, before a parser makes an object of each.

Two bytes can be a whole record, attribute or member of a list, and what is made of them in memory is thirty times that.
So the size of a body alone bounds nothing: its parts are counted by their framing, which keeps nothing, and counting
ends where there are too many. Small bodies are let through: the most that can be made of them is small, too.
"""

from __future__ import annotations

from events.otlp.sent import Malformed, Signal

UNCOUNTED_BYTES = 2**22
"""A body of at most this is not counted: the worst of them takes some 120 MB for as long as it is read."""
MOST_PARTS = 2_000_000
"""Messages and fields in protobuf, of 65,536 records with 15 attributes each."""
MOST_MEMBERS = 1_500_000
"""Objects, lists and members in JSON, which names each thing: of some 18,000 such records."""
MOST_SCOPES = 50_000
"""Resources, or scopes, of one request; a Collector that keeps each record apart sends 8,192."""
MOST_RECORDS = 65_536
"""Records, or spans, of one request, however small."""

_PART, _SCOPE_PART, _RESOURCE, _SCOPE, _PAIR, _ANY, _LIST, _MAP, _LOG, _SPAN, _EVENT, _LINK, _LOGS, _SPANS = range(14)
_SPAN_PART, _SPAN_SCOPE_PART = 14, 15
_INSIDE: tuple[dict[int, int], ...] = (
    {1: _RESOURCE, 2: _SCOPE_PART},
    {1: _SCOPE, 2: _LOG},
    {1: _PAIR},
    {3: _PAIR},
    {2: _ANY},
    {5: _LIST, 6: _MAP},
    {1: _ANY},
    {1: _PAIR},
    {5: _ANY, 6: _PAIR},
    {9: _PAIR, 11: _EVENT, 13: _LINK},
    {3: _PAIR},
    {4: _PAIR},
    {1: _PART},
    {1: _SPAN_PART},
    {1: _RESOURCE, 2: _SPAN_SCOPE_PART},
    {1: _SCOPE, 2: _SPAN},
)
"""Which fields of a message are messages that a parser makes objects of, by the numbers of opentelemetry-proto."""
_ROOT = {Signal.LOGS: _LOGS, Signal.TRACES: _SPANS}
_FIXED = {1: 8, 5: 4, 3: 0, 4: 0}
_DELIMITED, _GROUP, _END_OF_GROUP = 2, 3, 4
"""Forms of fields on the wire."""
_SHORT = 0x80
_RECORD_DEPTH = 3
"""A record is inside a scope inside a resource inside the request."""


def check_members(body: bytes) -> None:
    """Raise Malformed for JSON that holds too much. Counts quickly, so also what stands in texts."""
    if len(body) > UNCOUNTED_BYTES and body.count(b",") + body.count(b"{") + body.count(b"[") > MOST_MEMBERS:
        raise _too_many("members", MOST_MEMBERS)


def check_parts(body: bytes, signal: Signal) -> None:
    """Raise Malformed for protobuf that holds too much, or of which that cannot be told. Small bodies pass."""
    if len(body) <= UNCOUNTED_BYTES:
        return
    root = _ROOT.get(signal)
    if root is None:
        raise Malformed(f"The body holds more than {UNCOUNTED_BYTES:,} bytes of what is not kept. Send less at once.")
    if _count(body, root) > MOST_PARTS:
        raise _too_many("parts", MOST_PARTS)


def check_records(count: int) -> None:
    """Raise Malformed for more records than a request may have."""
    if count > MOST_RECORDS:
        raise _too_many("records", MOST_RECORDS)


def check_scopes(count: int) -> None:
    """Raise Malformed for more resources, or more scopes, than a request may have."""
    if count > MOST_SCOPES:
        raise _too_many("resources or scopes", MOST_SCOPES)


def _too_many(what: str, most: int) -> Malformed:
    return Malformed(f"The body holds more than {most:,} {what}. Send less at once.")


class _Broken(Exception):
    """The framing of a message ends in the middle, or says what it cannot."""


def _count(body: bytes, root: int) -> int:
    """How many fields the messages of a request have, as far as they are messages; at most one more than may be.

    What is broken inside a record, a scope or a resource ends that one: what is beside it can still be read. Raises
    Malformed for all else. So what is passed over uncounted is nothing but what a parser refuses at that place, too.
    """
    count, at = 0, 0
    ends, inside = [len(body)], [_INSIDE[root]]
    while ends:
        try:
            if at == ends[-1]:
                ends.pop()
                inside.pop()
                continue
            count += 1
            if count > MOST_PARTS:
                return count
            field, kind, size, at = _next(body, at)
            if kind == _GROUP:
                at, passed = _behind_group(body, at, field, ends[-1], MOST_PARTS - count)
                count += passed
                continue
            end = at + size
            if end > ends[-1] or kind == _END_OF_GROUP:
                raise _Broken
            within = inside[-1].get(field) if kind == _DELIMITED else None
            if within is None:
                at = end
            else:
                ends.append(end)
                inside.append(_INSIDE[within])
        except (_Broken, IndexError):
            depth = min(len(ends) - 1, _RECORD_DEPTH)
            if not depth:
                raise Malformed("The body is large, and its framing is broken. Send less at once.") from None
            at = ends[depth]
            del ends[depth:], inside[depth:]
    return count


def _behind_group(body: bytes, at: int, field: int, end: int, most: int) -> tuple[int, int]:
    """Where a group ends, a form of long ago that parsers pass over, and how many fields were passed; at most one more
    than `most`. What stands behind it counts.
    """
    groups, count = [field], 0
    while groups:
        field, kind, size, at = _next(body, at)
        count += 1
        at += size
        if at > end or (kind == _END_OF_GROUP and groups.pop() != field):
            raise _Broken
        if kind == _GROUP:
            groups.append(field)
        if count > most:
            break
    return at, count


def _next(body: bytes, at: int) -> tuple[int, int, int, int]:
    """A field's number, its form, how many bytes follow, and where they begin."""
    tag, at = body[at], at + 1
    if tag >= _SHORT:
        tag, at = _rest(body, at, tag & 0x7F)
    kind = tag & 7
    if kind == _DELIMITED:
        size, at = body[at], at + 1
        if size >= _SHORT:
            size, at = _rest(body, at, size & 0x7F)
        return tag >> 3, kind, size, at
    if kind in _FIXED:
        return tag >> 3, kind, _FIXED[kind], at
    if kind:
        raise _Broken
    while body[at] >= _SHORT:
        at += 1
    return tag >> 3, kind, 1, at


def _rest(body: bytes, at: int, number: int) -> tuple[int, int]:
    """A number whose first seven bits are known, and where it ends."""
    shift = 7
    while body[at] >= _SHORT:
        if shift > 63:
            raise _Broken
        number |= (body[at] & 0x7F) << shift
        shift += 7
        at += 1
    return number | body[at] << shift, at + 1

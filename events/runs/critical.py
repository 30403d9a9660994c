"""What the end of a run waited for: the chain of attempts and waits that led up to it, backwards from it. Pure.

Of two that were under way at the same time the one that ended later was waited for. An attempt is gone into where its
span has spans under it: what was told in those while it lasted is what it waited for itself. Spans tell that, moments
alone do not: what merely happened to lie within an attempt may have gone on beside it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate

from events.queries.readings import text_of
from events.queries.sums import capacity_name
from events.runs.records import RunRecord
from events.runs.waterfall import Item, Tree
from recovery_ops.rules.events import AttemptSucceeded, FailureClassified, RetryScheduled, WaitHeartbeat
from recovery_ops.wire import names

_SLACK = timedelta(milliseconds=5)
"""Moments and lengths are told rounded: what ends so little after another began came before it."""
_NOBODY = "unnamed"
_FAILED = names.EVENTS[FailureClassified].name
_ATTEMPTS = (_FAILED, names.EVENTS[AttemptSucceeded].name)
_WAITS = tuple(names.EVENTS[one].name for one in (RetryScheduled, WaitHeartbeat))


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalPath:
    """The chain, by the facts that told of it; `waits_s`: by whom was waited for, the longest first.

    What is left of `length_s` was told by nothing: the run's own work, and attempts that went well at once.
    """

    facts: frozenset[int]
    length_s: float
    waits_s: Mapping[str, float]
    attempts_s: float


@dataclass(slots=True)
class _Link:
    """An attempt, or a wait for somebody."""

    record: RunRecord
    start: datetime
    end: datetime
    waits_for: str
    inside: list[_Link] = field(default_factory=list)


@dataclass(slots=True)
class _Span:
    """The links that were told in one span, and the span that it stands under."""

    above: _Span | None
    links: list[_Link] = field(default_factory=list)
    starts: list[datetime] = field(default_factory=list)
    last_ends: list[_Link] = field(default_factory=list)
    """Of the attempts up to each start, the one that ended last."""

    def around(self, link: _Link) -> _Link | None:
        """An attempt of this span that was under way all the while, if there is one."""
        place = bisect_right(self.starts, link.start + _SLACK) - 1
        found = self.last_ends[place] if place >= 0 else None
        return found if found is not None and found.end >= link.end - _SLACK else None


def critical_path(trees: Iterable[Tree], *, start: datetime, end: datetime) -> CriticalPath:
    """The chain within a run that began and ended then."""
    spans = [span for tree in trees for span in _spans(tree.items, end)]
    outermost = [link for span in spans for link in span.links if not _is_laid_in(span, link)]
    facts: set[int] = set()
    waits_s: dict[str, float] = defaultdict(float)
    attempts_s = _follow(outermost, start, end, facts, waits_s)
    return CriticalPath(
        facts=frozenset(facts),
        length_s=max(0.0, (end - start).total_seconds()),
        waits_s=dict(sorted(waits_s.items(), key=lambda item: -item[1])),
        attempts_s=attempts_s - sum(waits_s.values()),
    )


def _follow(
    links: Iterable[_Link], start: datetime, end: datetime, facts: set[int], waits_s: dict[str, float]
) -> float:
    """Note the chain of these between two moments, and what lies in it; how many seconds of them it is."""
    followed_s, until = 0.0, end
    for link in sorted(links, key=lambda one: (one.end, one.start), reverse=True):
        begin, ended = max(link.start, start), min(link.end, until)
        if link.end > until + _SLACK or begin >= ended:
            continue
        facts.add(link.record.fact_id)
        took_s = (ended - begin).total_seconds()
        if link.waits_for:
            waits_s[link.waits_for] += took_s
        _follow(link.inside, begin, ended, facts, waits_s)
        followed_s, until = followed_s + took_s, begin
    return followed_s


def _is_laid_in(span: _Span, link: _Link) -> bool:
    """Whether an attempt of a span above was under way all the while; the link is put into it then."""
    above = span.above
    while above is not None:
        if (outer := above.around(link)) is not None:
            outer.inside.append(link)
            return True
        above = above.above
    return False


def _spans(items: Sequence[Item], end: datetime) -> list[_Span]:
    """The spans of a tree, each after the one that it stands under."""
    spans: list[_Span] = []
    path: list[_Span] = []
    backends: dict[str, str] = {}
    for item in items:
        one = item.record
        if one is None:
            del path[item.depth :]
            path.append(_Span(above=path[-1] if path else None))
            spans.append(path[-1])
            continue
        if one.event == _FAILED:
            provider, model = (text_of(one.attributes.get(names.ATTRIBUTES[name])) for name in ("provider", "model"))
            backends[one.operation] = capacity_name(provider, model, one.operation)
        if item.took and (one.event in _ATTEMPTS or one.event in _WAITS):
            waits_for = (backends.get(one.operation) or one.operation or _NOBODY) if one.event in _WAITS else ""
            path[-1].links.append(_Link(one, item.start, min(item.end, end), waits_for))
    for span in spans:
        _settle(span)
    return spans


def _settle(span: _Span) -> None:
    """A wait ends where its operation is called again, however long it was to be; attempts are ready to be found."""
    attempts = sorted((one for one in span.links if not one.waits_for), key=lambda one: one.start)
    calls: dict[str, list[datetime]] = defaultdict(list)
    for one in attempts:
        calls[one.record.operation].append(one.start)
    for one in span.links:
        if one.waits_for:
            later = calls[one.record.operation]
            place = bisect_right(later, one.start)
            one.end = min(one.end, later[place]) if place < len(later) else one.end
    span.starts = [one.start for one in attempts]
    span.last_ends = list(accumulate(attempts, _later))


def _later(one: _Link, other: _Link) -> _Link:
    return other if other.end >= one.end else one

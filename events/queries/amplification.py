"""Amplification: how many attempts a logical operation takes, by operation and query source, and who spends the rest.

What is spent are the attempts that retries and stand-ins add to a provider's load.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, pairwise
from typing import Any

from django.db.models import Q, QuerySet, Sum

from events.models import MinuteSum, SpanSum
from events.moments import MINUTE_S, US_PER_S, from_us, to_us
from events.projections.sum_views import VIEWS, View
from recovery_ops.rules.enums import CAPACITY

FACTOR_MOST = 1.5
"""Above this many attempts for each call there is a finding."""
CALLS_LEAST = 20
"""Of fewer calls nobody concludes anything."""

_MINUTE_US = MINUTE_S * US_PER_S
_WIDTHS_MIN = VIEWS[View.EFFORT]
_CAPACITY = [category.value for category in CAPACITY]
_MEASURES = ("calls", "attempts", "failures", "retries", "inner_retries")


@dataclass(frozen=True, slots=True, kw_only=True)
class AmplificationRow:
    """One operation as one source calls it. `spent_share` is its part of all that is spent.

    `calls` are all that were begun; those that a breaker, a gate or a person refused made no attempt.
    """

    operation: str
    source: str
    is_foreground: bool
    calls: int
    attempts: int
    failures: int
    retries: int
    inner_retries: int
    """Retries that clients made by themselves within failed attempts, where their errors say so: beside `attempts`."""
    spent_share: float

    @property
    def factor(self) -> float | None:
        """Attempts for each call that was attempted; None where none was."""
        return self.attempts / self.attempted if self.attempted else None

    @property
    def attempted(self) -> int:
        """The calls that made an attempt: as many as there are first attempts."""
        return max(0, self.attempts - self.extra)

    @property
    def extra(self) -> int:
        """Attempts beyond the first of each call; all those of what only ever stands in for something else."""
        return spent_on_more(self.calls, self.attempts, self.retries)

    @property
    def place(self) -> tuple[int, int, str, str, int]:
        """Its place in the list: those that spend most first."""
        return -self.extra, -self.attempts, self.operation, self.source, int(self.is_foreground)

    @property
    def is_finding(self) -> bool:
        """Whether somebody should look at it."""
        return self.attempted >= CALLS_LEAST and self.factor is not None and self.factor > FACTOR_MOST


PLACE = (int, int, str, str, int)
"""Of what `AmplificationRow.place` is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amplification:
    """All rows of a window, those that spend most first."""

    start: datetime
    end: datetime
    """The whole minutes that are counted: those in which the range starts and ends are counted whole."""
    rows: tuple[AmplificationRow, ...]
    background_capacity_retries: int
    """Retries after a capacity failure for which nobody waited: the rules make none."""

    @property
    def calls(self) -> int:
        return sum(row.calls for row in self.rows)

    @property
    def attempts(self) -> int:
        return sum(row.attempts for row in self.rows)

    @property
    def attempted(self) -> int:
        """The calls that made an attempt."""
        return sum(row.attempted for row in self.rows)

    @property
    def factor(self) -> float | None:
        """Attempts for each call that was attempted, over everything."""
        return self.attempts / self.attempted if self.attempted else None

    @property
    def extra(self) -> int:
        """What is spent, over everything."""
        return sum(row.extra for row in self.rows)

    @property
    def background_share(self) -> float | None:
        """The share of what is spent that nobody waits for; None where nothing is."""
        return sum(row.extra for row in self.rows if not row.is_foreground) / self.extra if self.extra else None

    @property
    def retry_share(self) -> float | None:
        """Retries for each call that was attempted, which is what a retry budget bounds; None where none was."""
        return sum(row.retries for row in self.rows) / self.attempted if self.attempted else None

    @property
    def retried_below(self) -> tuple[AmplificationRow, ...]:
        """The rows whose clients retry by themselves, too: the most such retries first."""
        return tuple(sorted((row for row in self.rows if row.inner_retries), key=lambda row: -row.inner_retries))

    @property
    def findings(self) -> tuple[AmplificationRow, ...]:
        """The rows that somebody should look at, the highest factor first."""
        return tuple(sorted((row for row in self.rows if row.is_finding), key=lambda row: -(row.factor or 0)))


def amplification(environment: str, *, start: datetime, end: datetime) -> Amplification:
    """What was called and attempted in [start, end), in whole minutes. At most four queries over sums.

    Indexes: `minute_sum_once`, `span_sum_once`.
    """
    minutes = range(to_us(start) // _MINUTE_US, -(-to_us(end) // _MINUTE_US))  # a minute that begins at the end is out
    counts: dict[tuple[str, str, bool], dict[str, int]] = defaultdict(lambda: dict.fromkeys(_MEASURES, 0))
    refused = 0
    for row in _grouped(environment, minutes):
        one = counts[row["operation"], row["source"], row["is_foreground"]]
        for measure in _MEASURES:
            one[measure] += row[measure]
        refused += row["refused"] or 0
    for one in counts.values():
        if one["retries"] >= one["attempts"]:  # failures are told at once, too
            one["attempts"] = max(one["attempts"], one["failures"] if one["retries"] else 0)
            one["calls"] = max(one["calls"], int(one["attempts"] > 0))
    spent = {name: spent_on_more(one["calls"], one["attempts"], one["retries"]) for name, one in counts.items()}
    extra = sum(spent.values())
    rows = [
        AmplificationRow(
            operation=operation,
            source=source,
            is_foreground=is_foreground,
            **one,
            spent_share=spent[operation, source, is_foreground] / extra if extra else 0.0,
        )
        for (operation, source, is_foreground), one in counts.items()
        if any(one.values())
    ]
    rows.sort(key=lambda row: row.place)
    return Amplification(
        start=from_us(minutes.start * _MINUTE_US),
        end=from_us(minutes.stop * _MINUTE_US),
        rows=tuple(rows),
        background_capacity_retries=refused,
    )


def spent_on_more(calls: int, attempts: int, retries: int) -> int:
    """The attempts beyond the first of each call. Calls that were refused made none, so attempts beyond calls alone
    would hide retries.

    Senders that tell no retries one by one are taken at their word that every call made its attempt. Retries are told
    at once and attempts every ten seconds: where retries are ahead, one attempt at least was the first of a call.
    """
    return max(min(retries, attempts - 1) if attempts else retries, attempts - calls)


def _grouped(environment: str, minutes: range) -> Iterator[Mapping[str, Any]]:
    """The widest sums that fit: two hours in the middle, shorter ones beside it, minutes at the ends."""
    pieces = _pieces(minutes.start, minutes.stop)
    effort = SpanSum.objects.filter(environment=environment, view=View.EFFORT)
    for width in _WIDTHS_MIN:
        spans = [range(piece.start // width, piece.stop // width) for piece in pieces.get(width, ())]
        if spans:
            yield from _added_up(effort.filter(_within(spans), minutes=width), Sum("overloaded"))
    refused = Sum("retries", filter=Q(category__in=_CAPACITY, is_foreground=False))
    for piece in pieces.get(1, ()):
        sums = MinuteSum.objects.filter(environment=environment, minute__gte=piece.start, minute__lt=piece.stop)
        yield from _added_up(sums, refused)


def _within(spans: Sequence[range]) -> Q:
    """These spans. Those of two sides by their numbers: for two ranges SQLite reads all sums of this width."""
    if len(spans) > 1:
        return Q(span__in=list(chain(*spans)))
    return Q(span__gte=spans[0].start, span__lt=spans[0].stop)


def _pieces(first: int, until: int) -> Mapping[int, Sequence[range]]:
    """The minutes from `first` on, before `until`, as ranges by the width of the spans that cover each."""
    found: dict[int, list[range]] = {}
    inner = range(first, until)
    for before, width in pairwise((1, *_WIDTHS_MIN)):
        start, stop = -(-inner.start // width) * width, inner.stop // width * width
        whole = range(start, stop) if start < stop else range(inner.start, inner.start)
        sides = (range(inner.start, whole.start), range(whole.stop, inner.stop))
        found[before] = [side for side in sides if side]
        inner = whole
    found[_WIDTHS_MIN[-1]] = [inner] if inner else []
    return found


def _added_up(sums: QuerySet[Any], refused: Sum) -> Iterable[Mapping[str, Any]]:
    kept = sums.exclude(operation="").values("operation", "source", "is_foreground")
    # First what reads `retries`: afterwards that name is a sum.
    counted = kept.annotate(refused=refused).annotate(**{one: Sum(one) for one in _MEASURES})
    found: Iterable[Mapping[str, Any]] = counted.order_by()
    return found

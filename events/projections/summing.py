"""Adds facts up: per minute in all dimensions, and from there per longer span and in fewer dimensions. Pure.

A figure reads the widest spans that fit its bins, in the view that has just the dimensions it shows, so that a week is
as few rows as an hour. Every sum is a sum of sums: in whatever order and batches facts come, all of them end the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from operator import add, mul
from typing import Any, NamedTuple

from events.models import LANE_MINUTES
from events.projections.sum_views import VIEWS, View
from events.rows import RANK
from recovery_ops.rules.enums import CAPACITY, Category, State

COUNTERS = (
    *("facts", "failures", "rate_limited", "overloaded", "retries", "fallbacks", "rejections", "exhausted"),
    *("degradations", "model_fallbacks", "calls", "attempts", "successes", "inner_retries"),
)
COUNTER_OF = {
    "retry_scheduled": COUNTERS.index("retries"),
    "fallback_activated": COUNTERS.index("fallbacks"),
    "exhausted": COUNTERS.index("exhausted"),
    "degradation_started": COUNTERS.index("degradations"),
    "model_fallback": COUNTERS.index("model_fallbacks"),
}
FACTS, FAILURES, RATE_LIMITED, OVERLOADED = range(4)
REJECTIONS = COUNTERS.index("rejections")
CALLS = COUNTERS.index("calls")
INNER_RETRIES = COUNTERS.index("inner_retries")
_RETRIES = COUNTERS.index("retries")
_CAPACITY = frozenset(category.value for category in CAPACITY)
CAPACITY_429, CAPACITY_529 = Category.RATE_LIMITED.value, Category.OVERLOADED.value


def capacity_kinds(status_code: object, category: str) -> tuple[bool, bool]:
    """Whether a failure counts as rate limited (429), and whether as overloaded (529)."""
    return status_code == 429 or category == CAPACITY_429, status_code == 529 or category == CAPACITY_529


_Mask = tuple[bool, ...]
"""Which counters a view takes."""


def _mask(*names: str) -> _Mask:
    return tuple(name in names for name in COUNTERS)


_NO_MORE = [0] * (len(COUNTERS) - 1)
_OF_BACKENDS = _mask("failures", "rate_limited", "overloaded", "calls")
_OF_CALLS, _OF_FAILURES = _mask("calls"), _mask("failures", "rate_limited", "overloaded")
_OF_NAMELESS = _mask("rate_limited", "overloaded")
_OF_OPERATIONS = _mask("fallbacks", "rejections")
_OF_EFFORT = _mask("calls", "attempts", "failures", "retries", "inner_retries")


class SumName(NamedTuple):
    """One row of sums: a minute, and the dimensions."""

    environment: str
    minute: int
    service: str
    operation: str
    breaker: str
    source: str
    is_foreground: bool
    provider: str
    model: str
    category: str


class SpanName(NamedTuple):
    """One row of sums over `minutes` minutes, the `span`-th such span since the epoch; dimensions as the view has."""

    environment: str
    view: str
    minutes: int
    span: int
    service: str = ""
    operation: str = ""
    breaker: str = ""
    source: str = ""
    is_foreground: bool = False
    provider: str = ""
    model: str = ""
    category: str = ""


DIMENSIONS = SumName._fields[2:]

Sums = dict[SumName, list[int]]
Moves = dict[tuple[str, int, str, str], int]
"""How often breakers moved, by environment, minute, breaker and `left>entered`."""
SpanSums = dict[SpanName, list[int]]


class LaneSpan(NamedTuple):
    """One breaker in one instance, and the `span`-th span of so many minutes since the epoch."""

    environment: str
    service: str
    instance: str
    breaker: str
    minutes: int
    span: int


class LaneMoves(NamedTuple):
    """The moves in it: how many, the rank of the worst state entered, and the first and the last (see `ranked`)."""

    moves: int
    worst: int
    first: int
    last: int

    def joined(self, other: LaneMoves) -> LaneMoves:
        """Those of both."""
        return LaneMoves(
            self.moves + other.moves,
            max(self.worst, other.worst),
            min(self.first, other.first),
            max(self.last, other.last),
        )


LaneSums = dict[LaneSpan, LaneMoves]
_RANKS = {state.value: RANK[state] for state in State}


def ranked(at_us: int, state: str) -> int:
    """A moment and the rank of a state as one number, which sorts by the moment."""
    return at_us << 3 | _RANKS.get(state, RANK[State.CLOSED])


def one_move(at_us: int, left: str, entered: str) -> LaneMoves:
    """What a single move adds."""
    last = ranked(at_us, entered)
    return LaneMoves(1, last & 7, ranked(at_us, left), last)


def over_lanes(minutely: Mapping[LaneSpan, LaneMoves]) -> LaneSums:
    """The same moves over every span of `LANE_MINUTES`."""
    found: LaneSums = {}
    for name, moves in minutely.items():
        for minutes in LANE_MINUTES:
            longer = name._replace(minutes=minutes, span=name.span // minutes)
            known = found.get(longer)
            found[longer] = moves if known is None else known.joined(moves)
    return found


@lru_cache(maxsize=65536)
def dimensions_digest(dimensions: tuple[Any, ...]) -> bytes:
    """16 bytes for the values of `DIMENSIONS`."""
    return hashlib.blake2b("\x1f".join(map(str, dimensions)).encode(), digest_size=16).digest()


def over_spans(sums: Mapping[SumName, list[int]], moves: Moves) -> SpanSums:
    """The same counts over longer spans and in fewer dimensions, and the moves; rows of zeros are left out."""
    views: dict[View, dict[tuple[Any, ...], list[int]]] = {view: {} for view in VIEWS}
    for name, counters in sums.items():
        environment, minute, *_ = name
        for view, dimensions, taken in _views_of(name[2:]):
            own = counters if taken is None else list(map(mul, counters, taken))
            if view is View.EFFORT and name.category in _CAPACITY and not name.is_foreground:
                own[OVERLOADED] = counters[_RETRIES]
            if any(own):
                _add(views[view], (environment, minute, dimensions), own)
    for (environment, minute, breaker, which), count in moves.items():
        dimensions = _kept(breaker=breaker, category=which)
        _add(views[View.MOVE], (environment, minute, dimensions), [count, *_NO_MORE])
    found: SpanSums = {}
    for view, minutely in views.items():
        before, shorter = 1, minutely
        for minutes in VIEWS[view]:  # each out of the one before, of which there are fewer
            longer: dict[tuple[Any, ...], list[int]] = {}
            for (environment, span, dimensions), counters in shorter.items():
                _add(longer, (environment, span * before // minutes, dimensions), counters)
            for (environment, span, dimensions), counters in longer.items():
                found[SpanName(environment, view.value, minutes, span, *dimensions)] = counters
            before, shorter = minutes, longer
    return found


@lru_cache(maxsize=65536)
def _views_of(dimensions: tuple[Any, ...]) -> tuple[tuple[View, tuple[Any, ...], _Mask | None], ...]:
    """Each view with the dimensions that it keeps of these, and the counters that it takes; None: all.

    Which counters these are depends on the dimensions alone: else the sums would depend on how facts were batched.
    """
    _, operation, breaker, source, is_foreground, provider, model, category = dimensions
    backends: tuple[tuple[View, tuple[Any, ...], _Mask | None], ...]
    if not (provider or model):
        backends = ((View.BACKEND, _kept(operation=operation), _OF_NAMELESS),)
    elif category:
        backends = ((View.BACKEND, _kept(provider=provider, model=model, category=category), _OF_BACKENDS),)
    else:  # failures without a category here are those that a server of before counted, so ours have one in any case
        unknown = _kept(provider=provider, model=model, category=Category.UNKNOWN.value)
        backends = (
            (View.BACKEND, _kept(provider=provider, model=model), _OF_CALLS),
            (View.BACKEND, unknown, _OF_FAILURES),
        )
    return (
        (View.EACH, dimensions, None),
        (View.CATEGORY, _kept(category=category), None),
        *backends,
        (View.OPERATION, _kept(operation=operation, breaker=breaker), _OF_OPERATIONS),
        (View.EFFORT, _kept(operation=operation, source=source, is_foreground=is_foreground), _OF_EFFORT),
    )


def _kept(**dimensions: Any) -> tuple[Any, ...]:
    return SpanName("", "", 0, 0, **dimensions)[4:]


def _add(table: dict[tuple[Any, ...], list[int]], name: tuple[Any, ...], counters: list[int]) -> None:
    known = table.get(name)
    table[name] = counters if known is None else list(map(add, known, counters))

"""Sums up days of runs. Reads facts outside of any transaction; what is lost, doubled or late is read again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import F, Sum

from events.models import Fact, MinuteSum, SpanSum
from events.moments import US_PER_S, to_us
from events.projections.sum_views import View
from events.queries.beginnings import first_sign_of_life
from events.queries.sums import FAILED
from events.recoveries.models import RecoveryDay
from events.runs.stored import facts_among
from recovery_ops.rules.enums import RunStatus
from recovery_ops.rules.events import Escalated, RunFinished
from recovery_ops.wire import names

DAY_S = 86_400
REACHES_BACK_DAYS = 62
"""Two months: what the page of a month compares itself with."""
UNSETTLED_DAYS = 3
"""Facts may come so late; older days are read once."""
DAYS_AT_ONCE = 4
RUNS_MOST = 20_000
CAUSES_MOST = 50
_CHUNK = 400
_SPAN_MINUTES = 120
_SPANS_A_DAY = 24 * 60 // _SPAN_MINUTES
_FINISHED, _ASKED = names.EVENTS[RunFinished].name, names.EVENTS[Escalated].name
ENDED_WELL = frozenset({RunStatus.SUCCEEDED.value, RunStatus.DEGRADED.value})
ENDED_BADLY = frozenset({RunStatus.FAILED.value, RunStatus.STOPPED.value})
_OUTCOMES = ("alone", "helped", "lost")

Cause = tuple[str, str]
"""Operation and category."""


def sum_days(environment: str, now: datetime, *, most: int = DAYS_AT_ONCE, since: datetime | None = None) -> int:
    """Read days anew whose facts are other than at the last reading, newest first; return how many.

    What happened before `since`, a whole minute, is left out.
    """
    began = first_sign_of_life(environment)
    if began is None:
        return 0
    today = int(now.timestamp()) // DAY_S
    began = began if since is None else max(began, since)
    first = max(int(began.timestamp()) // DAY_S, today - REACHES_BACK_DAYS)
    since_us = 0 if since is None else to_us(since)
    read = RecoveryDay.objects.filter(environment=environment, day__gte=first)
    # What was read without costs is read again while its facts are there; of an older day they may be gone.
    known = dict(read.exclude(costs=None, day__gte=today - UNSETTLED_DAYS).values_list("day", "facts"))
    count = 0
    for day in range(today, first - 1, -1):
        if count == most:
            break
        if day in known and day < today - UNSETTLED_DAYS:
            continue
        part = _Day(environment, day, since_us)
        facts = _facts(part)
        if known.get(day) != facts:
            _sum(part, facts, now)
            count += 1
    return count


@dataclass(frozen=True, slots=True)
class _Day:
    """A day of an environment, from a moment on: nearly always from its beginning."""

    environment: str
    day: int
    since_us: int

    @property
    def start_us(self) -> int:
        return max(self.since_us, self.day * DAY_S * US_PER_S)

    @property
    def is_whole(self) -> bool:
        return self.start_us == self.day * DAY_S * US_PER_S


def _sum(part: _Day, facts: int, now: datetime) -> None:
    # How many facts there are was counted before they are read: what comes meanwhile is another number next time.
    ends = list(_ended(part))
    found = _causes(part)
    tally = _Tally(listed=frozenset(cause for cause, _ in found))
    for start in range(0, len(ends), _CHUNK):
        chunk = ends[start : start + _CHUNK]
        tally.add(chunk, _met(part.environment, [end.run for end in chunk]))
    causes = [
        [operation, category, failures, tally.met[operation, category], tally.lost_to[operation, category]]
        for (operation, category), failures in found
    ]
    RecoveryDay.objects.update_or_create(
        environment=part.environment,
        day=part.day,
        defaults={
            "read_us": to_us(now),
            "facts": facts,
            "is_partial": len(ends) == RUNS_MOST,
            "runs": len(ends),
            "causes": causes,
            "costs": [[operation, runs, usd] for operation, (runs, usd) in sorted(tally.costs.items())],
            **tally.numbers(),
            **_attempts(part),
        },
    )


@dataclass(frozen=True, slots=True)
class _End:
    """How a run said it ended."""

    run: str
    status: str
    took_s: float
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class _Met:
    """What the runs of a chunk met: causes of failures by run, and who asked a person."""

    causes: dict[str, set[Cause]]
    asked: set[str]


@dataclass(slots=True)
class _Tally:
    """Runs, seconds and dollars by what became of them."""

    listed: frozenset[Cause]
    """Those of which anything is kept."""
    runs: Counter[str] = field(default_factory=Counter)
    took_s: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_OUTCOMES, 0.0))
    cost_usd: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_OUTCOMES, 0.0))
    met: Counter[Cause] = field(default_factory=Counter)
    lost_to: Counter[Cause] = field(default_factory=Counter)
    costed: int = 0
    costs: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By operation the runs that met a failure of it and said what they cost, and dollars; one counts once for each."""

    def add(self, ends: Iterable[_End], met: _Met) -> None:
        for end in ends:
            causes = met.causes.get(end.run, set())
            word = _outcome(end, is_troubled=bool(causes), has_asked=end.run in met.asked)
            self.met.update(causes)
            if end.cost_usd is not None:
                for operation in {operation for operation, _ in causes & self.listed}:
                    runs, usd = self.costs.get(operation, (0, 0.0))
                    self.costs[operation] = (runs + 1, usd + end.cost_usd)
            if word == "lost":
                self.lost_to.update(causes)
            if word:
                self.runs[word] += 1
                self.took_s[word] += end.took_s
                self.costed += end.cost_usd is not None
                self.cost_usd[word] += end.cost_usd or 0.0

    def numbers(self) -> dict[str, Any]:
        """The columns."""
        found: dict[str, Any] = {"costed": self.costed}
        for word in _OUTCOMES:
            found |= {word: self.runs[word], f"{word}_s": self.took_s[word], f"{word}_usd": self.cost_usd[word]}
        return found


def _outcome(end: _End, *, is_troubled: bool, has_asked: bool) -> str:
    """`alone`, `helped`, `lost`; empty for a run that nothing happened to, or that somebody cancelled."""
    if end.status in ENDED_BADLY:
        return "lost"
    if end.status not in ENDED_WELL or not (is_troubled or has_asked):
        return ""
    return "helped" if has_asked else "alone"


def _ended(part: _Day) -> Iterator[_End]:
    """The runs that ended in a day, each by its last word; index `fact_by_event`."""
    end_us = (part.day + 1) * DAY_S * US_PER_S
    finished = Fact.objects.filter(
        environment=part.environment, event=_FINISHED, at_us__gte=part.start_us, at_us__lt=end_us, run__gt=""
    )
    said = [names.attribute_of(RunFinished, name) for name in ("status", "duration_s", "cost_usd")]
    seen: set[str] = set()
    rows = finished.order_by("-at_us", "-id").values_list("run", "attributes")
    for run, attributes in rows[:RUNS_MOST].iterator():
        if run not in seen:
            seen.add(run)
            status, took_s, cost_usd = (attributes.get(name) for name in said)
            yield _End(run, str(status), _number(took_s) or 0.0, _number(cost_usd))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None


def _met(environment: str, runs: Sequence[str]) -> _Met:
    """One query; index `fact_by_run`."""
    told = facts_among(environment, runs).filter(event__in=(FAILED, _ASKED))
    causes: dict[str, set[Cause]] = {}
    asked = set()
    for run, event, operation, category in told.values_list("run", "event", "operation", "category").distinct():
        if event == _ASKED:
            asked.add(run)
        else:
            causes.setdefault(run, set()).add((operation, category))
    return _Met(causes, asked)


def _spans(part: _Day, view: View) -> Any:
    """Its sums: those of two hours, or of the minutes of a day that is not read whole."""
    environment = part.environment
    if not part.is_whole:
        minute, end = part.start_us // US_PER_S // 60, (part.day + 1) * 24 * 60
        return MinuteSum.objects.filter(environment=environment, minute__gte=minute, minute__lt=end).order_by()
    first = part.day * _SPANS_A_DAY
    return SpanSum.objects.filter(
        environment=environment, view=view, minutes=_SPAN_MINUTES, span__gte=first, span__lt=first + _SPANS_A_DAY
    ).order_by()


def _facts(part: _Day) -> int:
    """How many facts the sums of a day hold, failures twice: one may turn out to be none. Index `span_sum_once`."""
    total = _spans(part, View.CATEGORY).aggregate(total=Sum(F("facts") + F("failures")))["total"]
    return int(total or 0)


def _attempts(part: _Day) -> dict[str, int]:
    columns = ("failures", "retries", "fallbacks", "exhausted")
    found = _spans(part, View.CATEGORY).aggregate(**{name: Sum(name) for name in columns})
    return {name: int(found[name] or 0) for name in columns}


def _causes(part: _Day) -> list[tuple[Cause, int]]:
    """Failures by operation and category, most first."""
    rows = _spans(part, View.EACH).filter(failures__gt=0).values_list("operation", "category")
    counted = rows.annotate(total=Sum("failures")).order_by(F("total").desc(), "operation", "category")
    return [((operation, category), int(total)) for operation, category, total in counted[:CAUSES_MOST]]

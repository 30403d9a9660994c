"""The tiles at the top of the overview: figure, unit, detail, trend and link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import dropwhile

from django.urls import reverse
from django.utils.safestring import SafeString

from events.charts.drawing import spark
from events.pages.scoped import ANYBODY, Backend
from events.pages.window import Window
from events.queries.overview_rows import OverviewNumbers, Trend
from events.queries.trends import Ranges, trend_of_moments
from events.wording import count_text, listing, rate_text, span_text, state_text
from recovery_ops.control.dashboard.due import ASKED, LOOKED, NEW, REGRESSED, Due, is_cut, of_kind
from recovery_ops.control.escalations.selectors.queue import EscalationRow, next_due
from recovery_ops.control.runs.status import runs_waiting_href

UNKNOWN = "–"
_SILENCE = "no agent is reporting"
_RUN_CHARS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One tile. `spark` is its trend over the range, empty where that is unknown; `delta` compares the range with the
    one before. For programs: `name` is its code, `trend` are the numbers of `delta`, `told` those of the detail, and
    `unknown` counts objects without a figure.
    """

    title: str
    figure: str
    unit: str
    detail: str
    href: str
    spark: SafeString | str = ""
    delta: str = ""
    name: str = ""
    trend: Trend | None = None
    unknown: int = 0
    told: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Over:
    """The range of the figures, in words."""

    window: Window

    @property
    def ranges(self) -> Ranges:
        """The range and the one before."""
        return Ranges(self.window.start, self.window.end, self.window.began)

    def against(self, trend: Trend, what: str = "") -> str:
        """`12 opened in 6h, 3 more than before`."""
        within = f"in {self.window.name}" if self.window.name else "in this range"
        if trend.total is None:
            return f"Unknown {within}"
        told = " ".join(part for part in (f"{trend.total:,}", what, within) if part)
        return told if trend.before is None else f"{told}, {_more(trend.total - trend.before)} before"

    def since(self, trend: Trend) -> str:
        """`2 more than 6h ago`, for a number that is a level and not a sum."""
        if trend.total is None or trend.before is None:
            return ""
        if not self.window.name:
            return f"from {trend.before:,} to {trend.total:,} in this range"
        return f"{_more(trend.total - trend.before)} {self.window.name} ago"


def _more(by: int) -> str:
    return f"{abs(by):,} {'more' if by > 0 else 'fewer'} than" if by else "as many as"


def tiles(
    numbers: OverviewNumbers,
    *,
    escalations: Sequence[EscalationRow],
    due: Sequence[Due],
    window: Window,
    now: datetime,
    backend: Backend = ANYBODY,
) -> list[Tile]:
    """One tile each for breakers, capacity, waiting runs, issues, escalations and agents. Capacity errors are those of
    `backend`, as the numbers are.
    """
    over = Over(window)
    return [
        _breakers(numbers, over),
        _capacity(numbers, over, backend),
        _waiting(numbers, over, now),
        _issues(due, over),
        _escalations(escalations, due, over, now),
        _agents(numbers, over),
    ]


def _breakers(numbers: OverviewNumbers, over: Over) -> Tile:
    blocking = numbers.breakers_blocking
    dark = numbers.breakers_dark
    is_known = numbers.breakers > dark
    detail = listing([f"{row.name} {state_text(row.worst)}" for row in blocking])
    detail = detail or "no calls blocked"
    if dark:
        detail = f"{detail}; {dark:,} unknown"
    nothing = "no agent is reporting" if numbers.breakers else "no breaker reported yet"
    return Tile(
        name="breakers",
        trend=numbers.opened,
        unknown=dark,
        title="Breakers blocking calls",
        figure=str(len(blocking)) if is_known else UNKNOWN,
        unit=f"of {numbers.breakers}",
        told={"of": numbers.breakers},
        detail=detail if is_known else nothing,
        href=f"{reverse('breakers')}{'?show=blocking' if blocking else ''}",
        spark=_spark(numbers.opened),
        delta=over.against(numbers.opened, "opened"),
    )


def _capacity(numbers: OverviewNumbers, over: Over, backend: Backend) -> Tile:
    detail = f"no 429 or 529{f' from {backend.words}' if backend.words else ''}"
    short = [one for one in numbers.capacity if backend.fits(one.provider, one.model)]
    if short:
        overloaded = sum(one.overloaded_per_min for one in short)
        limited = sum(one.rate_limited_per_min for one in short)
        kinds = [f"{rate_text(rate)} × {code}" for code, rate in ((529, overloaded), (429, limited)) if rate]
        detail = f"{', '.join(kinds)}, worst {short[0].name}"
    is_known = numbers.agents_reporting > 0 or bool(numbers.capacity)
    return Tile(
        name="capacity",
        trend=numbers.short,
        title="Capacity errors",
        figure=rate_text(sum(one.per_min for one in short)) if is_known else UNKNOWN,
        unit="per min",
        detail=detail if is_known else _SILENCE,
        href=f"{reverse('capacity')}{over.window.link}",
        spark=_spark(numbers.short),
        delta=over.against(numbers.short),
    )


def _waiting(numbers: OverviewNumbers, over: Over, now: datetime) -> Tile:
    waiting = numbers.waiting
    detail = "no run is waiting"
    if waiting.since is not None:
        run = waiting.longest if len(waiting.longest) <= _RUN_CHARS else f"{waiting.longest[:_RUN_CHARS]}…"
        detail = f"longest {span_text(int((now - waiting.since).total_seconds()))}, {run}"
    is_known = numbers.agents_reporting > 0 or waiting.runs > 0
    return Tile(
        name="waiting",
        trend=numbers.waits,
        title="Runs waiting on capacity",
        figure=f"{'≥ ' if waiting.is_cut else ''}{waiting.runs:,}" if is_known else UNKNOWN,
        unit="run" if waiting.runs == 1 else "runs",
        detail=detail if is_known else _SILENCE,
        href=runs_waiting_href(over.window.also),
        spark=_spark(numbers.waits),
        delta=over.against(numbers.waits, "wait" if numbers.waits.total == 1 else "waits"),
    )


def _issues(due: Sequence[Due], over: Over) -> Tile:
    """Issues that are new in the range or regressed, each once."""
    ranges, window = over.ranges, over.window
    back = of_kind(due, REGRESSED)
    known = of_kind(due, NEW)
    trend = trend_of_moments([one.at for one in known], ranges)
    fresh = {one.ref for one in known if window.start < one.at <= window.end}
    issues = len(fresh | {one.ref for one in back})
    is_looked_for = bool(of_kind(due, LOOKED)) and not is_cut(due)
    both = trend_of_moments([one.at for one in (*known, *back)], ranges)
    return Tile(
        name="failures",
        trend=trend if is_looked_for else None,
        title="New or regressed issues",
        figure=f"{issues:,}" if is_looked_for or back else UNKNOWN,
        unit="issues" if issues != 1 else "issue",
        detail=f"{len(back):,} regressed" if back else "none regressed",
        href=f"{reverse('failures')}{window.link}",
        spark=_spark(both) if is_looked_for else "",
        delta=over.against(trend, "new") if is_looked_for else "No notification rule detects new issues",
    )


def _escalations(rows: Sequence[EscalationRow], due: Sequence[Due], over: Over, now: datetime) -> Tile:
    """Unacknowledged escalations, and the next deadline or the first that passed."""
    unacknowledged = [row for row in rows if row.one.acknowledged_at is None]
    detail = "no deadline" if rows else "none open"
    if first := next_due(rows):
        distance = span_text(int(abs((first.due - now).total_seconds())))
        detail = f"{first.one} overdue by {distance}" if first.is_breached else f"{first.one} due in {distance}"
    trend = trend_of_moments([one.at for one in of_kind(due, ASKED)], over.ranges)
    return Tile(
        name="escalations",
        trend=None if is_cut(due) else trend,
        title="Unacknowledged",
        figure=str(len(unacknowledged)),
        unit=f"of {len(rows)} escalations",
        told={"of": len(rows)},
        detail=detail,
        href=f"{reverse('escalations')}{'?tab=unacknowledged' if unacknowledged else ''}",
        spark="" if is_cut(due) else _spark(trend),
        delta="" if is_cut(due) else over.against(trend, "opened"),
    )


def _agents(numbers: OverviewNumbers, over: Over) -> Tile:
    missing = [agent.instance for agent in numbers.silent]
    runs = count_text(numbers.runs_in_flight, "run")
    left_out = f"; excludes {count_text(numbers.left_out, 'event-only sender')}" if numbers.left_out else ""
    return Tile(
        name="agents",
        trend=numbers.reporting,
        title="Agents reporting",
        figure=str(numbers.agents_reporting),
        unit=f"of {numbers.agents}",
        told={"of": numbers.agents},
        detail=f"{f'{listing(missing, most=1)} stopped reporting' if missing else f'{runs} in progress'}{left_out}",
        href=f"{reverse('agents')}{'?state=unreachable' if missing else ''}",
        spark=_spark(numbers.reporting),
        delta=over.since(numbers.reporting),
    )


def _spark(trend: Trend) -> SafeString | str:
    """The trend since its first known bin; a line needs two points."""
    values = list(dropwhile(lambda value: value is None, trend.bins))
    return spark(values) if sum(value is not None for value in values) > 1 else ""

"""The fleet: who reports, which revision each obeys, and what waits in its outbox; as a table, cells, or in parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils import timezone

from events import queries
from events.drawing import cells
from events.empties import Empty, Why, no_agent, relaxed
from events.exports import Cell, is_asked, rows_answer
from events.narrowing import one_of
from events.pages import render_page
from events.queries.waits import runs_waiting
from events.queries.workload import Workload, Workloads, workloads
from events.rows import AgentRow
from events.wording import listing
from recovery_ops.control.actions.labelling import labels_by_instance
from recovery_ops.control.applying import note_of
from recovery_ops.control.context import visit_of
from recovery_ops.control.desired_standing import Standing
from recovery_ops.control.fleet_filter import STATES, UNREACHABLE, FleetFilter, status_of
from recovery_ops.control.paused import Heeded, Pauses
from recovery_ops.control.standings import runs_waiting_href
from recovery_ops.control.views import sentences
from recovery_ops.control.views.columns import Column, Columns
from recovery_ops.control.views.facets import facets_of
from recovery_ops.control.views.narrowing import Filter, Narrowing, narrowing_of
from recovery_ops.control.views.tiles import Tile
from recovery_ops.rules.words import ApplyStatus

MOST = 50
MOST_CELLS = 2_000
VIEWS = {
    "table": "Table",
    "grid": "Grid",
    "versions": "By version",
    "regions": "By region",
    "groups": "By group",
    "labels": "By label",
}
_YOUNG_S = 600
_UNKNOWN, _SILENCE = "–", "nobody reports"
_ORDER = (
    ApplyStatus.UNREACHABLE,
    ApplyStatus.FAILED,
    ApplyStatus.DRIFTED,
    ApplyStatus.PENDING,
    ApplyStatus.APPLIED,
)
_MARKS = {
    ApplyStatus.UNREACHABLE: "unknown",
    ApplyStatus.FAILED: "open",
    ApplyStatus.DRIFTED: "open",
    ApplyStatus.PENDING: "half_open",
    ApplyStatus.APPLIED: "closed",
}
"""With which mark an instance stands in the grid; the word is in its label."""
_LEGEND = (
    ("closed", "applied"),
    ("half_open", "pending"),
    ("open", "failed or drifted"),
    ("metrics_only", "obeys nobody"),
    ("unknown", "unreachable"),
)
_OBEYS_NOBODY = "only sends"
"""What `show` chooses beside the standings: plain senders, which follow no revision and can be late for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One instance and where it stands against the newest revision."""

    agent: AgentRow
    apply: ApplyStatus | None
    """None where it follows no revision."""
    obeys: str
    work: Workload
    labels: Sequence[str] = ()
    told: Heeded | None = None
    """What it has said of somebody's wish about its new work, while it does not do so."""

    @property
    def status(self) -> str:
        """What it says of itself."""
        return status_of(self.agent)

    @property
    def breakers_open(self) -> int | None:
        """How many of its breakers block calls; None where it is silent, and nobody knows."""
        return self.agent.breakers_open if self.agent.is_reachable else None

    @property
    def held_back(self) -> int:
        """How many of its own ceilings hold back what it applied; `obeys` names the first of them."""
        is_applied = self.apply is ApplyStatus.APPLIED and self.agent.retired_at is None
        return len(self.agent.clamped) if is_applied else 0

    @property
    def mark(self) -> str:
        """The mark of its standing."""
        if self.apply is None:
            return "metrics_only" if self.agent.is_reachable else "unknown"
        return _MARKS[self.apply]

    @property
    def rank(self) -> int:
        """The silent first, then by how far they are from what is desired; who follows nothing comes last."""
        if self.apply is None:
            return len(_ORDER) if self.agent.is_reachable else _ORDER.index(ApplyStatus.UNREACHABLE)
        return _ORDER.index(self.apply)

    @property
    def shown_by(self) -> str:
        """Which chip shows it."""
        return _OBEYS_NOBODY if self.apply is None else self.apply.value


_IN_COMMON: Mapping[str, tuple[str, Callable[[Row], Sequence[str]]]] = {
    "versions": ("version", lambda row: [row.agent.version]),
    "regions": ("region", lambda row: [row.agent.region]),
    "groups": ("group", lambda row: [row.agent.group]),
    "labels": ("label", lambda row: row.labels or [""]),
}
"""What the instances of a line have in common, by view: its name, and how an instance says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonLine:
    """The instances of one service that have one of `_IN_COMMON` in common; `name` is empty for none."""

    service: str
    name: str
    instances: int
    reporting: int
    applied: int
    breakers_open: int | None
    first_seen: datetime
    href: str


def agents(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Every instance of the last day that is asked for, silent ones first."""
    now = timezone.now()
    standing = Standing(environment, now=now)
    fleet = queries.fleet(environment, now=now)
    asked = FleetFilter.of(request.GET)
    gone = queries.retired(environment, now=now) if asked.is_of_retired else []
    work = workloads(environment, [*fleet, *gone], now=now)
    pauses = Pauses(environment, now)
    row_of = partial(_row, standing=standing, labels=labels_by_instance(environment), work=work, pauses=pauses)
    everyone = sorted(map(row_of, fleet), key=_place)
    rows = [*map(row_of, gone)] if asked.is_of_retired else everyone
    kept = [row for row in rows if asked.keeps(row.agent, now, row.labels)]
    counts, chosen = _chips(request, kept)
    may_choose = _may_choose(request, environment)
    heads = _heads(has_regions=any(row.agent.region for row in rows))
    columns = Columns(request, heads, before=int(may_choose))
    matching = columns.in_order(row for row in kept if chosen not in counts or row.shown_by == chosen)
    if is_asked(request):
        return rows_answer(request, f"agents {environment}", _COLUMNS, (_cells(row, work.since) for row in matching))
    view = one_of(request.GET, "view", VIEWS, "table")
    narrowing = narrowing_of(request, _filters(rows), asked.said)
    drifted = sum(row.apply is ApplyStatus.DRIFTED for row in everyone)
    ahead = sentences.ahead_of(fleet, standing.revision)
    context = {
        "now": now,
        "rows": matching if "all" in request.GET or view != "table" else matching[:MOST],
        "matching": len(matching),
        "total": len(rows) or len(everyone),
        "may_choose": may_choose,
        "is_of_retired": asked.is_of_retired,
        "usual": "newest first" if asked.is_of_retired else "silent first",
        "kept": len(kept),
        "empty": None if kept else _empty(environment, rows, asked, narrowing, now),
        "file_columns": _COLUMNS,
        "columns": columns,
        "narrowing": narrowing,
        "facets": list(facets_of(counts, total=len(kept), chosen=chosen, words={}, query=_rest(request))),
        "facet_word": chosen,
        "activities": pauses.activities(fleet),
        "tiles": _tiles(everyone, standing, environment, now) if everyone else [],
        **_shown_as(request, view, rows, matching),
        "ahead": ahead,
        "drifted": max(0, drifted - ahead),
        "sentence": sentences.agents(fleet, standing.revision, drifted=drifted),
        "newest_revision": standing.revision,
        "counted_since": work.since if work.is_cut else None,
        "silence_s": settings.UNREACHABLE_AFTER_S,
    }
    return render_page(request, "control/agents", context)


def _chips(request: HttpRequest, kept: Sequence[Row]) -> tuple[dict[str, int], str]:
    """How many each chip shows, those that show none left out, and which is chosen."""
    counts = Counter(row.shown_by for row in kept)
    names = (*_ORDER, _OBEYS_NOBODY)
    chosen = one_of(request.GET, "show", names)
    return {name: counts[name] for name in names if counts[name] or name == chosen}, chosen


def _may_choose(request: HttpRequest, environment: str) -> bool:
    grants = visit_of(request).grants
    return any(grants.may(permission, environment) for permission in ("annotate", "retire", "pause"))


def _shown_as(request: HttpRequest, view: str, rows: Sequence[Row], matching: Sequence[Row]) -> Mapping[str, object]:
    """The views there are, and what the chosen one is drawn of."""
    return {
        "view": view,
        "views": _views(request, rows, view),
        "groups": _groups(matching[:MOST_CELLS]) if view == "grid" else [],
        "common": _common(request, view, matching) if view in _IN_COMMON else [],
        "common_word": _IN_COMMON[view][0] if view in _IN_COMMON else "",
        "marks": _LEGEND,
        "most_cells": MOST_CELLS,
    }


def _empty(environment: str, rows: Sequence[Row], asked: FleetFilter, narrowing: Narrowing, now: datetime) -> Empty:
    """Nobody reports at all, nobody is retired, or what was asked for keeps every instance out."""
    if not rows and asked.is_of_retired:
        text = "Nobody has called one gone within a month, or all of them have spoken since."
        return Empty(why=Why.GOOD, title="No instance is retired", text=text, href="?", button="Show the fleet")
    if not rows:
        return no_agent(environment)

    def left(name: str) -> int:
        less = asked.without(name)
        return sum(less.keeps(row.agent, now, row.labels) for row in rows)

    return relaxed(narrowing.clauses(left), total=len(rows), what="instance")


def _heads(*, has_regions: bool) -> tuple[Column[Row], ...]:
    return tuple(replace(one, is_extra=True) if one.name == "region" and not has_regions else one for one in _HEADS)


_HEADS: tuple[Column[Row], ...] = (
    Column(name="instance", word="Instance", key=lambda row: row.agent.instance, is_fixed=True),
    Column(name="service", word="Service", key=lambda row: (row.agent.service, row.agent.instance)),
    Column(name="version", word="Version", key=lambda row: row.agent.version or None),
    Column(name="region", word="Region", key=lambda row: row.agent.region or None),
    Column(name="status", word="Status", key=lambda row: row.status),
    Column(name="run", word="Current run", key=lambda row: row.work.current_run or None),
    Column(name="success", word="Success", key=lambda row: row.work.success_rate, is_number=True),
    Column(
        name="tokens", word="Tokens / min", key=lambda row: row.work.tokens_per_min, is_number=True, is_most_first=True
    ),
    Column(name="seen", word="Heartbeat", key=lambda row: row.agent.last_seen),
    Column(name="revision", word="Revision", key=lambda row: row.agent.revision, is_number=True),
    Column(name="obeys", word="Desired state", key=lambda row: row.rank),
    Column(name="applied", word="Applied at", key=lambda row: row.agent.applied_at, is_most_first=True, is_extra=True),
    Column(name="open", word="Breakers open", key=lambda row: row.breakers_open, is_number=True, is_most_first=True),
    Column(
        name="outbox",
        word="Outbox",
        key=lambda row: row.agent.outbox_pending,
        is_number=True,
        is_most_first=True,
        is_extra=True,
    ),
    Column(
        name="runs",
        word="Runs in flight",
        key=lambda row: row.agent.runs_in_flight,
        is_number=True,
        is_most_first=True,
        is_extra=True,
    ),
    Column(name="up", word="Up for", key=lambda row: row.agent.uptime_s or None, is_number=True, is_extra=True),
    Column(name="first", word="First seen", key=lambda row: row.agent.first_seen, is_most_first=True, is_extra=True),
)
_COLUMNS = (
    *("instance", "service", "group", "version", "labels", "status", "obeys", "revision", "last seen", "first seen"),
    *("runs in flight", "breakers open", "outbox pending", "outbox dropped"),
    *("region", "current run", "attempts", "success rate", "tokens / min", "counted since"),
)


def _cells(row: Row, counted_since: datetime) -> tuple[Cell, ...]:
    one = row.agent
    return (
        *(one.instance, one.service, one.group, one.version, ", ".join(row.labels)),
        *(row.status, row.obeys, one.revision, one.last_seen),
        *(one.first_seen, one.runs_in_flight, row.breakers_open, one.outbox_pending, one.outbox_dropped),
        *(one.region, row.work.current_run, row.work.attempts, row.work.success_rate, row.work.tokens_per_min),
        counted_since,
    )


def _row(
    agent: AgentRow,
    standing: Standing,
    labels: Mapping[tuple[str, str], Sequence[str]],
    work: Workloads,
    pauses: Pauses,
) -> Row:
    apply = standing.status_of(agent, standing.revision) if agent.is_follower else None
    obeys = "applied"
    if apply is None:
        obeys = "obeys nobody: it only sends"
    elif apply is not ApplyStatus.APPLIED:
        obeys = f"{apply}: {note_of(apply, agent, standing.revision)}"
    if agent.retired_at is not None:
        obeys = "retired: nothing waits for it"
    if apply is ApplyStatus.APPLIED and agent.clamped:
        obeys = f"applied, held back by its own ceilings: {listing(list(agent.clamped), most=2)}"
    told = pauses.told(agent)
    return Row(
        agent=agent,
        told=told if told is not None and not told.is_done else None,
        apply=apply,
        obeys=obeys,
        work=work.by_agent[agent.id],
        labels=labels.get((agent.service, agent.instance), ()),
    )


def _place(row: Row) -> tuple[int, str, str]:
    return (row.rank, row.agent.service, row.agent.instance)


def _filters(rows: Sequence[Row]) -> list[Filter]:
    def names(found: Iterable[str]) -> list[tuple[str, str]]:
        return [(name, name) for name in sorted({*found} - {""})]

    services = names(row.agent.service for row in rows)
    groups = names(row.agent.group for row in rows)
    versions = names(row.agent.version for row in rows)
    regions = names(row.agent.region for row in rows)
    labels = names(name for row in rows for name in row.labels)
    return [
        Filter(name="service", label="Service", every="Any service", options=services),
        *([Filter(name="group", label="Group", every="Any group", options=groups)] if groups else []),
        Filter(name="version", label="Version", every="Any version", options=versions),
        *([Filter(name="region", label="Region", every="Any region", options=regions)] if regions else []),
        *([Filter(name="label", label="Label", every="Any label", options=labels)] if labels else []),
        Filter(name="state", label="Status", every="Any status", options=[(one, one) for one in STATES]),
        Filter(name="silent_s", label="Silent, s", every="at least", is_number=True, words="silent seconds from"),
        Filter(name="q", label="Instance", every="Part of it", words="called"),
    ]


def _rest(request: HttpRequest) -> str:
    """The address without what a chip decides."""
    query = _without_place(request)
    query.pop("show", None)
    return query.urlencode()


def _with(request: HttpRequest, **changed: str) -> str:
    query = _without_place(request)
    for name, value in changed.items():
        query[name] = value
    return f"?{query.urlencode()}"


def _without_place(request: HttpRequest) -> QueryDict:
    query = request.GET.copy()
    for name in ("all", "format"):
        query.pop(name, None)
    return query


def _tiles(rows: Sequence[Row], standing: Standing, environment: str, now: datetime) -> list[Tile]:
    """What the fleet comes to, each a link to the instances that it counts. One query."""
    reporting = [row for row in rows if row.agent.is_reachable]
    followers = [row for row in rows if row.agent.is_follower]
    return [
        _reporting(rows, len(reporting)),
        *_obeying(followers, standing.revision),
        _in_use(reporting),
        _waiting(reporting, environment, now),
        _young(reporting),
    ]


def _waiting(reporting: Sequence[Row], environment: str, now: datetime) -> Tile:
    """The same runs as the overview counts: no run twice, and none of which nobody tells any more. One query."""
    waiting = runs_waiting(environment, {row.agent.id for row in reporting}, now=now)
    told = "they say when they try again" if waiting.runs else "no run says that it waits"
    return Tile(
        title="Runs waiting on capacity",
        figure=f"{waiting.runs:,}" if reporting else _UNKNOWN,
        unit=f"of {sum(row.agent.runs_in_flight for row in reporting):,} in flight" if reporting else "runs",
        detail=told if reporting else _SILENCE,
        href=runs_waiting_href(),
    )


def _young(reporting: Sequence[Row]) -> Tile:
    young = [row for row in reporting if row.agent.heartbeat_age_s is not None and row.agent.uptime_s < _YOUNG_S]
    return Tile(
        title="Started lately",
        figure=str(len(young)) if reporting else _UNKNOWN,
        unit="in 10 min",
        detail=(_named(young) or "no restart and no deploy") if reporting else _SILENCE,
        href="?view=grid",
    )


def _reporting(rows: Sequence[Row], reporting: int) -> Tile:
    silent = [row for row in rows if not row.agent.is_reachable]
    return Tile(
        title="Reporting",
        figure=str(reporting),
        unit=f"of {len(rows)}",
        detail=f"{_named(silent)} silent" if silent else "nobody is silent",
        href=f"?{urlencode({'state': UNREACHABLE})}" if silent else "?",
        spark=cells([row.mark for row in rows]),
    )


def _obeying(followers: Sequence[Row], revision: int) -> Iterator[Tile]:
    by_apply = {status: [row for row in followers if row.apply is status] for status in _ORDER}
    pending, silent = len(by_apply[ApplyStatus.PENDING]), len(by_apply[ApplyStatus.UNREACHABLE])
    missing = [f"{count} {word}" for count, word in ((pending, "pending"), (silent, "unreachable")) if count]
    off = [*by_apply[ApplyStatus.FAILED], *by_apply[ApplyStatus.DRIFTED]]
    yield Tile(
        title=f"On revision {revision}",
        figure=str(len(by_apply[ApplyStatus.APPLIED])),
        unit=f"of {len(followers)}",
        detail=", ".join(missing) or "none pending",
        href=f"?{urlencode({'show': (ApplyStatus.PENDING if pending else ApplyStatus.APPLIED).value})}",
    )
    yield Tile(
        title="Drifted or refused",
        figure=_UNKNOWN if followers and silent == len(followers) else str(len(off)),
        unit=f"of {len(followers)}",
        detail=_named(off) or (f"not known of {silent}" if silent else "all run what they say"),
        href=f"?{urlencode({'show': off[0].shown_by if off else ApplyStatus.DRIFTED.value})}",
    )


def _in_use(reporting: Sequence[Row]) -> Tile:
    versions = Counter(row.agent.version or "none said" for row in reporting)
    common = sorted(versions.items(), key=lambda item: (-item[1], item[0]))
    return Tile(
        title="Versions",
        figure=str(len(versions)),
        unit="in use",
        detail=listing([f"{name} ({count})" for name, count in common], most=2) or _SILENCE,
        href="?view=versions",
    )


def _named(rows: Sequence[Row]) -> str:
    return listing([row.agent.instance for row in rows], most=2)


def _groups(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """The instances of each service, those that need a look first."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.agent.service, []).append(row)
    return sorted(found.items())


def _views(request: HttpRequest, rows: Sequence[Row], chosen: str) -> list[tuple[str, str, str]]:
    """Those that are offered: by region, group and label only where some instance has one."""

    def is_of_use(name: str) -> bool:
        return name in ("table", "grid", "versions", chosen) or any(any(_IN_COMMON[name][1](row)) for row in rows)

    return [(name, word, _with(request, view=name)) for name, word in VIEWS.items() if is_of_use(name)]


def _common(request: HttpRequest, view: str, rows: Sequence[Row]) -> list[CommonLine]:
    part, names_of = _IN_COMMON[view]
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        for name in names_of(row):
            found.setdefault((row.agent.service, name), []).append(row)
    return [_line(request, part, *place, held) for place, held in sorted(found.items())]


def _line(request: HttpRequest, part: str, service: str, name: str, held: Sequence[Row]) -> CommonLine:
    named: Mapping[str, str] = {"service": service, part: name, "view": "table"}
    known = [row.breakers_open for row in held if row.breakers_open is not None]
    return CommonLine(
        service=service,
        name=name,
        instances=len(held),
        reporting=sum(row.agent.is_reachable for row in held),
        applied=sum(row.apply is ApplyStatus.APPLIED for row in held),
        breakers_open=sum(known) if known else None,
        first_seen=min(row.agent.first_seen for row in held),
        href=_with(request, **named) if name else "",
    )

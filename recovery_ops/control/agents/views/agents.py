"""The fleet: who reports, which revision each obeys, and what waits in its outbox; as a table, cells, or in parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from django.conf import settings
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils import timezone

from events import queries
from events.pages.empties import Empty, Why, no_agent, relaxed
from events.pages.narrowing import one_of
from events.pages.rendering import render_page
from events.pages.table_files import Cell, is_asked, rows_answer
from events.queries.workload import Workloads, workloads
from events.rows import AgentRow
from events.wording import listing
from recovery_ops.control.agents.filters import STATES, FleetFilter
from recovery_ops.control.agents.headlines import agents_headline, ahead_of
from recovery_ops.control.agents.pause_status import Pauses
from recovery_ops.control.agents.services.labels import labels_by_instance
from recovery_ops.control.agents.views.fleet_row import APPLY_ORDER, TELEMETRY_ONLY, Row
from recovery_ops.control.agents.views.fleet_tiles import fleet_tiles
from recovery_ops.control.core.columns import Column, Columns
from recovery_ops.control.core.environment import visit_of
from recovery_ops.control.core.facets import facets_of
from recovery_ops.control.core.filter_forms import Filter, Narrowing, narrowing_of
from recovery_ops.control.desired_state.propagation import note_of
from recovery_ops.control.desired_state.status import Standing
from recovery_ops.rules.enums import ApplyStatus

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
_LEGEND = (
    ("closed", "applied"),
    ("half_open", "pending"),
    ("open", "failed or drifted"),
    ("metrics_only", "telemetry only"),
    ("unknown", "unreachable"),
)
_CHIP_WORDS = {TELEMETRY_ONLY: "telemetry only"}
"""What `show` chooses beside the standings: plain senders, which follow no revision and can be late for none."""


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
    ahead = ahead_of(fleet, standing.revision)
    context = {
        "now": now,
        "rows": matching if "all" in request.GET or view != "table" else matching[:MOST],
        "matching": len(matching),
        "total": len(rows) or len(everyone),
        "may_choose": may_choose,
        "is_of_retired": asked.is_of_retired,
        "usual": "newest first" if asked.is_of_retired else "unreachable first",
        "kept": len(kept),
        "empty": None if kept else _empty(environment, rows, asked, narrowing, now),
        "file_columns": _COLUMNS,
        "columns": columns,
        "narrowing": narrowing,
        "facets": list(facets_of(counts, total=len(kept), chosen=chosen, words=_CHIP_WORDS, query=_rest(request))),
        "facet_word": _CHIP_WORDS.get(chosen, chosen),
        "activities": pauses.activities(fleet),
        "tiles": fleet_tiles(everyone, standing, environment, now) if everyone else [],
        **_shown_as(request, view, rows, matching),
        "ahead": ahead,
        "drifted": max(0, drifted - ahead),
        "sentence": agents_headline(fleet, standing.revision, drifted=drifted),
        "newest_revision": standing.revision,
        "counted_since": work.since if work.is_cut else None,
        "silence_s": settings.UNREACHABLE_AFTER_S,
    }
    return render_page(request, "agents/agents", context)


def _chips(request: HttpRequest, kept: Sequence[Row]) -> tuple[dict[str, int], str]:
    """How many each chip shows, those that show none left out, and which is chosen."""
    counts = Counter(row.shown_by for row in kept)
    names = (*APPLY_ORDER, TELEMETRY_ONLY)
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
        text = "No instance was retired in the last 31 days, or each has reported since."
        return Empty(why=Why.GOOD, title="No retired instances", text=text, href="?", button="Show all agents")
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
    Column(name="applied", word="Applied", key=lambda row: row.agent.applied_at, is_most_first=True, is_extra=True),
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
    Column(name="up", word="Uptime", key=lambda row: row.agent.uptime_s or None, is_number=True, is_extra=True),
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
        obeys = "telemetry only"
    elif apply is not ApplyStatus.APPLIED:
        obeys = f"{apply}: {note_of(apply, agent, standing.revision)}"
    if agent.retired_at is not None:
        obeys = "retired"
    if apply is ApplyStatus.APPLIED and agent.clamped:
        obeys = f"applied, limited by its own ceilings: {listing(list(agent.clamped), most=2)}"
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
        Filter(
            name="silent_s",
            label="Last seen, s ago",
            every="at least",
            is_number=True,
            words="last seen s ago ≥",
        ),
        Filter(name="q", label="Instance", every="Part of the name", words="name contains"),
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

"""The list of breakers: observed beside desired, the worst first, each with how its last hours went."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from events import queries
from events.charts import drawing
from events.models import Agent
from events.moments import from_us
from events.pages.empties import Clause, Empty, Why, nobody_yet, relaxed
from events.pages.narrowing import one_of
from events.pages.rendering import render_page
from events.pages.scoped import NAMES
from events.pages.table_files import is_asked, rows_answer
from events.pages.window import PRESETS, Window, window_in
from events.rows import BreakerRow, MajoritySegment
from events.wording import clock_text, count_text, zone_word
from recovery_ops.control.breakers.filters import ASKS, BreakerFilter
from recovery_ops.control.breakers.headlines import breakers_headline, flow_of
from recovery_ops.control.breakers.rows import with_in_flight
from recovery_ops.control.breakers.selectors import SHOWS, STATES, list_of
from recovery_ops.control.breakers.views.columns import (
    FILE_COLUMNS,
    HEADS,
    IN_FLIGHT,
    Held,
    NextProbe,
    file_cells,
    heard,
)
from recovery_ops.control.breakers.views.groups import GROUPINGS, Grouping, in_groups
from recovery_ops.control.breakers.views.load_shedding import sentence_of
from recovery_ops.control.breakers.views.overrides import MOST_ELSEWHERE, elsewhere
from recovery_ops.control.core.columns import Columns
from recovery_ops.control.core.environment import visit_of
from recovery_ops.control.core.facets import Facet, facets_of
from recovery_ops.control.core.pagination import from_the_start
from recovery_ops.control.desired_state.status import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the list. `ratio` is how many instances are in the worst state, of all."""

    breaker: BreakerRow
    href: str
    ratio: str
    held: Held | None
    narrower: int
    is_stuck: bool
    drifted: int
    late: int
    """Instances that obey another desired state than the newest, and those that have not applied it yet."""
    is_chosen: bool
    probe: NextProbe
    calls_per_min: float | None
    rejected_per_min: float | None
    bullet: SafeString
    strip: SafeString | str


_ACTS = (("trip", "f", "Trip"), ("disable", "c", "Disable"), ("release", "u", "Clear override"))
"""What is done to the chosen ones: the verb, its key, its word. Each opens a form; a key alone does nothing."""
_PICKED = ("service", "group", "provider")


def breakers(request: HttpRequest, *, environment: str) -> HttpResponse:
    """All breakers, or those of one state, service, group or provider, or with some words in their names."""
    now = timezone.now()
    window = window_in(request, environment, now=now)
    standing = Standing(environment, now=now)
    listed = list_of(standing)
    found, off, stuck, tests = listed.rows, listed.off, listed.stuck, listed.shown_by
    may_choose = visit_of(request).grants.may_in_part("trip", environment)
    chosen, asked = one_of(request.GET, "show", tests), BreakerFilter.of(request.GET)
    columns = Columns(request, HEADS, before=int(may_choose))
    among = [row for row in found if asked.keeps(row)]
    kept = [row for row in among if chosen not in tests or row.name in tests[chosen]]
    shown = columns.in_order(_told_more(environment, kept, now, request, columns))
    if is_asked(request):
        return rows_answer(
            request, f"breakers {environment}", FILE_COLUMNS, (file_cells(row, standing) for row in shown)
        )
    fleet = queries.fleet_lanes(environment, start=window.start, end=window.end, now=now, wants_causes=False)
    rows = [
        _row(
            row,
            standing,
            fleet.get(row.name, []),
            window,
            is_stuck=row.name in stuck,
            off=off.get(row.name, (0, 0)),
            is_chosen=row.name in request.GET.getlist("chosen"),
        )
        for row in shown
    ]
    context = {
        "now": now,
        "window": window,
        "presets": PRESETS,
        "sentence": breakers_headline(found, _last_report(environment, found, now)),
        "flow": flow_of(found),
        "total": len(found),
        "empty": _empty(request, window, found, asked, tests.get(chosen)) if not shown else None,
        "facets": list(_facets(request, tests, {row.name for row in among}, chosen)),
        **_narrowing(request, found, asked),
        "columns": columns,
        "may_choose": may_choose,
        "acts": _ACTS,
        **_grouped(rows, found, GROUPINGS.get(one_of(request.GET, "by", GROUPINGS))),
        **_imposed(standing),
        "stuck": [(row.breaker.name, row.href, stuck[row.breaker.name]) for row in rows if row.is_stuck],
        "footer": f"{count_text(len(shown), 'breaker')} of {len(found)} in {environment}.",
    }
    return render_page(request, "breakers/breakers", context)


def _grouped(rows: Sequence[Row], found: Sequence[BreakerRow], grouping: Grouping | None) -> Mapping[str, object]:
    """The rows, all and in their groups, and how they may be grouped."""
    return {
        "rows": rows,
        "file_columns": FILE_COLUMNS,
        "grouped": in_groups(rows, lambda row: row.breaker, grouping),
        "by": grouping.name if grouping is not None else "",
        "groupings": [one for one in GROUPINGS.values() if one.name != "group" or any(row.groups for row in found)],
    }


def _imposed(standing: Standing) -> Mapping[str, object]:
    """Load that is shed, and the overrides that stand in no row."""
    resting = elsewhere(standing)
    return {
        "shed": None if standing.shed is None else sentence_of(standing.shed, now=standing.now),
        "elsewhere": resting[:MOST_ELSEWHERE],
        "more_elsewhere": len(resting) - MOST_ELSEWHERE,
    }


def _told_more(
    environment: str,
    rows: Sequence[BreakerRow],
    now: datetime,
    request: HttpRequest,
    columns: Columns[BreakerRow],
) -> Sequence[BreakerRow]:
    """The rows with what takes a query more: where the table shows it, or a file is made."""
    if is_asked(request) or columns.shows(IN_FLIGHT):
        rows = with_in_flight(environment, rows, now=now)
    return rows


def _narrowing(request: HttpRequest, found: Sequence[BreakerRow], asked: BreakerFilter) -> Mapping[str, object]:
    """What the form above the list offers, and what it keeps of the address."""
    kept = [(name, value) for name, values in from_the_start(request).lists() for value in values]
    return {
        "asked": asked,
        "let_go": [(words, _without(request, name)) for name, words in asked.words.items() if name not in NAMES],
        "picks": [(name, getattr(asked, name), asked.options(name, found)) for name in _PICKED],
        "kept": [(name, value) for name, value in kept if name not in (*ASKS, "by", "chosen")],
    }


def _last_report(environment: str, rows: Sequence[BreakerRow], now: datetime) -> str:
    """When an agent reported last; empty while one does. One query where none does."""
    if not rows or any(row.worst is not None for row in rows):
        return ""
    last_us = Agent.objects.filter(environment=environment).aggregate(last=Max("last_seen_us"))["last"]
    return f"{clock_text(from_us(last_us), today=now)} {zone_word(now)}" if last_us else ""


def _empty(
    request: HttpRequest,
    window: Window,
    found: Sequence[BreakerRow],
    asked: BreakerFilter,
    of_state: Collection[str] | None,
) -> Empty:
    """No breaker at all: nobody reports, or nobody guards a call. Of those there are: what keeps them out."""
    if found:
        names = {row.name for row in found} if of_state is None else set(of_state)
        clauses = []
        for name, words in asked.words.items():
            without = sum(asked.keeps(row, but=name) and row.name in names for row in found)
            clauses.append(Clause(words, without, _without(request, name)))
        if of_state is not None:
            show = request.GET.get("show", "")
            words = f"“{SHOWS.get(show, show).replace('_', ' ')}”"
            clauses.append(Clause(words, sum(asked.keeps(row) for row in found), _without(request, "show")))
        return relaxed(clauses, total=len(found), what="breaker")
    if window.began is None:
        return nobody_yet()
    text = "Agents report, but none has made a guarded call."
    return Empty(
        why=Why.NEVER,
        title="No breakers yet",
        text=text,
        href=reverse("agents"),
        button="Show agents",
    )


def _facets(
    request: HttpRequest, tests: Mapping[str, Collection[str]], among: Collection[str], chosen: str
) -> Iterable[Facet]:
    """A chip for each choice, with how many it shows of those that the other clauses leave."""
    counts = {name: len(set(names) & set(among)) for name, names in tests.items() if names or name == chosen}
    query = _without(request, "show").removeprefix("?")
    return facets_of(
        counts, total=len(among), chosen=chosen, words=SHOWS, states={*map(str, STATES), "unknown"}, query=query
    )


def _without(request: HttpRequest, name: str) -> str:
    query = from_the_start(request)
    for one in (name, "chosen"):
        query.pop(one, None)
    return f"?{query.urlencode()}"


def _href(row: BreakerRow, window: Window) -> str:
    return f"{reverse('breaker', args=[row.name])}{window.link}"


def _row(
    row: BreakerRow,
    standing: Standing,
    segments: Sequence[MajoritySegment],
    window: Window,
    *,
    is_stuck: bool,
    off: tuple[int, int],
    is_chosen: bool,
) -> Row:
    return Row(
        breaker=row,
        href=_href(row, window),
        ratio=ratio_of(row),
        held=Held.of(standing.override_of(row.name)),
        narrower=len(standing.narrower_of(row.name)),
        is_stuck=is_stuck,
        drifted=off[0],
        late=off[1],
        is_chosen=is_chosen,
        probe=NextProbe.of(row, standing.now),
        calls_per_min=heard(row, row.calls_per_min),
        rejected_per_min=heard(row, row.rejected_per_min),
        bullet=drawing.bullet(row.failure_rate, _limit(row)),
        strip=drawing.strip(segments, start=window.start, end=window.end, label=row.name) if segments else "–",
    )


def _limit(row: BreakerRow) -> float | None:
    """The limit of the failure rate; what opened for failures in a row has another limit, which is no share."""
    return row.threshold if row.threshold is not None and row.threshold <= 1 else None


def ratio_of(row: BreakerRow) -> str:
    """`33/40`: instances in the worst state, of all that have the breaker."""
    number = row.unknown if row.worst is None else row.counts.get(row.worst, 0)
    return f"{number}/{row.instances}"

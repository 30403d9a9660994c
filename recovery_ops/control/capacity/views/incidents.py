"""Capacity: each outage as one thing, whose it is, what it reached; over it how hot it was, by backend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from events import queries
from events.capacity.asking import (
    Page,
    capacity_page,
    newest_over,
    waits_asked_for,
)
from events.capacity.bounds import bounds_of
from events.capacity.narrowing import GOING_ON, OVER, Narrow
from events.capacity.rows import OWNER_CHIPS, OWNER_WORDS, CapacityEventRow, going_on
from events.charts import drawing
from events.moments import Span, to_us
from events.pages.empties import Empty, none_in, relaxed
from events.pages.narrowing import one_of
from events.pages.rendering import render_page
from events.pages.scoped import NAMES
from events.pages.table_files import Cell, is_asked, rows_answer
from events.pages.window import PRESETS, Window, window_in
from events.queries.sums import Sums
from events.recoveries.asking import recoveries, today_of
from events.wording import count_text, span_text
from recovery_ops.control.capacity.views.classes import CLASSES, by_class
from recovery_ops.control.capacity.views.impact import (
    answers_of,
    codes_of,
    moved,
    reached_beside_runs,
    telling,
)
from recovery_ops.control.capacity.views.runs import runs_href
from recovery_ops.control.capacity.views.tiles import capacity_tiles
from recovery_ops.control.capacity.views.week import week_of
from recovery_ops.control.core.columns import Column, Columns
from recovery_ops.control.core.cursors import cursor_of
from recovery_ops.control.core.environment import visit_of
from recovery_ops.control.core.facets import Facet, facets_of
from recovery_ops.control.core.filter_forms import Filter, Narrowing, narrowing_of
from recovery_ops.control.core.pagination import from_the_start, page, place_asked
from recovery_ops.control.dashboard.marks import acts_and_snoozes
from recovery_ops.control.dashboard.views.lanes import Strip, capacity_rows, empty_share, twin_of
from recovery_ops.control.dashboard.views.tiles import Tile
from recovery_ops.control.escalations.selectors.by_incident import open_by_event
from recovery_ops.control.notifications.retry_budgets import budget_rows, burn_alerts
from recovery_ops.rules.incidents.detection import OutageBounds

MOST = 500
_OWNERS = tuple((owner.value, words) for owner, words in OWNER_CHIPS.items())
_STATES = ((GOING_ON, "ongoing"), (OVER, "ended"))
_WORDS = {GOING_ON: "ongoing", **{owner.value: words for owner, words in OWNER_CHIPS.items()}}
_ASKED = "asked"
_HEADS: tuple[Column[CapacityEventRow], ...] = (
    Column(name="event", word="Incident", is_fixed=True),
    Column(name="owner", word="Attribution"),
    Column(name="began", word="Start"),
    Column(name="lasted", word="Duration"),
    Column(name="failures", word="Failed attempts"),
    Column(name="reached", word="Instances"),
    Column(name="runs", word="Runs", is_number=True),
    Column(name="peak", word="Peak per min", is_number=True),
    Column(name="retry_after", word="Retry-After"),
    Column(name="breakers", word="Breakers opened"),
    Column(name="fallbacks", word="Fallbacks", is_number=True),
    Column(name=_ASKED, word="Escalation", is_extra=True),
)


def capacity(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The events that touch the window, newest first, all or those of one owner."""
    now = timezone.now()
    window = window_in(request, environment, now=now)
    bounds = bounds_of(environment)
    after = place_asked(request, (int, int))
    read = capacity_page(
        environment, start=window.start, end=window.end, now=now, bounds=bounds, after=after, most=MOST
    )
    found, chosen = list(read.rows), one_of(request.GET, "show", _WORDS)
    narrow = Narrow.of(request.GET)
    narrowed = [row for row in found if narrow.keeps(row, now)]
    shown = [row for row in narrowed if chosen not in _WORDS or _is_chosen(row, chosen)]
    if is_asked(request):
        return rows_answer(request, f"capacity {environment}", _COLUMNS, (_cells(row, now) for row in shown))
    narrowing = narrowing_of(request, _filters(found), narrow.said)
    columns = _columns(request, environment, shown)
    asked = open_by_event(environment) if shown and columns.shows(_ASKED) else {}
    is_week = one_of(request.GET, "heat", ("week",)) == "week"
    open_burns, burns = burn_alerts(environment, start=window.start, end=window.end)
    reporting = queries.reporting_spans(environment, start=window.start, end=window.end)
    of_calls = {name: value for name, value in narrow.said.items() if name in NAMES}
    sums = queries.sums_per_bin(environment, start=window.start, end=window.end, reporting=reporting, of_calls=of_calls)
    last = _newest_over(read, environment, now, bounds, holds_it=after is None and window.end >= now)
    is_dark = window.end >= now and not any(until >= to_us(now) for _, until in reporting)
    context = {
        "now": now,
        "window": window,
        "presets": PRESETS,
        "tiles": _tiles(environment, sums, found, window, is_dark=is_dark),
        "budgets": budget_rows(environment, now=now, open_alerts=open_burns),
        "burns": burns,
        **_heading(found, last, now, is_dark=is_dark),
        "heat": None if is_week else _heat(sums, window),
        **_beside(sums, found, window, environment, now),
        "class_words": CLASSES,
        "week": week_of(environment, now=now) if is_week else None,
        "facets": list(_facets(request, narrowed, chosen)),
        "facet_word": _WORDS.get(chosen, ""),
        "narrowing": narrowing,
        "kept": len(narrowed),
        "total": len(found),
        "page": page(request, found, after, cursor_of(read.last) if read.last else ""),
        "empty": None if narrowed else _empty(environment, window, now, found, narrow, narrowing, reporting),
        "rule": _rule(bounds),
        "rows": [(*_cells_shown(row, now), asked.get(row.id)) for row in shown],
        "columns": columns,
        "file_columns": _COLUMNS,
    }
    return render_page(request, "capacity/capacity", context)


def _beside(
    sums: Sums, found: Sequence[CapacityEventRow], window: Window, environment: str, now: datetime
) -> dict[str, object]:
    """The failures by class with what people did, and whose notices are held back. One query."""
    acts, snoozed = acts_and_snoozes(environment, window, now=now)
    return {"classes": by_class(sums, found, window, acts), "snoozed": snoozed}


def _empty(
    environment: str,
    window: Window,
    now: datetime,
    found: Sequence[CapacityEventRow],
    narrow: Narrow,
    narrowing: Narrowing,
    reporting: Sequence[Span],
) -> Empty:
    if found:

        def left(name: str) -> int:
            return sum(narrow.without(name).keeps(row, now) for row in found)

        return relaxed(narrowing.clauses(left), total=len(found), what="event")
    text = "No backend failed often enough to be an outage while agents reported."
    # The heat rows above tell whether anybody called.
    title = "No outage in this range"
    return none_in(environment, window, now=now, title=title, text=text, is_of_calls=False, reporting=reporting)


def _columns(request: HttpRequest, environment: str, shown: Sequence[CapacityEventRow]) -> Columns[CapacityEventRow]:
    """Those that are asked for; before them stand boxes for whoever may choose among several."""
    has_boxes = visit_of(request).grants.may("arrange", environment) and len(shown) > 1
    return Columns(request, _HEADS, before=int(has_boxes))


def _cells_shown(row: CapacityEventRow, now: datetime) -> tuple[CapacityEventRow, str, str, timedelta, str, str]:
    return row, codes_of(row), reached_beside_runs(row), row.lasted(now), _WORDS[row.owner.value], runs_href(row)


_COLUMNS = (
    *(
        "event",
        "backend",
        "regions",
        "whose",
        "began",
        "last failure",
        "is over",
        "lasted s",
        "failed attempts",
        "categories",
    ),
    *(
        "codes",
        "foreground",
        "background",
        "operations",
        "services",
        "runs",
        "instances",
        "worst minute",
        "longest Retry-After s",
        "breakers opened",
        "breakers moved",
        "fallbacks",
        "runs waiting",
    ),
    *("estimated tokens", "estimated US dollars"),
)


def _cells(row: CapacityEventRow, now: datetime) -> tuple[Cell, ...]:
    return (
        *(row.number, row.name, ", ".join(row.regions), OWNER_WORDS[row.owner], row.started, row.last, row.is_over),
        *(row.lasted(now).total_seconds(), row.failures, codes_of(row)),
        *(answers_of(row), row.foreground, row.background, ", ".join(row.operations), ", ".join(row.services)),
        *(row.runs, row.instances, row.peak_per_min, row.longest_wait_s, ", ".join(row.breakers)),
        *("; ".join(f"{one.breaker}: {moved(one)}" for one in row.moves), row.fallbacks),
        *(row.waiting, row.tokens, None if row.cost_usd is None else round(row.cost_usd, 4)),
    )


def _is_chosen(row: CapacityEventRow, chosen: str) -> bool:
    return not row.is_over if chosen == GOING_ON else row.owner == chosen


def _filters(found: Sequence[CapacityEventRow]) -> list[Filter]:
    """The fields, with what there is among the events of the range."""
    parts = [part for row in found for part in row.parts or (row,)]

    def one_of(
        name: str, label: str, every: str, there: Iterable[str], words: str = "", *, is_more: bool = False
    ) -> Filter:
        options = [(word, word) for word in sorted({*there} - {""})]
        return Filter(name=name, label=label, every=every, options=options, words=words, is_more=is_more)

    return [
        one_of("provider", "Provider", "Any", (part.provider for part in parts)),
        one_of("model", "Model", "Any", (part.model for part in parts)),
        one_of("region", "Region", "Any", (region for row in found for region in row.regions)),
        one_of("code", "Code", "Any", (code for row in found for code in row.codes)),
        one_of(
            "breaker", "Breaker", "Any", (name for row in found for name in row.breakers), "that opened", is_more=True
        ),
        one_of(
            "service", "Agent", "Any", (name for row in found for name in row.services), "that reached", is_more=True
        ),
        Filter(name="owner", label="Whose", every="Anybody’s", options=list(_OWNERS), words="of", is_more=True),
        Filter(name="state", label="Open or over", every="Both", options=_STATES, words="that", is_more=True),
        Filter(name="runs", label="Runs reached", every="at least", is_number=True, words="runs from", is_more=True),
        Filter(
            name="lasted_s", label="Lasted, s", every="at least", is_number=True, words="seconds from", is_more=True
        ),
    ]


def _facets(request: HttpRequest, rows: Sequence[CapacityEventRow], chosen: str) -> Sequence[Facet]:
    counts = {name: sum(_is_chosen(row, name) for row in rows) for name in _WORDS}
    query = from_the_start(request)
    for name in ("show", "format"):
        query.pop(name, None)
    shown = {name: count for name, count in counts.items() if count or name == chosen}
    return list(facets_of(shown, total=len(rows), chosen=chosen, words=_WORDS, query=query.urlencode()))


def _rule(bounds: OutageBounds) -> str:
    """When many failures are one event, as the policy says."""
    sources = count_text(bounds.least_sources, "run or instance", "runs or instances")
    share = f"at most {bounds.most_of_one} of each" if bounds.most_of_one else "none with more than an equal share"
    shared = f" ({share})" if bounds.least_sources > 1 or bounds.most_of_one else ""
    return (
        f"An event begins with {bounds.least_failures} capacity failures of one backend, in one region or shared by "
        f"several, within "
        f"{span_text(bounds.within_s)} from {sources}{shared}, "
        f"is over after {span_text(bounds.quiet_s)} below that, and goes on if it comes back within "
        f"{span_text(bounds.merge_s)}. Regions of one backend that fail at once are one event, and so are models and "
        "tools of one provider, unless it is known that another could end it."
    )


def _tiles(
    environment: str, sums: Sums, found: Sequence[CapacityEventRow], window: Window, *, is_dark: bool
) -> list[Tile]:
    """The line of figures; empty where no agent has ever reported. Two queries."""
    if window.began is None:
        return []
    waits_s = waits_asked_for(environment, start=window.start, end=window.end)
    recovered = recoveries(environment, first=today_of(window.start), last=today_of(window.end))
    return capacity_tiles(sums, found, waits_s, recovered, window, is_dark=is_dark)


def _heat(sums: Sums, window: Window) -> Strip | None:
    """Rows of heat; None where no capacity error was counted."""
    bins = sums.capacity()
    start, end = bins.start, bins.start + timedelta(seconds=bins.bin_s * bins.length)
    known = bins.since(window.began)
    rows = list(capacity_rows(known, empty_share(window.began, start, end)))
    return Strip(rows=rows, axis=drawing.axis(start, end), bin_s=bins.bin_s, twin=twin_of(known)) if rows else None


def _newest_over(
    read: Page, environment: str, now: datetime, bounds: OutageBounds, *, holds_it: bool
) -> CapacityEventRow | None:
    """The event that ended last, where none of these goes on; read from a page that `holds_it` when it is whole."""
    if going_on(read.rows):
        return None
    if read.rows and holds_it and read.last is None:
        return max(read.rows, key=lambda row: row.last)
    return newest_over(environment, now=now, bounds=bounds)


def _heading(
    rows: Sequence[CapacityEventRow], last: CapacityEventRow | None, now: datetime, *, is_dark: bool
) -> dict[str, str]:
    return {"sentence": _sentence(rows, last, now, is_dark=is_dark), "outlook": _outlook(rows, last, is_dark=is_dark)}


def _sentence(rows: Sequence[CapacityEventRow], last: CapacityEventRow | None, now: datetime, *, is_dark: bool) -> str:
    """What goes on, or ended last; `is_dark`: the range reaches until now, and nobody reports any more."""
    current = going_on(rows)
    if not current:
        if last is None:
            return "No incident was recorded here."
        none = "Unknown: no agent is reporting" if is_dark else "No ongoing incident"
        ago = span_text(int((now - last.last).total_seconds()))
        return f"{none}. The last incident, of {last.name}, ended {ago} ago."
    worst = max(current, key=lambda row: row.peak_per_min)
    others = f"; {len(current) - 1:,} more ongoing" if len(current) > 1 else ""
    return f"{telling(worst, now)[:-1]}{others}."


def _outlook(rows: Sequence[CapacityEventRow], last: CapacityEventRow | None, *, is_dark: bool) -> str:
    """The same as a code: `going_on`, `over`, `unknown` or, where there never was one, `none`."""
    if going_on(rows):
        return GOING_ON
    return "none" if last is None else "unknown" if is_dark else OVER

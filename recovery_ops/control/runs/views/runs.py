"""Runs: which ones met trouble, and how far each had to climb."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from events.pages.empties import Clause, Empty, Why, none_in, relaxed
from events.pages.rendering import render_page
from events.pages.table_files import is_asked, rows_answer
from events.pages.window import PRESETS, Window, window_in
from events.runs.going import Reporting
from events.runs.ladder import steps_taken
from events.runs.narrowing import ASKS, STATUSES, Narrow
from events.runs.rows import RUNG_WORDS, RUNGS, RunStory
from events.runs.selectors import RunFilters, RunList, Show, reporting_ids
from events.runs.story import category_counts
from events.wording import count_text
from recovery_ops.control.core.columns import Column, Columns
from recovery_ops.control.core.cursors import cursor_of
from recovery_ops.control.core.environment import visit_of
from recovery_ops.control.core.filter_forms import Filter, Narrowing, narrowing_of
from recovery_ops.control.core.list_neighbours import from_here
from recovery_ops.control.core.pagination import from_the_start, page, place_asked
from recovery_ops.control.exports.lists import rows_at_once, wish_in
from recovery_ops.control.runs.abort_status import aborts_asked
from recovery_ops.control.runs.export import OF_FAILURES, PLACE, RunsFile, of_failures, run_list_of, show_of
from recovery_ops.control.runs.retry_status import retries_asked
from recovery_ops.control.runs.status import Standing, reporting_in, standing_of, word_of_status
from recovery_ops.control.runs.views.flows import MATCHING_MOST, flows_of
from recovery_ops.control.runs.views.run import dollars
from recovery_ops.rules.enums import Category, RunStatus

_CHIPS = {
    Show.TROUBLED: "With failures",
    Show.FAILED: "Failed",
    Show.ASKED: "Human input",
    Show.RUNNING: "Running",
    Show.ALL: "All",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the list."""

    story: RunStory
    href: str
    standing: Standing
    failures: str
    steps: str
    waited_s: float
    cost: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One choice above the list."""

    word: str
    href: str
    is_current: bool


def runs_list(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The runs of a tab that the filters leave; `OF_FAILURES` are of those that met a failure."""
    now = timezone.now()
    window = window_in(request, environment, now=now)
    show = show_of(request.GET)
    if is_asked(request):
        wish = wish_in(request, environment, window, now)
        return rows_answer(request, f"runs {environment} {show}", RunsFile.columns, rows_at_once(RunsFile(), wish))
    listed = run_list_of(environment, request.GET, start=window.start, end=window.end, now=now)
    narrow, narrowed = listed.filters.narrow, of_failures(request.GET)
    after = place_asked(request, PLACE)
    found = listed.page(None if after is None else (int(after[0]), int(after[1])))
    shown = page(request, found.rows, after, "" if found.further is None else cursor_of(found.further))
    narrowing = narrowing_of(request, _filters(listed), _said(request.GET, narrow))
    has_flows = request.GET.get("view") == "flows"
    reporting = reporting_in(environment, found.rows, now)
    context = {
        "now": now,
        "window": window,
        "presets": PRESETS,
        "sentence": _sentence(found.rows, show, window, is_first=shown.is_first),
        "empty": None if found.rows else _empty(request, listed, window, narrowed, now, narrowing),
        "chips": list(_chips(request, show)),
        "narrowing": narrowing,
        "flows": flows_of(listed, reporting_ids(environment, now)) if has_flows else None,
        "every": from_the_start(request).urlencode(),
        "most_matching": MATCHING_MOST,
        "exports": "runs",
        "columns": Columns(request, _HEADS, before=int(visit_of(request).grants.may("respond", environment))),
        "narrowed": [(name, value, _without(request, name)) for name, value in narrowed.items() if value],
        "chip_word": _CHIPS[show].lower(),
        "total": listed.count() if found.rows else None,
        "rows": [_row(story, now, reporting) for story in found.rows],
        "to_end": aborts_asked(environment, found.rows, now),
        "to_begin": retries_asked(environment, found.rows, now),
        "from_here": from_here(request.GET.urlencode() or f"show={show}"),
        "page": shown,
    }
    return render_page(request, "runs/runs", context)


def _said(given: Mapping[str, str], narrow: Narrow) -> dict[str, str]:
    """What of the address narrows the list, as it was written."""
    return {name: given[name].strip() for name in narrow.said}


def _filters(listed: RunList) -> list[Filter]:
    """The fields; models, policies and services are offered from the newest runs."""
    models, policies, agents = listed.offered()
    services = [(name, name) for name in agents]
    providers = [(name, name) for name in sorted({one.partition(" / ")[0] for one in models})]
    statuses = [(one, word_of_status(one)) for one in STATUSES]
    rungs = [(str(place), f"{place} {RUNG_WORDS[rung]}") for place, rung in enumerate(RUNGS, 1)]

    def least(name: str, label: str, words: str) -> Filter:
        return Filter(name=name, label=label, every="minimum", is_number=True, words=words, is_more=True)

    return [
        Filter(
            name="status",
            label="Status",
            every="Any status",
            options=statuses,
            words="",
        ),
        Filter(name="category", label="Category", every="Any", options=[(one.value, one.value) for one in Category]),
        Filter(name="model", label="Model", every="Any model", options=[(name, name) for name in models]),
        Filter(
            name="policy", label="Policy", every="Any policy", options=[(name, name) for name in policies], is_more=True
        ),
        Filter(name="provider", label="Provider", every="Any provider", options=providers, is_more=True),
        Filter(name="service", label="Service", every="Any service", options=services, is_more=True),
        Filter(name="agent", label="Agent", every="Any agent", options=[(name, name) for name in agents]),
        Filter(
            name="rung",
            label="Min. recovery step",
            every="Any step",
            options=rungs,
            words="recovery step ≥",
            is_more=True,
        ),
        least("failures", "Failed attempts", "failed attempts ≥"),
        least("waited_s", "Waited, s", "seconds waited ≥"),
        least("took_s", "Duration, s", "duration in seconds ≥"),
        least("cost_usd", "Cost, $", "US dollars ≥"),
        Filter(name="q", label="Run id or name", every="Run id or name", words="called"),
    ]


def _empty(
    request: HttpRequest,
    listed: RunList,
    window: Window,
    narrowed: dict[str, str],
    now: datetime,
    narrowing: Narrowing,
) -> Empty:
    """Why no run is shown."""
    environment, filters = listed.environment, listed.filters
    show = filters.show
    whole = replace(listed, filters=RunFilters(show=show)).count().value
    if whole and (narrowing.chosen or filters.is_of_failures):

        def left(name: str) -> int:
            less = replace(filters, narrow=filters.narrow.without(name))
            return RunList.of(environment, less, start=window.start, end=window.end, now=now).count().value

        def without(name: str) -> int:
            less = replace(filters, **{"struck": None} if name == "outage" else {name: ""})
            return RunList.of(environment, less, start=window.start, end=window.end, now=now).count().value

        own = [
            Clause(f"{name} {value}", without(name), _without(request, name))
            for name, value in narrowed.items()
            if value
        ]
        return relaxed([*own, *narrowing.clauses(left)], total=whole, what="run")
    chosen = [
        Clause(f"{name} {value}", 0, _without(request, name)) for name, value in narrowed.items() if value
    ] + narrowing.clauses(lambda name: 0)
    if chosen:
        words = " and ".join(one.words for one in chosen)
        kind = "run with failures" if show is Show.TROUBLED else "run"
        return Empty(
            why=Why.NO_MATCH,
            title="No matching runs",
            text=f"No {kind} in this range matches {words}.",
            href=_without(request, *ASKS, *narrowed),
            button="Clear filters",
        )
    if show is Show.ALL:
        none = none_in(environment, window, now=now, title="No runs in this range", text=_UNTOLD, is_of_calls=False)
        return replace(none, why=Why.NEVER) if none.why is Why.GOOD else none
    text = "Agents reported during the whole range."
    title = f"No runs in this range: {_CHIPS[show].lower()}"
    return none_in(environment, window, now=now, title=title, text=text, is_of_calls=False)


_UNTOLD = 'Agents report no runs; start a run with "with recovery.run(name):".'
_HEADS: tuple[Column[Row], ...] = (
    Column(name="run", word="Run", is_fixed=True),
    Column(name="status", word="Status"),
    Column(name="steps", word="Recovery steps"),
    Column(name="failed", word="Failed attempts, issue"),
    Column(name="waited", word="Waited", is_number=True),
    Column(name="took", word="Duration, cost", is_number=True),
    Column(name="started", word="Started"),
    Column(name="agent", word="Agent, policy"),
    Column(name="retries", word="Retries", is_number=True, is_extra=True),
    Column(name="models", word="Models", is_extra=True),
)
"""Runs come page by page, the newest first: an order of one page says nothing of the rest."""


def _row(story: RunStory, now: datetime, reporting: Reporting) -> Row:
    return Row(
        story=story,
        href=reverse("run", args=[story.run]),
        standing=standing_of(story, now, reporting),
        failures=category_counts(story.failures) if story.failures else "–",
        steps=steps_taken(story),
        waited_s=story.waited_by(now),
        cost=dollars(story.numbers.get("cost_usd")),
    )


def _chips(request: HttpRequest, show: Show) -> Iterator[Chip]:
    """The kinds, each with what else is asked for; what narrows failures alone goes with another kind."""
    for one, word in _CHIPS.items():
        query = from_the_start(request)
        for name in OF_FAILURES:
            query.pop(name, None)
        query["show"] = one.value
        yield Chip(word=word, href=f"?{query.urlencode()}", is_current=one is show)


def _without(request: HttpRequest, *names: str) -> str:
    query = from_the_start(request)
    for name in names:
        query.pop(name, None)
    return f"?{query.urlencode()}"


def _sentence(rows: Sequence[RunStory], show: Show, window: Window, *, is_first: bool) -> str:
    if show is not Show.TROUBLED or not rows or not is_first:
        return "Tasks of agents with their recovery steps."
    saved = sum(story.status is RunStatus.SUCCEEDED for story in rows)
    reduced = sum(story.status is RunStatus.DEGRADED for story in rows)
    lost = sum(story.status in (RunStatus.FAILED, RunStatus.STOPPED) for story in rows)
    parts = [f"{saved} recovered", f"{reduced} degraded", f"{lost} failed"]
    return f"Newest {count_text(len(rows), 'run')} with failures: {', '.join(parts)}."

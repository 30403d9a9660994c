"""Runs: which ones met trouble, and how far each had to climb."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from events.empties import Clause, Empty, Why, none_in, relaxed
from events.exports import is_asked, rows_answer
from events.pages import render_page
from events.runs.asking import PAGE, READ, Runs, Show, runs
from events.runs.going import Reporting
from events.runs.ladder import small
from events.runs.narrowing import ASKS, STATUSES, Narrow
from events.runs.rows import RUNG_WORDS, RUNGS, RunStory
from events.runs.story import category_counts
from events.window import PRESETS, Window, window_in
from events.wording import count_text, listing
from recovery_ops.control.aborted import aborts_asked
from recovery_ops.control.context import visit_of
from recovery_ops.control.exporting.lists import rows_at_once, wish_in
from recovery_ops.control.exporting.runs import OF_FAILURES, RunsFile, asked_of, before_of, of_failures, show_of
from recovery_ops.control.retried import retries_asked
from recovery_ops.control.standings import Standing, reporting_in, standing_of, word_of_status
from recovery_ops.control.views.columns import Column, Columns
from recovery_ops.control.views.narrowing import Filter, Narrowing, narrowing_of
from recovery_ops.control.views.neighbours import from_here
from recovery_ops.control.views.paging import from_the_start
from recovery_ops.control.views.run import dollars
from recovery_ops.control.views.run_flows import MATCHING_MOST, added_up_to, flows_of
from recovery_ops.rules.words import Category, RunStatus

_CHIPS = {
    Show.TROUBLED: "Met a failure",
    Show.FAILED: "Ended badly",
    Show.ASKED: "Asked a person",
    Show.RUNNING: "Running",
    Show.ALL: "All",
}
_ORDERS = {
    Show.TROUBLED: "the newest failure first",
    Show.FAILED: "the newest end first",
    Show.ASKED: "the newest question first",
    Show.RUNNING: "the newest start first",
    Show.ALL: "the newest start first",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the list."""

    story: RunStory
    href: str
    standing: Standing
    rung: str
    failures: str
    ladder: SafeString
    waited_s: float
    cost: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One choice above the list."""

    word: str
    href: str
    is_current: bool


def runs_list(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The newest runs of a kind that meet what is asked for; `OF_FAILURES` narrow those that met a failure."""
    now = timezone.now()
    window = window_in(request, environment, now=now)
    show, before_us = show_of(request.GET), before_of(request.GET)
    if is_asked(request):
        wish = wish_in(request, environment, window, now)
        return rows_answer(request, f"runs {environment} {show}", RunsFile.columns, rows_at_once(RunsFile(), wish))
    asked = asked_of(environment, request.GET)
    narrow, narrowed = asked["narrow"], of_failures(request.GET)
    most = added_up_to(request.GET)
    added = runs(
        environment, start=window.start, end=window.end, before_us=before_us, most=most or PAGE, now=now, **asked
    )
    found = added.first(PAGE)
    narrowing = narrowing_of(request, _filters(found.looked), _said(request.GET, narrow))
    reporting = added.reporting if narrow.is_of_going else reporting_in(environment, added.rows, now)
    context = {
        "now": now,
        "window": window,
        "presets": PRESETS,
        "sentence": _sentence(found.rows, show, window, is_first=before_us is None),
        "empty": None
        if found.rows
        else _empty(request, environment, window, show, narrowed, now, found, narrow, narrowing),
        "chips": list(_chips(request, show)),
        "narrowing": narrowing,
        "flows": flows_of(added, reporting, now) if most else None,
        "every": from_the_start(request).urlencode(),
        "most_matching": MATCHING_MOST,
        "exports": "runs",
        "columns": Columns(request, _HEADS, before=int(visit_of(request).grants.may("respond", environment))),
        "looked": len(found.looked),
        "narrowed": [(name, value, _without(request, name)) for name, value in narrowed.items() if value],
        "chip_word": _CHIPS[show].lower(),
        "order": _ORDERS[show],
        "rows": [_row(story, now, reporting) for story in found.rows],
        "to_end": aborts_asked(environment, found.rows, now),
        "to_begin": retries_asked(environment, found.rows, now),
        "from_here": from_here(request.GET.urlencode() or f"show={show}"),
        "older_href": _older(request, found.older_us),
        "is_newest": before_us is None,
        "page": PAGE,
        "read": READ,
    }
    return render_page(request, "control/runs", context)


def _said(given: Mapping[str, str], narrow: Narrow) -> dict[str, str]:
    """What of the address narrows the list, as it was written."""
    return {name: given[name].strip() for name in narrow.said}


def _filters(looked: Sequence[RunStory]) -> list[Filter]:
    """The fields; models and policies are offered from the runs that were looked at."""
    models = sorted({name for story in looked for name in story.models})
    policies = sorted({story.policy for story in looked} - {""})
    agents = sorted({story.service for story in looked})
    services = [(name, name) for name in agents]
    providers = [(name, name) for name in sorted({one.partition(" / ")[0] for one in models})]
    statuses = [(one, word_of_status(one)) for one in STATUSES]
    rungs = [(str(place), f"{place} {RUNG_WORDS[rung]}") for place, rung in enumerate(RUNGS, 1)]

    def least(name: str, label: str, words: str) -> Filter:
        return Filter(name=name, label=label, every="at least", is_number=True, words=words, is_more=True)

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
            name="rung", label="Rung at least", every="Any rung", options=rungs, words="at least rung", is_more=True
        ),
        least("failures", "Failed attempts", "failed attempts from"),
        least("waited_s", "Waited, s", "seconds waited from"),
        least("took_s", "Took, s", "seconds taken from"),
        least("cost_usd", "Cost, $", "dollars from"),
        Filter(name="q", label="Run or name", every="Part of it", words="called"),
    ]


def _empty(
    request: HttpRequest,
    environment: str,
    window: Window,
    show: Show,
    narrowed: dict[str, str],
    now: datetime,
    found: Runs,
    narrow: Narrow,
    narrowing: Narrowing,
) -> Empty:
    """Why no run is shown. What a failure's own words leave out is not counted: it would have to be read for that."""
    if found.looked:

        def left(name: str) -> int:
            less = narrow.without(name)
            return sum(less.keeps(story, now, found.reporting) for story in found.looked)

        return relaxed(narrowing.clauses(left), total=len(found.looked), what="run")
    chosen = [
        Clause(f"{name} {value}", 0, _without(request, name)) for name, value in narrowed.items() if value
    ] + narrowing.clauses(lambda name: 0)
    if chosen:
        words = " and ".join(one.words for one in chosen)
        met = "met a failure with" if show is Show.TROUBLED else "is"
        return Empty(
            why=Why.NO_MATCH,
            title="No run matches",
            text=f"None of this range {met} {words}.",
            href=_without(request, *ASKS, *narrowed),
            button=f"Let go of {words}",
        )
    if show is Show.ALL:
        none = none_in(environment, window, now=now, title="No run in this range", text=_UNTOLD, is_of_calls=False)
        return replace(none, why=Why.NEVER) if none.why is Why.GOOD else none
    text = "That holds as far as runs are told at all; agents reported all through it."
    title = f"No run {_CHIPS[show].lower()} in this range"
    return none_in(environment, window, now=now, title=title, text=text, is_of_calls=False)


_UNTOLD = 'Agents report, but none has told the start of a run: "with recovery.run(name):" does.'
_HEADS: tuple[Column[Row], ...] = (
    Column(name="run", word="Run", is_fixed=True),
    Column(name="status", word="Status"),
    Column(name="ladder", word="Ladder"),
    Column(name="failed", word="Failed attempts, cause"),
    Column(name="waited", word="Waited", is_number=True),
    Column(name="took", word="Took, cost", is_number=True),
    Column(name="started", word="Started"),
    Column(name="agent", word="Agent, policy"),
    Column(name="retries", word="Retries", is_number=True, is_extra=True),
    Column(name="models", word="Models", is_extra=True),
)
"""Runs come from the store page by page, the newest first: an order of one page would say nothing of the rest."""


def _row(story: RunStory, now: datetime, reporting: Reporting) -> Row:
    return Row(
        story=story,
        href=reverse("run", args=[story.run]),
        standing=standing_of(story, now, reporting),
        rung=f"{story.level} {RUNG_WORDS[story.rung]}" if story.rung is not None else "–",
        failures=f"{'at least ' if story.is_cut else ''}{category_counts(story.failures)}" if story.failures else "–",
        ladder=small(story, now),
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


def _older(request: HttpRequest, older_us: int | None) -> str:
    if older_us is None:
        return ""
    query = request.GET.copy()
    query["before"] = str(older_us)
    return f"?{query.urlencode()}"


def _sentence(rows: Sequence[RunStory], show: Show, window: Window, *, is_first: bool) -> str:
    if show is not Show.TROUBLED or not rows or not is_first:
        return "Each task of an agent, with the rungs that it had to climb."
    saved = sum(story.status is RunStatus.SUCCEEDED for story in rows)
    reduced = sum(story.status is RunStatus.DEGRADED for story in rows)
    lost = sum(story.status in (RunStatus.FAILED, RunStatus.STOPPED) for story in rows)
    parts = [f"{saved} recovered", f"{reduced} answered with less", f"{lost} failed"]
    return f"Of the newest {count_text(len(rows), 'run')} that met a failure, {listing(parts, most=3)}."

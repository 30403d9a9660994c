"""Runs: which ones met trouble, and how far each had to climb."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from events.empties import Empty, Why, none_in
from events.exports import Cell, is_asked, rows_answer
from events.failures.grouping import AS_SENT
from events.pages import render_page
from events.runs.asking import PAGE, READ, Show, runs
from events.runs.ladder import small
from events.runs.rows import RUNG_WORDS, RunStory
from events.runs.story import category_counts
from events.window import PRESETS, Window, window_in
from events.wording import count_text, listing
from recovery_ops.control.failures import grouping_of
from recovery_ops.control.standings import Standing, reporting_in, standing_of
from recovery_ops.rules.words import RunStatus

_CHIPS = {
    Show.TROUBLED: "Met a failure",
    Show.FAILED: "Ended badly",
    Show.ASKED: "Asked a person",
    Show.RUNNING: "Running",
    Show.ALL: "All",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One choice above the list."""

    word: str
    href: str
    is_current: bool


def runs_list(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The newest runs of a kind; `operation` and `fingerprint` narrow those that met a failure."""
    now = timezone.now()
    window = window_in(request, environment, now=now)
    asked = request.GET.get("show", "")
    show = Show(asked) if asked in set(Show) else Show.TROUBLED
    narrowed = {name: request.GET.get(name, "")[:200] for name in ("operation", "fingerprint")}
    narrowed = narrowed if show is Show.TROUBLED else dict.fromkeys(narrowed, "")
    before = request.GET.get("before", "")
    before_us = int(before) if before.isascii() and before.isdigit() and len(before) < 18 else None
    grouping = grouping_of(environment) if narrowed["fingerprint"] else AS_SENT
    found = runs(
        environment,
        start=window.start,
        end=window.end,
        show=show,
        before_us=before_us,
        grouping=grouping,
        operation=narrowed["operation"],
        fingerprint=narrowed["fingerprint"],
    )
    reporting = reporting_in(environment, found.rows, now)
    if is_asked(request):
        cells = (_cells(story, now, reporting) for story in found.rows)
        return rows_answer(request, f"runs {environment} {show}", _COLUMNS, cells)
    context = {
        "now": now,
        "window": window,
        "presets": PRESETS,
        "sentence": _sentence(found.rows, show, window, is_first=before_us is None),
        "empty": None if found.rows else _empty(request, environment, window, show, narrowed, now),
        "chips": list(_chips(show, window)),
        "narrowed": [(name, value) for name, value in narrowed.items() if value],
        "chip_word": _CHIPS[show].lower(),
        "rows": [_row(story, now, reporting) for story in found.rows],
        "older_href": _older(request, found.older_us),
        "is_newest": before_us is None,
        "page": PAGE,
        "read": READ,
    }
    return render_page(request, "control/runs", context)


def _empty(
    request: HttpRequest, environment: str, window: Window, show: Show, narrowed: dict[str, str], now: datetime
) -> Empty:
    """Why no run is shown. What a narrower list leaves out is not counted: it would have to be read for that."""
    chosen = [f"{name} {value}" for name, value in narrowed.items() if value]
    if chosen:
        kept = {**dict(window.fields), "show": show.value}
        return Empty(
            why=Why.NO_MATCH,
            title="No run matches",
            text=f"None of this range met a failure with {' and '.join(chosen)}.",
            href=f"?{urlencode(kept)}",
            button=f"Let go of {' and '.join(chosen)}",
        )
    if show is Show.ALL:
        found = none_in(environment, window, now=now, title="No run in this range", text=_UNTOLD, is_of_calls=False)
        return replace(found, why=Why.NEVER) if found.why is Why.GOOD else found
    text = "That holds as far as runs are told at all; agents reported all through it."
    title = f"No run {_CHIPS[show].lower()} in this range"
    return none_in(environment, window, now=now, title=title, text=text, is_of_calls=False)


_UNTOLD = 'Agents report, but none has told the start of a run: "with recovery.run(name):" does.'
_COLUMNS = (
    *("run", "name", "service", "instance", "version", "source", "stands", "rung", "failed attempts", "retries"),
    *("waited s", "started", "ended", "took s", "cost USD", "policy", "derived steps"),
)


def _cells(story: RunStory, now: datetime, reporting: set[tuple[str, str]]) -> tuple[Cell, ...]:
    return (
        *(story.run, story.name, story.service, story.instance, story.version, story.source),
        *(standing_of(story, now, reporting).word, story.rung, story.failed_attempts, story.retries, story.waited_s),
        *(story.started, story.ended, story.took, story.numbers.get("cost_usd"), story.policy),
        story.derived_steps,
    )


def _row(story: RunStory, now: datetime, reporting: set[tuple[str, str]]) -> Row:
    return Row(
        story=story,
        href=reverse("run", args=[story.run]),
        standing=standing_of(story, now, reporting),
        rung=f"{story.level} {RUNG_WORDS[story.rung]}" if story.rung is not None else "–",
        failures=f"{'at least ' if story.is_cut else ''}{category_counts(story.failures)}" if story.failures else "–",
        ladder=small(story, now),
    )


def _chips(show: Show, window: Window) -> Iterator[Chip]:
    for one, word in _CHIPS.items():
        yield Chip(word=word, href=f"?{urlencode({'show': one.value})}{window.also}", is_current=one is show)


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

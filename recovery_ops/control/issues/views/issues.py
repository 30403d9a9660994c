"""Failures: put together by cause, told apart by what they have in common, and each cause by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from events.charts import drawing
from events.failures.asking import (
    OF_AGENTS,
    SHOWN,
    agents_with,
    counts_of_agents,
    fingerprints,
    in_words,
    read_failures,
    read_with_before,
    with_reach,
)
from events.failures.grouping import Grouping
from events.failures.met import RUNS_MOST
from events.failures.mixing import NO_RUNS, RUNS_EACH, Mix, mixes
from events.failures.naming import title_of
from events.failures.rows import PLACE, Course, Field, Fingerprint, Sample
from events.moments import from_us
from events.pages.empties import Clause, Empty, Why, none_in, relaxed
from events.pages.narrowing import one_of
from events.pages.rendering import render_page
from events.pages.scoped import NAMES
from events.pages.table_files import Cell, is_asked, rows_answer
from events.pages.window import PRESETS, Window, window_in
from events.wording import count_text, listing
from recovery_ops.control.core.columns import Column, Columns
from recovery_ops.control.core.cursors import Place, after_place
from recovery_ops.control.core.environment import visit_of
from recovery_ops.control.core.pagination import from_the_start, page, place_asked
from recovery_ops.control.dashboard.search_terms import words_of
from recovery_ops.control.escalations.selectors.by_issue import OpenQuestions, open_questions
from recovery_ops.control.issues.selectors import (
    Standing,
    cases_of,
    grouping_of,
    noted_by_cause,
    standing_of,
)
from recovery_ops.control.issues.views.facets import (
    ASKED,
    ASKED_WORDS,
    BY_INSTANCE,
    FIELD_WORDS,
    Choice,
    asked_facet,
    facets_of,
    with_word,
    without_word,
)
from recovery_ops.control.issues.views.histogram import histogram_of

_COURSE_WORDS = {
    Course.NEW: "new",
    Course.RISING: "rising",
    Course.ONGOING: "ongoing",
    Course.FALLING: "falling",
    Course.QUIET: "quiet",
}
_SEARCH_CHARS = 100
_QUERY_CHARS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the list."""

    found: Fingerprint
    href: str
    title: str
    change: str
    trend: SafeString
    mix: Mix
    drawing: SafeString
    standing: Standing
    question: int | None
    """The number of the open escalation about it."""
    notes: int
    has_more_runs: bool
    """Whether more runs met it than are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looked:
    """What an address asks for: the failures of its range, those that match all of it, and their causes."""

    window: Window
    chosen: Mapping[Field, str]
    search: str
    tab: str
    everything: Sample
    """All that failed in the range."""
    of_agents: Sample
    """Those of the chosen instance and version; all where none is chosen."""
    of_tab: Sample
    """Those of everything that match what is looked for and the tab."""
    fitting: Collection[str]
    """The causes that what is looked for fits, by all that failed in the range."""
    standings: Mapping[str, Standing]
    """How each cause stands, by its newest failure of the range."""
    unchosen: Sample
    """Those that match all but the chosen values: what may be chosen in place of one is counted there."""
    sample: Sample
    """Those that match all of it: of these the whole page speaks."""
    counts: Mapping[str, int]
    questions: OpenQuestions
    notes: Mapping[str, int]
    """How many people wrote, by cause; a cause without one is not in it."""
    asked: str
    """Whether people are asked about it: `yes`, `no`, or empty for either."""
    before_asked: Sequence[Fingerprint]
    """Those that match all but that."""
    matching: Sequence[Fingerprint]


def _look(request: HttpRequest, environment: str, now: datetime) -> _Looked:
    window = window_in(request, environment, now=now)
    chosen = {name: value for name in Field if (value := request.GET.get(name.value, "")[:200])}
    fields = _without(chosen, OF_AGENTS)
    search = request.GET.get("q", "").strip()[:_SEARCH_CHARS]
    tab = one_of(request.GET, "tab", TABS, "open")
    me = request.user.get_username()
    grouping = grouping_of(environment)
    everything, earlier = _read(environment, window, grouping)
    agents = agents_with(environment, chosen)
    of_agents = everything
    if agents is not None:
        of_agents = grouping.of(read_failures(environment, start=window.start, end=window.end, agents=agents))
    fitting = _fitting(environment, everything, search, window)
    standings = _standings(environment, everything, now)
    fits = of_agents.of(fitting)
    in_tab = {name for name, standing in standings.items() if _is_in(tab, standing, me)}
    of_tab = fits.of(in_tab)
    before = earlier if not chosen else None
    sample = of_tab.matching(fields)
    light = fingerprints(sample, start=window.start, end=window.end, before=before)
    found = in_words(environment, sample, light)
    questions = open_questions(environment, grouping)
    asked = one_of(request.GET, ASKED, ASKED_WORDS)
    others = {one.fingerprint for one in found if asked and (questions.about(one) is None) != (asked == "no")}
    counted = [standings[name] for name in fits.matching(fields).causes]
    return _Looked(
        window=window,
        chosen=chosen,
        search=search,
        tab=tab,
        everything=everything,
        of_agents=of_agents,
        of_tab=everything.of(fitting).of(in_tab),
        fitting=fitting,
        standings=standings,
        unchosen=of_tab.of(of_tab.causes - others),
        sample=sample.of(sample.causes - others),
        counts={name: sum(_is_in(name, standing, me) for standing in counted) for name in TABS},
        questions=questions,
        notes=noted_by_cause(environment, grouping),
        asked=asked,
        before_asked=found,
        matching=[one for one in found if one.fingerprint not in others],
    )


def _fitting(environment: str, everything: Sample, search: str, window: Window) -> Collection[str]:
    """The causes that what is looked for fits. One query, none where nothing is looked for."""
    if not search:
        return everything.causes
    looked_for = words_of(search)
    found = fingerprints(everything, start=window.start, end=window.end, before=None)
    told = in_words(environment, everything, found)
    return {one.fingerprint for one in told if looked_for.fits(_told_of(one))}


def _standings(environment: str, everything: Sample, now: datetime) -> Mapping[str, Standing]:
    """How each cause stands: by its newest failure, whatever is chosen of them. One query."""
    cases = cases_of(environment)
    return {
        name: standing_of(cases.get(name), last=from_us(mine.newest.last_us), now=now)
        for name, mine in everything.by_cause().items()
    }


def matching_names(request: HttpRequest, environment: str, query: str, now: datetime) -> list[str]:
    """The names of the causes that the list with this query has on all its pages, the most frequent first."""
    asked = copy(request)
    asked.GET = QueryDict(query[:_QUERY_CHARS])
    return [one.fingerprint for one in _look(asked, environment, now).matching]


def failures(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The causes in the window, the most frequent first, with what may be chosen at their side."""
    now = timezone.now()
    looked = _look(request, environment, now)
    window, everything, sample = looked.window, looked.everything, looked.sample
    span: dict[str, Any] = {"start": window.start, "end": window.end}
    columns = Columns(request, _heads(looked.notes), before=int(visit_of(request).grants.may("respond", environment)))
    reached = partial(with_reach, environment, sample, start=window.start, end=window.end, chosen=looked.chosen)
    is_by_runs = columns.is_sorted and request.GET["sort"].endswith("runs")
    matching = columns.in_order(reached(looked.matching) if is_by_runs or is_asked(request) else looked.matching)
    if is_asked(request):
        became = mixes(environment, sample, [one.fingerprint for one in matching], **span)
        rows = (_cells(one, looked, became[one.fingerprint]) for one in matching)
        return rows_answer(request, f"failures {environment}", _COLUMNS, rows)
    place = _place_in(matching, is_sorted=columns.is_sorted)
    after = place_asked(request, (int,) if columns.is_sorted else PLACE)
    shown, cursor = after_place(matching, place, after, SHOWN)
    shown = shown if is_by_runs else reached(shown)
    has_mixes = columns.shows("became")
    became = mixes(environment, sample, [one.fingerprint for one in shown], **span) if has_mixes else {}
    empty = None if shown else _empty(request, environment, looked, now)
    context = {
        "now": now,
        "window": window,
        "presets": PRESETS,
        "empty": empty,
        "sentence": _sentence(sample, matching, everything, empty),
        "histogram": histogram_of(request, sample, window) if sample.seen else None,
        "facets": _facets(request, environment, looked),
        "by_instance_href": "" if _is_by_instance(request, looked) else with_word(request, *BY_INSTANCE),
        "chosen": _chosen(request, looked),
        "search": looked.search,
        "file_columns": _COLUMNS,
        "columns": columns,
        "page": page(request, shown, after, cursor),
        "total": everything.total,
        "failed": sample.total,
        "rows": [_row(one, looked, became.get(one.fingerprint, NO_RUNS)) for one in shown],
        "endings": _BECAME if has_mixes else [],
        "runs_each": RUNS_EACH,
        "tab": looked.tab,
        "tabs": [(name, word, looked.counts[name], _with_tab(request, name)) for name, word in TABS.items()],
        "found": len(matching),
        "every": from_the_start(request).urlencode(),
        "kept": [(name, value) for name, value in from_the_start(request).items() if name != "q"],
    }
    return render_page(request, "issues/failures", context)


def _place_in(causes: Sequence[Fingerprint], *, is_sorted: bool) -> Callable[[Fingerprint], Place]:
    """Where a cause stands in its list: by how often it fails, or by its number in an order that somebody chose."""
    if not is_sorted:
        return lambda one: one.place
    numbers = {one.fingerprint: number for number, one in enumerate(causes)}
    return lambda one: (numbers[one.fingerprint],)


TABS = {"open": "Open", "mine": "Mine", "archived": "Archived", "resolved": "Resolved", "all": "All"}
"""What a cause's standing is looked for by, and what it is called."""


def _empty(request: HttpRequest, environment: str, looked: _Looked, now: datetime) -> Empty:
    """Why no cause is shown: none failed, or what was asked for keeps them out."""
    everything, chosen, search, tab = looked.everything, looked.chosen, looked.search, looked.tab
    if not everything.total:
        title, text = "No failures in this range", "Agents reported during the whole range."
        return none_in(environment, looked.window, now=now, title=title, text=text)
    if tab in ("open", "mine") and not search and not chosen and not looked.asked:
        text = "No issue is assigned to you." if tab == "mine" else "All issues of this range are archived or resolved."
        title = "None assigned to you" if tab == "mine" else "No open issues"
        return Empty(why=Why.GOOD, title=title, text=text, href=_with_tab(request, "all"), button="Show all issues")
    me, all_causes = request.user.get_username(), everything.causes

    def left(fields: Mapping[Field, str], names: Collection[str], of_tab: str) -> int:
        seen = looked.of_agents if any(name in OF_AGENTS for name in fields) else everything
        found = seen.of(names).matching(_without(fields, OF_AGENTS)).causes
        return sum(_is_in(of_tab, looked.standings[name], me) for name in found)

    clauses = [Clause(f"“{search}”", left(chosen, all_causes, tab), without_word(request, "q"))] if search else []
    for name, value in chosen.items():
        others = {field: one for field, one in chosen.items() if field is not name}
        words = f"{FIELD_WORDS[name].lower()} {value}"
        clauses.append(Clause(words, left(others, looked.fitting, tab), without_word(request, name.value)))
    if looked.asked:
        words = ASKED_WORDS[looked.asked]
        clauses.append(Clause(words, left(chosen, looked.fitting, tab), without_word(request, ASKED)))
    if tab != "all":
        without = left(chosen, looked.fitting, "all")
        clauses.append(Clause(f"“{TABS[tab]}”", without, _with_tab(request, "all")))
    return relaxed(clauses, total=len(all_causes), what="cause")


def _is_in(tab: str, standing: Standing, me: str) -> bool:
    if tab == "mine":
        return standing.is_open and standing.assigned_to == me
    return tab == "all" or (standing.is_open if tab == "open" else standing.state == tab)


def _with_tab(request: HttpRequest, tab: str) -> str:
    query = from_the_start(request)
    query.pop("tab", None)
    if tab != "open":
        query["tab"] = tab
    return f"?{query.urlencode()}"


_BECAME = (
    ("closed", "auto-recovered"),
    ("fallback", "fallback or degraded"),
    ("taken", "human input"),
    ("open", "failed"),
)
"""Pattern and words of each ending, in their order."""
_COURSES = (Course.NEW, Course.RISING, Course.ONGOING, Course.FALLING, Course.QUIET)
_HEADS: tuple[Column[Fingerprint], ...] = (
    Column(name="what", word="Issue", key=lambda one: title_of(one.category, one.message).lower(), is_fixed=True),
    Column(name="course", word="State", key=lambda one: _COURSES.index(one.course)),
    Column(name="count", word="Failures", key=lambda one: one.count, is_number=True, is_most_first=True),
    Column(name="trend", word="Trend"),
    Column(name="became", word="Run outcomes"),
    Column(name="runs", word="Impact", key=lambda one: one.runs, is_number=True, is_most_first=True),
    Column(name="last", word="Last seen", key=lambda one: one.last, is_most_first=True),
    Column(name="first", word="First seen", key=lambda one: one.first, is_most_first=True, is_extra=True),
    Column(name="where", word="Operations", key=lambda one: list(one.operations), is_extra=True),
)


def _heads(notes: Mapping[str, int]) -> tuple[Column[Fingerprint], ...]:
    """The columns, the last of which is what people wrote."""
    noted: Column[Fingerprint] = Column(
        name="notes",
        word="Notes",
        key=lambda one: notes.get(one.fingerprint, 0),
        is_number=True,
        is_most_first=True,
        is_extra=True,
    )
    return (*_HEADS, noted)


_COLUMNS = (
    *("fingerprint", "category", "message", "error type", "status", "failures", "before", "runs", "instances"),
    *("first", "last", "course", "operations", "backends", "state", "assigned to", "notes", "derived"),
    *("runs recovered alone", "runs with a second best", "runs with a person", "runs lost"),
)


def _cells(one: Fingerprint, looked: _Looked, mix: Mix) -> tuple[Cell, ...]:
    standing, notes = looked.standings[one.fingerprint], looked.notes.get(one.fingerprint, 0)
    return (
        *(one.fingerprint, one.category, one.message, one.error_type, one.status_code, one.count, one.before, one.runs),
        *(one.instances, one.first, one.last, one.course, ", ".join(one.operations), ", ".join(one.backends)),
        *(standing.state, standing.assigned_to, notes, one.derived, *mix.counts),
    )


def _read(environment: str, window: Window, grouping: Grouping) -> tuple[Sample, Mapping[str, int] | None]:
    """What failed in the range, and in the range before, where anybody was there to tell."""
    span: dict[str, Any] = {"start": window.start, "end": window.end}
    if window.began is None or window.began > window.start - window.length:
        return grouping.of(read_failures(environment, **span)), None
    return read_with_before(environment, **span, grouping=grouping)


def _told_of(one: Fingerprint) -> Mapping[str, str]:
    """What is looked for in a cause, by the words that may stand in front of a colon."""
    return {
        "cause": one.fingerprint,
        "message": one.message,
        "type": one.error_type,
        "category": one.category,
        "operation": " ".join(one.operations),
        "backend": " ".join(one.backends),
        "status": str(one.status_code or ""),
    }


def _facets(request: HttpRequest, environment: str, looked: _Looked) -> list[tuple[str, Sequence[Choice]]]:
    """What the list may be narrowed by, each with its values; instances and versions where they are asked for."""
    asked = asked_facet(request, looked.before_asked, looked.questions, looked.asked)
    counts: dict[Field, Counter[str]] = {}
    if _is_by_instance(request, looked):
        every = looked.of_tab.matching(_without(looked.chosen, OF_AGENTS))
        span: dict[str, Any] = {"start": looked.window.start, "end": looked.window.end}
        for name in OF_AGENTS:
            agents = agents_with(environment, _without(looked.chosen, [name]))
            counts[name] = counts_of_agents(environment, every, **span, agents=agents)[name]
    return [*facets_of(request, looked.sample, looked.unchosen, looked.chosen, counts), asked]


def _is_by_instance(request: HttpRequest, looked: _Looked) -> bool:
    """Whether failures are counted by instance and version, too, which reads more than all else on the page."""
    name, value = BY_INSTANCE
    return request.GET.get(name) == value or any(name in looked.chosen for name in OF_AGENTS)


def _without(chosen: Mapping[Field, str], names: Collection[Field]) -> Mapping[Field, str]:
    return {name: value for name, value in chosen.items() if name not in names}


def _chosen(request: HttpRequest, looked: _Looked) -> list[tuple[str, str, str]]:
    """What this list alone is narrowed by: the word, the value, and the address without it."""
    own = {name: value for name, value in looked.chosen.items() if name not in NAMES}
    fields = [(FIELD_WORDS[name].lower(), value, name.value) for name, value in own.items()]
    asked = [("escalation", ASKED_WORDS[looked.asked], ASKED)] if looked.asked else []
    return [(word, value, without_word(request, name)) for word, value, name in [*fields, *asked]]


def _row(one: Fingerprint, looked: _Looked, mix: Mix) -> Row:
    change = "" if one.before is None else f"{one.before:,} before"
    return Row(
        found=one,
        href=f"{reverse('failure', args=[one.fingerprint])}{looked.window.link}",
        title=title_of(one.category, one.message),
        change=change,
        trend=drawing.spark(one.bins, looked.sample.grid),
        mix=mix,
        drawing=drawing.shares(
            [(count, *how) for count, how in zip(mix.counts, _BECAME, strict=True)], label="Show runs"
        ),
        standing=looked.standings[one.fingerprint],
        question=looked.questions.about(one),
        notes=looked.notes.get(one.fingerprint, 0),
        has_more_runs=one.runs == RUNS_MOST,
    )


def _sentence(sample: Sample, rows: Sequence[Fingerprint], everything: Sample, empty: Empty | None) -> str:
    if not rows and everything.total:
        total = f"{count_text(everything.total, 'failed attempt')} in this range"
        is_good = empty is not None and empty.why is Why.GOOD
        return f"{empty.title}; {total}." if empty and is_good else f"No matching issues; {total}."
    if not rows and empty is not None and empty.why is Why.UNKNOWN:
        return f"{empty.title}."
    if not rows:
        return "No failures in this range."
    fresh = [one for one in rows if one.course is Course.NEW]
    rising = [one for one in rows if one.course is Course.RISING]
    parts = [f"{len(fresh)} new"] if fresh else []
    parts += [f"{len(rising)} rising"] if rising else []
    causes = f"{count_text(sample.total, 'failed attempt')} of {count_text(len(rows), 'issue')}"
    course = f", {listing(parts)}" if parts else ""
    most = f" Most frequent: {title_of(rows[0].category, rows[0].message)[:120]}" if rows else ""
    return f"{causes}{course}.{most}"

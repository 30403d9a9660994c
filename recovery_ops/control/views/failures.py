"""Failures: put together by cause, told apart by what they have in common, and each cause by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from events import drawing
from events.empties import Clause, Empty, Why, none_in, relaxed
from events.exports import Cell, is_asked, rows_answer
from events.failures.asking import (
    READ,
    SHOWN,
    counts_before,
    fingerprints,
    is_unnamed,
    occurrences,
    read_failures,
    traits,
)
from events.failures.grouping import SPLIT_FIELDS, Grouping
from events.failures.mixing import NO_RUNS, RUNS_EACH, Mix, mixes
from events.failures.naming import title_of
from events.failures.rows import PLACE, Course, Field, Fingerprint, Sample
from events.moments import from_us
from events.narrowing import one_of
from events.pages import render_page
from events.runs.asking import stories_of
from events.scoped import NAMES
from events.window import PRESETS, Window, window_in
from events.wording import category_text, clock_text, count_text, listing
from recovery_ops.control.context import visit_of
from recovery_ops.control.cursors import Place, after_place
from recovery_ops.control.escalations.about_causes import OpenQuestions, asked_about, open_questions
from recovery_ops.control.failures import (
    Standing,
    cases_of,
    grouping_of,
    groupings_in_force,
    noted_by_cause,
    notes_on,
    standing_of,
)
from recovery_ops.control.models import FailureCase
from recovery_ops.control.views.brushing import histogram_of
from recovery_ops.control.views.columns import Column, Columns
from recovery_ops.control.views.failure_elsewhere import failure_elsewhere
from recovery_ops.control.views.failure_facets import (
    ASKED,
    ASKED_WORDS,
    FIELD_WORDS,
    Choice,
    asked_facet,
    facets_of,
    without_word,
)
from recovery_ops.control.views.failure_runs import outages_of, outcomes_of
from recovery_ops.control.views.occurrences import log_of, occurrence_of
from recovery_ops.control.views.paging import from_the_start, page, place_asked
from recovery_ops.control.views.wanted import words_of
from recovery_ops.rules.words import FAMILY_OF

_COURSE_WORDS = {
    Course.NEW: "new",
    Course.RISING: "rising",
    Course.ONGOING: "ongoing",
    Course.FALLING: "falling",
    Course.QUIET: "quiet",
}
_MOST_RUNS = 50
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looked:
    """What an address asks for: the failures of its range, those that match all of it, and their causes."""

    window: Window
    chosen: Mapping[Field, str]
    search: str
    tab: str
    everything: Sample
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
    search = request.GET.get("q", "").strip()[:_SEARCH_CHARS]
    tab = one_of(request.GET, "tab", TABS, "open")
    me = request.user.get_username()
    grouping = grouping_of(environment)
    everything = grouping.of(read_failures(environment, start=window.start, end=window.end))
    fitting = _fitting(everything, search, window)
    standings = _standings(environment, everything, now)
    fits = everything.of(fitting)
    of_tab = fits.of({name for name, standing in standings.items() if _is_in(tab, standing, me)})
    before = _before(environment, window, grouping) if not chosen else None
    sample = of_tab.matching(chosen)
    found = fingerprints(sample, start=window.start, end=window.end, before=before, limit=READ)
    questions = open_questions(environment, grouping)
    asked = one_of(request.GET, ASKED, ASKED_WORDS)
    others = {one.fingerprint for one in found if asked and (questions.about(one) is None) != (asked == "no")}
    counted = [standings[name] for name in fits.matching(chosen).causes]
    return _Looked(
        window=window,
        chosen=chosen,
        search=search,
        tab=tab,
        everything=everything,
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


def _fitting(everything: Sample, search: str, window: Window) -> Collection[str]:
    """The causes that what is looked for fits. One query, none where nothing is looked for."""
    if not search:
        return everything.causes
    looked_for = words_of(search)
    found = fingerprints(everything, start=window.start, end=window.end, before=None, limit=READ)
    return {one.fingerprint for one in found if looked_for.fits(_told_of(one))}


def _standings(environment: str, everything: Sample, now: datetime) -> Mapping[str, Standing]:
    """How each cause stands: by its newest failure, whatever is chosen of them. One query."""
    cases = cases_of(environment)
    newest = {one.fingerprint: one.at_us for one in reversed(everything.seen)}
    return {name: standing_of(cases.get(name), last=from_us(at_us), now=now) for name, at_us in newest.items()}


def matching_names(request: HttpRequest, environment: str, query: str, now: datetime) -> list[str]:
    """The names of the causes that the list with this query has on all its pages, the most frequent first."""
    asked = copy(request)
    asked.GET = QueryDict(query[:_QUERY_CHARS])
    return [one.fingerprint for one in sorted(_look(asked, environment, now).matching, key=lambda one: one.place)]


def failures(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The causes in the window, the most frequent first, with what may be chosen at their side."""
    now = timezone.now()
    looked = _look(request, environment, now)
    window, everything = looked.window, looked.everything
    columns = Columns(request, _heads(looked.notes), before=int(visit_of(request).grants.may("respond", environment)))
    matching = columns.in_order(looked.matching)
    if is_asked(request):
        became = mixes(environment, looked.sample.seen, [one.fingerprint for one in matching])
        rows = (_cells(one, looked, became[one.fingerprint]) for one in matching)
        return rows_answer(request, f"failures {environment}", _COLUMNS, rows)
    place = _place_in(matching, is_sorted=columns.is_sorted)
    after = place_asked(request, (int,) if columns.is_sorted else PLACE)
    shown, cursor = after_place(matching, place, after, SHOWN)
    sample = looked.sample
    has_mixes = columns.shows("became")
    became = mixes(environment, sample.seen, [one.fingerprint for one in shown]) if has_mixes else {}
    empty = None if shown else _empty(request, environment, looked, now)
    context = {
        "now": now,
        "window": window,
        "presets": PRESETS,
        "empty": empty,
        "sentence": _sentence(sample, matching, everything, empty),
        "histogram": histogram_of(request, sample, window) if sample.seen else None,
        "cut": _cut_words(everything, window),
        "facets": _facets(request, looked),
        "chosen": _chosen(request, looked),
        "search": looked.search,
        "file_columns": _COLUMNS,
        "columns": columns,
        "page": page(request, shown, after, cursor),
        "total": len(everything.seen),
        "failed": len(sample.seen),
        "rows": [_row(one, looked, became.get(one.fingerprint, NO_RUNS)) for one in shown],
        "endings": _BECAME if has_mixes else [],
        "runs_each": RUNS_EACH,
        "tab": looked.tab,
        "tabs": [(name, word, looked.counts[name], _with_tab(request, name)) for name, word in TABS.items()],
        "found": len(matching),
        "every": from_the_start(request).urlencode(),
        "kept": [(name, value) for name, value in from_the_start(request).items() if name != "q"],
    }
    return render_page(request, "control/failures", context)


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
    if not everything.seen:
        title, text = "No attempt failed in this range", "Agents reported all through it."
        return none_in(environment, looked.window, now=now, title=title, text=text)
    if tab in ("open", "mine") and not search and not chosen and not looked.asked:
        text = "None is given to you." if tab == "mine" else "Every cause of this range is archived or resolved."
        title = "Nothing is yours" if tab == "mine" else "Nothing is open"
        return Empty(why=Why.GOOD, title=title, text=text, href=_with_tab(request, "all"), button="Show all causes")
    me, all_causes = request.user.get_username(), everything.causes

    def left(fields: Mapping[Field, str], names: Collection[str], of_tab: str) -> int:
        found = everything.of(names).matching(fields).causes
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
    ("closed", "recovered by themselves"),
    ("fallback", "recovered by a fallback or with less"),
    ("taken", "recovered with a person’s help"),
    ("open", "lost"),
)
"""Pattern and words of each ending, in their order."""
_COURSES = (Course.NEW, Course.RISING, Course.ONGOING, Course.FALLING, Course.QUIET)
_HEADS: tuple[Column[Fingerprint], ...] = (
    Column(name="what", word="What failed", key=lambda one: title_of(one.category, one.message).lower(), is_fixed=True),
    Column(name="course", word="Course", key=lambda one: _COURSES.index(one.course)),
    Column(name="count", word="Failures", key=lambda one: one.count, is_number=True, is_most_first=True),
    Column(name="trend", word="Trend"),
    Column(name="became", word="Its runs"),
    Column(name="runs", word="Reached", key=lambda one: one.runs, is_number=True, is_most_first=True),
    Column(name="last", word="Last", key=lambda one: one.last, is_most_first=True),
    Column(name="first", word="First", key=lambda one: one.first, is_most_first=True, is_extra=True),
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


def failure(request: HttpRequest, *, environment: str, fingerprint: str) -> HttpResponse:
    """One cause: why these are one, what they have in common, how it ended, and the newest of them."""
    now = timezone.now()
    window = window_in(request, environment, now=now)
    grouping = grouping_of(environment)
    asked_for, fingerprint = fingerprint, grouping.head(fingerprint)
    sample = grouping.of(read_failures(environment, start=window.start, end=window.end))
    mine = [one for one in sample.seen if one.fingerprint == fingerprint]
    if not mine:
        cut = _cut_words(sample, window)
        return failure_elsewhere(request, environment, asked_for, grouping=grouping, window=window, cut=cut, now=now)
    part = Sample(seen=mine, is_cut=sample.is_cut, since=sample.since)
    [found] = fingerprints(part, start=window.start, end=window.end, before=None)
    newest = occurrences(mine)
    parts, split_from = grouping.parts(fingerprint), grouping.split_from(fingerprint)
    case = FailureCase.objects.filter(environment=environment, fingerprint=fingerprint).first()
    met = list(dict.fromkeys(one.run for one in mine if one.run))
    context = {
        "now": now,
        "window": window,
        "presets": PRESETS,
        "found": found,
        "title": title_of(found.category, found.message),
        "family": FAMILY_OF[found.category].value.replace("_", " "),
        "sentence": _telling(found, part, window),
        "cut": _cut_words(sample, window),
        "is_unnamed": is_unnamed(fingerprint),
        "wordings": Counter(one.message for one in newest if one.message).most_common(3),
        "traits": [
            (FIELD_WORDS[one.name], one, drawing.bullet(one.share), drawing.bullet(one.baseline))
            for one in traits(sample, fingerprint)
        ],
        "outcomes": outcomes_of(stories_of(environment, met[:_MOST_RUNS]), met=len(met), is_least=sample.is_cut),
        "outages": outages_of(environment, found, mine, window),
        "newest": newest,
        "tab": "log" if request.GET.get("tab") == "log" else "",
        "one": occurrence_of(request, newest),
        "log": log_of(environment, parts) if request.GET.get("tab") == "log" else [],
        "trend": drawing.spark(found.bins),
        "runs_href": f"{reverse('runs')}?fingerprint={quote(fingerprint, safe='')}{window.also}",
        "is_grouped": len(parts) > 1 or bool(split_from),
        "asked_for": asked_for if asked_for != fingerprint else "",
        "standing": standing_of(case, last=found.last, now=now),
        "rules": groupings_in_force(environment, [*parts, *filter(None, [split_from])]),
        "splits": _splits(part, fingerprint) if len(parts) == 1 and not split_from else [],
        "category": category_text(found.category),
        "questions": asked_about(environment, parts, found),
        "notes": notes_on(environment, parts),
    }
    return render_page(request, "control/failure", context)


def _splits(part: Sample, fingerprint: str) -> list[tuple[str, str, int]]:
    """The values by which a cause could be split, as (field, value, failures): where there is more than one."""
    found = []
    for name in SPLIT_FIELDS:
        counts = part.counts(name)
        if len(counts) > 1:
            found += [(name.value, value, count) for value, count in counts.most_common(4) if value]
    return found


def _before(environment: str, window: Window, grouping: Grouping) -> Mapping[str, int] | None:
    """The range before, where anybody was there to tell."""
    if window.began is None or window.began > window.start - window.length:
        return None
    return counts_before(environment, start=window.start, end=window.end, grouping=grouping)


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


def _facets(request: HttpRequest, looked: _Looked) -> list[tuple[str, Sequence[Choice]]]:
    """What the list may be narrowed by, each with its values."""
    asked = asked_facet(request, looked.before_asked, looked.questions, looked.asked)
    return [*facets_of(request, looked.sample, looked.unchosen, looked.chosen), asked]


def _chosen(request: HttpRequest, looked: _Looked) -> list[tuple[str, str, str]]:
    """What this list alone is narrowed by: the word, the value, and the address without it."""
    own = {name: value for name, value in looked.chosen.items() if name not in NAMES}
    fields = [(FIELD_WORDS[name].lower(), value, name.value) for name, value in own.items()]
    asked = [("people are", ASKED_WORDS[looked.asked], ASKED)] if looked.asked else []
    return [(word, value, without_word(request, name)) for word, value, name in [*fields, *asked]]


def _trend(bins: Sequence[int | None]) -> SafeString:
    """A line; a dash where so little of the range was read that there is none to draw."""
    is_line = sum(one is not None for one in bins) > 1
    return drawing.spark(bins) if is_line else SafeString("–")


def _row(one: Fingerprint, looked: _Looked, mix: Mix) -> Row:
    change = "" if one.before is None else f"{one.before:,} before"
    return Row(
        found=one,
        href=f"{reverse('failure', args=[one.fingerprint])}{looked.window.link}",
        title=title_of(one.category, one.message),
        change=change,
        trend=_trend(one.bins),
        mix=mix,
        drawing=drawing.shares(
            [(count, *how) for count, how in zip(mix.counts, _BECAME, strict=True)], label="Runs that met it"
        ),
        standing=looked.standings[one.fingerprint],
        question=looked.questions.about(one),
        notes=looked.notes.get(one.fingerprint, 0),
    )


def _sentence(sample: Sample, rows: Sequence[Fingerprint], everything: Sample, empty: Empty | None) -> str:
    if not rows and everything.seen:
        total = f"{count_text(len(everything.seen), 'failed attempt')} in this range"
        is_good = empty is not None and empty.why is Why.GOOD
        return f"{empty.title} of {total}." if empty and is_good else f"None of {total} is asked for."
    if not rows and empty is not None and empty.why is Why.UNKNOWN:
        return f"{empty.title}."
    if not rows:
        return "No attempt failed in this range."
    fresh = [one for one in rows if one.course is Course.NEW]
    rising = [one for one in rows if one.course is Course.RISING]
    parts = [f"{len(fresh)} new"] if fresh else []
    parts += [f"{len(rising)} rising"] if rising else []
    causes = f"{count_text(len(sample.seen), 'failed attempt')} of {count_text(len(rows), 'cause')}"
    course = f", {listing(parts)}" if parts else ""
    most = f" Most often: {title_of(rows[0].category, rows[0].message)[:120]}" if rows else ""
    return f"{causes}{course}.{most}"


def _telling(found: Fingerprint, part: Sample, window: Window) -> str:
    least = "At least " if part.is_cut else ""
    runs = f" in {count_text(found.runs, 'run')}" if found.runs else ""
    where = f"{runs} on {count_text(found.instances, 'instance')}"
    span = f"first {clock_text(found.first, today=window.end)}, last {clock_text(found.last, today=window.end)}"
    return f"{least}{count_text(found.count, 'time')}{where}, {span}."


def _cut_words(sample: Sample, window: Window) -> str:
    """What an answer from a part of the range has to say of itself."""
    if not sample.is_cut:
        return ""
    return (
        f"Only the newest {READ:,} failures of this range are read here, back to "
        f"{clock_text(sample.since, today=window.end)}. Choose a shorter range for the rest."
    )

"""The page of one issue: why its failures are one, what they have in common, how its runs ended, and the newest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from events.charts import drawing
from events.deployments.asking import deployments
from events.failures.asking import counts_of_agents, fingerprints, in_words, occurrences, traits
from events.failures.ever import read_with_ever
from events.failures.grouping import SPLIT_FIELDS
from events.failures.met import RUNS_MOST, Reach, reach_of
from events.failures.naming import title_of
from events.failures.rows import Field, Fingerprint, Sample
from events.issues.fold import is_unnamed
from events.moments import to_us
from events.pages.narrowing import one_of
from events.pages.rendering import render_page
from events.pages.window import PRESETS, Window, window_in
from events.queries.resting_keys import keys_in
from events.rows import FailureRow
from events.wording import category_text, clock_text, count_text
from recovery_ops.control.core.cursors import cut
from recovery_ops.control.core.pagination import Page, page, place_asked
from recovery_ops.control.dashboard.marks import version_href
from recovery_ops.control.escalations.selectors.by_issue import asked_about
from recovery_ops.control.issues.models import FailureCase
from recovery_ops.control.issues.selectors import grouping_by, groupings_in_force, notes_on, standing_of
from recovery_ops.control.issues.views.facets import BY_INSTANCE, FIELD_WORDS, with_word
from recovery_ops.control.issues.views.histogram import histogram_of
from recovery_ops.control.issues.views.occurrences import log_of, occurrence_of
from recovery_ops.control.issues.views.outside_range import OLDEST, failure_elsewhere, seen_of
from recovery_ops.control.issues.views.runs import outages_of, outcomes_of
from recovery_ops.control.issues.views.spread import spread_of
from recovery_ops.rules.enums import FAMILY_OF

_FAILURES = 20


def failure(request: HttpRequest, *, environment: str, fingerprint: str) -> HttpResponse:
    """One cause: why these are one, what they have in common, how it ended, and the newest of them."""
    now = timezone.now()
    window = window_in(request, environment, now=now)
    rules = groupings_in_force(environment)
    grouping = grouping_by(rules)
    asked_for, fingerprint = fingerprint, grouping.head(fingerprint)
    span: dict[str, Any] = {"start": window.start, "end": window.end}
    sample, ever = read_with_ever(environment, fingerprint, **span, grouping=grouping)
    part = sample.of([fingerprint])
    if not part.seen:
        return failure_elsewhere(request, environment, asked_for, grouping=grouping, window=window, now=now, ever=ever)
    listed = _occurrences(request, environment, part, span)
    reach = reach_of(environment, part.kinds, start_us=to_us(window.start), end_us=to_us(window.end))
    found = _found(environment, part, window, listed, reach)
    runs_href = f"{reverse('runs')}?fingerprint={quote(fingerprint, safe='')}{window.also}"
    parts, split_from = grouping.parts(fingerprint), grouping.split_from(fingerprint)
    case = FailureCase.objects.filter(environment=environment, fingerprint=fingerprint).first()
    context = {
        "now": now,
        "window": window,
        "presets": PRESETS,
        "found": found,
        "title": title_of(found.category, found.message),
        "family": FAMILY_OF[found.category].value.replace("_", " "),
        "sentence": _telling(found, window),
        "is_unnamed": is_unnamed(fingerprint),
        "traits": [
            (FIELD_WORDS[one.name], one, drawing.bullet(one.share), drawing.bullet(one.baseline))
            for one in traits(sample, fingerprint, _agents(request, environment, part, sample, window))
        ],
        "by_instance_href": "" if _is_by_instance(request) else with_word(request, *BY_INSTANCE),
        "outcomes": outcomes_of(reach.runs, runs_href),
        "outages": outages_of(environment, found, part, window),
        **_listed_context(request, listed),
        **_log(request, environment, parts),
        "seen": seen_of(request, ever),
        **_trend(request, environment, part, window),
        "spread": spread_of(part),
        "runs_href": runs_href,
        "is_grouped": len(parts) > 1 or bool(split_from),
        "asked_for": asked_for if asked_for != fingerprint else "",
        "standing": standing_of(case, last=found.last, now=now),
        "rules": [one for one in rules if {one.fingerprint, one.into} & {*parts, split_from}],
        "splits": _splits(part) if len(parts) == 1 and not split_from else [],
        "category": category_text(found.category),
        "questions": asked_about(environment, parts, found),
        "notes": notes_on(environment, parts),
    }
    return render_page(request, "issues/failure", context)


def _log(request: HttpRequest, environment: str, parts: Collection[str]) -> dict[str, Any]:
    """The open tab, and what was done about the issue where that is the log."""
    is_log = request.GET.get("tab") == "log"
    return {"tab": "log" if is_log else "", "log": log_of(environment, parts) if is_log else []}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """A page of failures, newest or oldest first; `has_newest`: the newest of all is its first."""

    page: Page[FailureRow]
    is_oldest_first: bool
    has_newest: bool


def _occurrences(request: HttpRequest, environment: str, part: Sample, span: Mapping[str, Any]) -> _Listed:
    is_oldest_first = one_of(request.GET, "order", (OLDEST,)) == OLDEST
    place = place_asked(request, (int, int))
    after = None if place is None else (int(place[0]), int(place[1]))
    read = occurrences(environment, part, **span, limit=_FAILURES + 1, is_oldest_first=is_oldest_first, after=after)
    shown, cursor = cut(read, lambda one: one.place, _FAILURES)
    return _Listed(
        page=page(request, shown, after, cursor),
        is_oldest_first=is_oldest_first,
        has_newest=after is None and not is_oldest_first,
    )


def _listed_context(request: HttpRequest, listed: _Listed) -> dict[str, Any]:
    """The failures on this page, what they say most often, their keys, and one of them in full."""
    rows = listed.page.rows
    return {
        "failures": listed.page,
        "is_oldest_first": listed.is_oldest_first,
        "wordings": Counter(one.message for one in rows if one.message).most_common(3),
        "keys": keys_in(rows),
        "one": occurrence_of(request, rows),
    }


def _trend(request: HttpRequest, environment: str, part: Sample, window: Window) -> dict[str, Any]:
    """The failures over time beside what was deployed of its services. One query."""
    services = part.counts(Field.SERVICE)
    told = deployments(environment, start=window.start, end=window.end)
    deployed = [(one, version_href(one)) for one in told if one.service in services]
    trend = histogram_of(request, part, window, [one for one, _ in deployed])
    return {"trend": trend, "deployed": deployed}


def _found(environment: str, part: Sample, window: Window, listed: _Listed, reach: Reach) -> Fingerprint:
    """The issue as its counts, its newest failure and its runs tell it. No query where that failure is listed."""
    [light] = fingerprints(part, start=window.start, end=window.end, before=None)
    if not (listed.has_newest and listed.page.rows):
        [light] = in_words(environment, part, [light])
    else:
        last = listed.page.rows[0]
        light = replace(light, message=last.message, error_type=last.error_type, status_code=last.status_code)
    return replace(light, runs=reach.runs.total(), instances=reach.instances)


def _is_by_instance(request: HttpRequest) -> bool:
    name, value = BY_INSTANCE
    return request.GET.get(name) == value


def _agents(
    request: HttpRequest, environment: str, part: Sample, sample: Sample, window: Window
) -> tuple[Mapping[Field, Counter[str]], Mapping[Field, Counter[str]]] | None:
    """The counts by instance and version of the failures of an issue, and of all; None where they are not asked for."""
    if not _is_by_instance(request):
        return None
    span: dict[str, Any] = {"start": window.start, "end": window.end}
    its, every = (counts_of_agents(environment, one, **span) for one in (part, sample))
    return its, every


def _splits(part: Sample) -> list[tuple[str, str, int]]:
    """The values by which a cause could be split, as (field, value, failures): where there is more than one."""
    found = []
    for name in SPLIT_FIELDS:
        counts = part.counts(name)
        if len(counts) > 1:
            found += [(name.value, value, count) for value, count in counts.most_common(4) if value]
    return found


def _telling(found: Fingerprint, window: Window) -> str:
    least = "≥ " if found.runs == RUNS_MOST else ""
    runs = f" in {least}{count_text(found.runs, 'run')}" if found.runs else ""
    where = f"{runs} on {count_text(found.instances, 'instance')}"
    span = f"first {clock_text(found.first, today=window.end)}, last {clock_text(found.last, today=window.end)}"
    return f"{count_text(found.count, 'failure')}{where}, {span}."

"""The page of one question: the paragraph, the decision, the clocks, what was said, what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events import queries
from events.capacity.asking import capacity_event, capacity_events
from events.capacity.rows import CapacityEventRow
from events.exports import JSON, MARKDOWN, is_asked
from events.pages import fragment_of, render_page
from events.runs.asking import stories_of
from events.runs.ladder import small
from events.wording import clock_text, count_text, zone_word
from recovery_ops.control.context import actor_of
from recovery_ops.control.escalations import asking
from recovery_ops.control.escalations.asking import EscalationRow
from recovery_ops.control.escalations.learning import KINDS, follow_ups_of, of_kind
from recovery_ops.control.escalations.merging import NAMED_MOST
from recovery_ops.control.escalations.presence import BEAT_S, looking_at
from recovery_ops.control.escalations.terms import matter_of, then_of
from recovery_ops.control.models import Escalation
from recovery_ops.control.notify.chains import plan_of
from recovery_ops.control.views.learning import follow_up_form
from recovery_ops.control.views.linked import cause_href, fingerprint_about
from recovery_ops.control.views.neighbours import list_of, neighbours_of
from recovery_ops.control.views.postmortem import PostMortem
from recovery_ops.control.views.queue import numbers_in
from recovery_ops.control.views.responding import found_by, missing
from recovery_ops.control.views.runbooks import steps_on
from recovery_ops.rules.words import Category

_EVIDENCE_FOR = timedelta(hours=24)
_RUNS_SHOWN = 3


def escalation(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """One question: the paragraph, the decision, the clocks, what was said, what it is about, what was like it."""
    now = timezone.now()
    found = asking.find_with_story(environment, number)
    if found is None:
        raise missing(environment, number)
    one, story, has_breaker = found
    if one.merged_into_id is not None:
        return _to_whole(request, one)
    row = asking.row_of(one, now)
    start = min(one.opened_at, one.seen_at) - timedelta(minutes=5)
    # What stopped a run as a whole lies in the run: any operation of it.
    about: dict[str, Any] = {"operation": one.operation} if one.operation else {"runs": set(one.runs) - {""}}
    if one.fingerprint or one.capacity_event is not None:
        about["category"] = one.category
    failures = queries.recent_failures(environment, start=max(start, now - _EVIDENCE_FOR), end=now, limit=10, **about)
    cause = fingerprint_about(one, failures)
    range_of: dict[str, Any] = {"start": start, "end": one.resolved_at or now, "also": one.capacity_event}
    outages = capacity_events(environment, now=now, **range_of) if one.operation else []
    is_oldest_first = request.GET.get("order") == "oldest"
    listed = [str(name) for name in numbers_in(request, environment, list_of(request), now)]
    ran = stories_of(environment, one.runs[:_RUNS_SHOWN])
    context = {
        "now": now,
        "row": row,
        "one": one,
        "beside": neighbours_of(request, str(one.pk), listed, lambda name: reverse("escalation", args=[name])),
        "paragraph": _paragraph(row, now),
        "then": then_of(one),
        "beat_s": BEAT_S,
        "story": of_kind(story, request.GET.get("kind", ""))[:: -1 if is_oldest_first else 1],
        "kinds": [("", "All", len(story)), *((name, word, len(of_kind(story, name))) for name, word in KINDS.items())],
        "kind": request.GET.get("kind", "") if request.GET.get("kind") in KINDS else "",
        "is_oldest_first": is_oldest_first,
        "whole_story": story,
        "follow_ups": follow_ups_of(one),
        "follow_up_form": follow_up_form(request),
        "ladders": [(told, small(told, now)) for told in ran],
        "plan": plan_of(one, story, now),
        "failures": failures,
        "cause": cause if one.category == Category.UNKNOWN else "",
        "cause_href": cause_href(one, cause, now),
        "has_breaker": bool(one.operation) and has_breaker,
        "outages": _outages(one, outages, now),
        "similar": asking.similar_to(one),
        **steps_on(one),
    }
    if is_asked(request, MARKDOWN, JSON):
        return PostMortem.of(context).answer(request)
    return render_page(request, "control/escalation", context)


def _to_whole(request: HttpRequest, one: Escalation) -> HttpResponse:
    if not fragment_of(request):  # a message that its answer does not show would stand on a later page
        messages.info(request, f"{one} was merged into this question.")
    return redirect("escalation", number=one.merged_into_id)


@require_http_methods(["POST"])
def looking(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """Note that this person has the page in sight, and answer who else has."""
    others = looking_at(found_by(environment, number), actor_of(request).user_id, timezone.now())
    return render(request, "control/_looking.html", {"others": others})


def _outages(one: Escalation, beside: Sequence[CapacityEventRow], now: datetime) -> list[CapacityEventRow]:
    """The event that a person asked about, and those of its operation at that time."""
    about = one.capacity_event
    alike = [event for event in beside if one.operation in event.operations]
    if about is None:
        return alike[:3]
    here = (event for event in beside if about in (event.id, *(part.id for part in event.parts)))
    named = next(here, None) or capacity_event(one.environment, about, now=now)
    return [*([named] if named else []), *(event for event in alike if named is None or event.id != named.id)][:3]


def _paragraph(row: EscalationRow, now: datetime) -> str:
    """What failed, how often, who asks, and what happens if nobody answers."""
    one = row.one
    who = f"{one.operation} of {one.service}" if one.operation else f"A run of {one.service}"
    matter = matter_of(one.reason, one.category)
    what = f"{who} asks {one.queue}" if row.is_question else f"{who}: {matter}"
    if one.fingerprint:
        seen = f", last seen in {who}" if one.operation else ""
        what = f"A person asks {one.queue} about a cause of failures{seen}"
    if one.capacity_event is not None:
        what = f"A person asks {one.queue} about the outage CE-{one.capacity_event}"
    if one.category and not row.is_question:
        what = f"{who} failed, {matter}"
    said = "" if row.is_question or not one.message else f": “{one.message.rstrip('. ')}”"
    times = "once" if one.occurrences == 1 else f"{one.occurrences:,} times"
    least = "at least " if len(one.runs) >= NAMED_MOST else ""
    runs = f" in {least}{count_text(len(one.runs), 'run')}" if one.runs else ""
    asked = f"It was asked {times}{runs}, last at {clock_text(one.seen_at, today=now)} {zone_word(now)}."
    if not one.is_open:
        return f"{what}{said}. {asked}"
    waits = "A run waits for the answer. " if one.ticket else ""
    then = then_of(one)
    end = f"If nobody decides by {clock_text(one.resolve_by, today=now)} {zone_word(now)}, {then}."
    if one.default_done_at is not None:
        end = f"Nobody decided in time: {then}. It stays open until somebody does."
    return f"{what}{said}. {asked} {waits}{end}"

"""The page of one question: the paragraph, the decision, the clocks, what was said, what it is about."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from events.pages.rendering import fragment_of, render_page
from events.pages.table_files import JSON, MARKDOWN, is_asked
from events.runs.ladder import steps_taken
from events.runs.selectors import get_runs
from recovery_ops.control.core.list_neighbours import list_of, neighbours_of
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.post_mortems import post_mortem_of
from recovery_ops.control.escalations.selectors import queue as asking
from recovery_ops.control.escalations.selectors.story import KINDS, of_kind
from recovery_ops.control.escalations.selectors.subject import failures_of, outages_of, paragraph_of
from recovery_ops.control.escalations.terms import then_of
from recovery_ops.control.escalations.views.level_timeline import chain_strip
from recovery_ops.control.escalations.views.linked_failures import cause_href, fingerprint_about
from recovery_ops.control.escalations.views.post_mortem import file_answer
from recovery_ops.control.escalations.views.queue import numbers_in
from recovery_ops.control.escalations.views.responding import missing
from recovery_ops.control.notifications.escalation_policies import chains_of, plan_of
from recovery_ops.control.runbooks.views import steps_on
from recovery_ops.rules.enums import Category

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
    if is_asked(request, MARKDOWN, JSON):
        return file_answer(request, post_mortem_of(one, story, now))
    row = asking.row_of(one, now)
    failures = failures_of(one, until=now)
    cause = fingerprint_about(one, failures)
    is_oldest_first = request.GET.get("order") == "oldest"
    chains = chains_of(environment)
    listed = [str(name) for name in numbers_in(request, environment, list_of(request), now, chains)]
    plan = plan_of(one, story, now, chains)
    ran = get_runs(environment, one.runs[:_RUNS_SHOWN])
    context = {
        "now": now,
        "row": row,
        "one": one,
        "beside": neighbours_of(request, str(one.pk), listed, lambda name: reverse("escalation", args=[name])),
        "paragraph": paragraph_of(row, now),
        "then": then_of(one),
        "withdrawn": next((note.text for note in story if note.verb == "withdraw"), "") if not one.is_open else "",
        "abort": asking.abort_wish_of(one, now),
        "story": of_kind(story, request.GET.get("kind", ""))[:: -1 if is_oldest_first else 1],
        "kinds": [("", "All", len(story)), *((name, word, len(of_kind(story, name))) for name, word in KINDS.items())],
        "kind": request.GET.get("kind", "") if request.GET.get("kind") in KINDS else "",
        "is_oldest_first": is_oldest_first,
        "recovered_by": [(told, steps_taken(told)) for told in ran],
        "plan": plan,
        "chain": chain_strip(one, story, plan, now),
        "failures": failures,
        "cause": cause if one.category == Category.UNKNOWN else "",
        "cause_href": cause_href(one, cause, now),
        "has_breaker": bool(one.operation) and has_breaker,
        "outages": outages_of(one, now),
        "similar": asking.similar_to(one),
        **steps_on(one),
    }
    return render_page(request, "escalations/escalation", context)


def _to_whole(request: HttpRequest, one: Escalation) -> HttpResponse:
    if not fragment_of(request):  # a message that its answer does not show would stand on a later page
        messages.info(request, f"{one} was merged into this question.")
    return redirect("escalation", number=one.merged_into_id)

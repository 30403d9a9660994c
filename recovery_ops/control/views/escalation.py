"""The page of one question: the paragraph, the decision, the clocks, what was said, what it is about."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.exports import JSON, MARKDOWN, is_asked
from events.pages import fragment_of, render_page
from events.runs.asking import stories_of
from events.runs.ladder import small
from recovery_ops.control.context import actor_of
from recovery_ops.control.documents.post_mortems import post_mortem_of
from recovery_ops.control.escalations import asking
from recovery_ops.control.escalations.asked_about import failures_of, outages_of, paragraph_of
from recovery_ops.control.escalations.learning import KINDS, follow_ups_of, of_kind
from recovery_ops.control.escalations.presence import BEAT_S, looking_at
from recovery_ops.control.escalations.terms import then_of
from recovery_ops.control.models import Escalation
from recovery_ops.control.notify.chains import chains_of, plan_of
from recovery_ops.control.views.chain_strip import chain_strip
from recovery_ops.control.views.learning import follow_up_form
from recovery_ops.control.views.linked import cause_href, fingerprint_about
from recovery_ops.control.views.neighbours import list_of, neighbours_of
from recovery_ops.control.views.postmortem import file_answer
from recovery_ops.control.views.queue import numbers_in
from recovery_ops.control.views.responding import found_by, missing
from recovery_ops.control.views.runbooks import steps_on
from recovery_ops.rules.words import Category

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
    ran = stories_of(environment, one.runs[:_RUNS_SHOWN])
    context = {
        "now": now,
        "row": row,
        "one": one,
        "beside": neighbours_of(request, str(one.pk), listed, lambda name: reverse("escalation", args=[name])),
        "paragraph": paragraph_of(row, now),
        "then": then_of(one),
        "withdrawn": next((note.text for note in story if note.verb == "withdraw"), "") if not one.is_open else "",
        "abort": asking.abort_wish_of(one, now),
        "beat_s": BEAT_S,
        "story": of_kind(story, request.GET.get("kind", ""))[:: -1 if is_oldest_first else 1],
        "kinds": [("", "All", len(story)), *((name, word, len(of_kind(story, name))) for name, word in KINDS.items())],
        "kind": request.GET.get("kind", "") if request.GET.get("kind") in KINDS else "",
        "is_oldest_first": is_oldest_first,
        "follow_ups": follow_ups_of(one),
        "follow_up_form": follow_up_form(request),
        "ladders": [(told, small(told, now)) for told in ran],
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

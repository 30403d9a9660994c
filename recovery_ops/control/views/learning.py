"""The small forms on the page of a question: a star at a line of its story, and follow-ups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from recovery_ops.control.actions.learning import add_follow_up, finish_follow_up, star_note
from recovery_ops.control.context import actor_of, visit_of
from recovery_ops.control.forms import REASON_MOST_CHARS, new_key
from recovery_ops.control.numbers import number_in
from recovery_ops.control.refusals import Refused
from recovery_ops.control.views.answers import changed
from recovery_ops.control.views.responding import found_by


class FollowUpForm(forms.Form):
    """What is to be done, whose it is, and by when."""

    text = forms.CharField(max_length=REASON_MOST_CHARS, error_messages={"required": "Say what is to be done."})
    owner = forms.CharField(max_length=200, error_messages={"required": "Say whose it is."})
    due_on = forms.DateField(required=False, error_messages={"invalid": "Write a day like 2026-01-31, or nothing."})
    key = forms.CharField(max_length=40, required=False)


def follow_up_form(request: HttpRequest) -> FollowUpForm:
    """The empty form, for the page of the question; it is its asker's own until they say otherwise."""
    return FollowUpForm(initial={"key": new_key(), "owner": request.user.get_username()})


@require_http_methods(["POST"])
def star(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """Star a line (`star`), or take the star away (`unstar`), by its number."""
    _require(request, environment, number)
    given, taken = request.POST.get("star", ""), request.POST.get("unstar", "")
    asked = _asked(request, environment, number) | {"note": number_in(given or taken) or 0, "is_starred": bool(given)}
    told = "It is starred for the post-mortem." if given else "The star is taken away."
    return _answered(request, number, "#story-title", told, star_note, asked)


@require_http_methods(["POST"])
def follow_ups(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """Write a follow-up down; or say that one is done (`done`), or is to be done again (`undo`), by its number."""
    _require(request, environment, number)
    asked = _asked(request, environment, number)
    done, undone = request.POST.get("done", ""), request.POST.get("undo", "")
    if done or undone:
        asked |= {"follow_up": number_in(done or undone) or 0, "is_done": bool(done)}
        told = "It is done." if done else "It is to be done again."
        return _answered(request, number, "#follow-ups", told, finish_follow_up, asked)
    form = FollowUpForm(request.POST)
    if not form.is_valid():
        said = " ".join(str(error) for errors in form.errors.values() for error in errors)
        return changed(request, f"{reverse('escalation', args=[number])}#follow-ups", said, faulty=form.errors)
    asked |= {name: form.cleaned_data[name] for name in ("text", "owner", "due_on")}
    asked["key"] = form.cleaned_data["key"] or None
    return _answered(request, number, "#follow-ups", "It is written down.", add_follow_up, asked)


def _require(request: HttpRequest, environment: str, number: int) -> None:
    """Raise what answers 403 to who may not, and 404 to a question that is not here."""
    if not visit_of(request).grants.may("respond", environment):
        raise PermissionDenied(f"Your role does not let you respond in {environment}.")
    found_by(environment, number)


def _asked(request: HttpRequest, environment: str, number: int) -> dict[str, Any]:
    return {"by": actor_of(request), "environment": environment, "reason": "", "number": number}


def _answered(
    request: HttpRequest, number: int, place: str, told: str, act: Callable[..., Any], asked: Mapping[str, Any]
) -> HttpResponse:
    back = f"{reverse('escalation', args=[number])}{place}"
    try:
        act(**asked)
    except Refused as refusal:
        if refusal.status == 404:
            raise Http404(refusal.detail) from refusal
        return changed(request, back, refusal.detail, faulty=refusal.fields)
    return changed(request, back, told)

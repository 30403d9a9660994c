"""Golden runs: marked on the page of a run, listed, looked at, let go."""

from __future__ import annotations

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.pages import render_page
from events.wording import count_text
from recovery_ops.control import actions
from recovery_ops.control.actions import Refused
from recovery_ops.control.context import actor_of, visit_of
from recovery_ops.control.desired import live_policy
from recovery_ops.control.forms import ReasonForm, new_key, problems_of
from recovery_ops.control.models import GoldenCase
from recovery_ops.control.replay.golden import first_difference, outcomes_of
from recovery_ops.control.views.acts import UNPROCESSABLE
from recovery_ops.control.views.answers import changed
from recovery_ops.control.views.run import story_of

WHY = "marked on its page"


class GoldenForm(forms.Form):
    """What a golden run is called, and what must stay true."""

    name = forms.CharField(max_length=200, error_messages={"required": "Give it a name."})
    must = forms.CharField(
        min_length=10,
        max_length=500,
        error_messages={
            "required": "Say what must stay true, in at least 10 characters.",
            "min_length": "Say a little more: at least 10 characters.",
        },
    )
    key = forms.CharField(max_length=64, required=False)


@require_http_methods(["GET", "POST"])
def mark(request: HttpRequest, *, environment: str, run: str) -> HttpResponse:
    """A form that keeps a run; sent, the page of the golden run. 404 for a run of which nothing is known."""
    if not visit_of(request).grants.may("propose_policy", environment):
        raise PermissionDenied(f"Your role does not let you mark runs in {environment}.")
    story_of(environment, run)
    if request.method == "GET":
        return _form(request, run, GoldenForm(initial={"key": new_key()}))
    form = GoldenForm(request.POST)
    if not form.is_valid():
        return _form(request, run, form, status=UNPROCESSABLE)
    cleaned = form.cleaned_data
    try:
        done = actions.mark_golden(
            by=actor_of(request),
            environment=environment,
            reason=WHY,
            key=cleaned["key"] or None,
            run=run,
            name=cleaned["name"],
            must=cleaned["must"],
            now=timezone.now(),
        )
    except Refused as refusal:
        problems_of(form, refusal.fields)
        return _form(request, run, form, status=refusal.status, problem=refusal.detail)
    notice = f"“{done.object.name}” is golden: every proposal shows what it would do to it."
    return changed(request, reverse("golden-case", args=[done.object.number]), notice)


def _form(request: HttpRequest, run: str, form: GoldenForm, *, status: int = 200, problem: str = "") -> HttpResponse:
    context = {"now": timezone.now(), "run": run, "short": run[:8], "form": form, "problem": problem}
    return render_page(request, "control/golden_mark", context, status=status)


def golden(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Every golden run, the newest first; those that were let go at the end."""
    cases = list(GoldenCase.objects.filter(environment=environment).defer("facts", "base_document", "expected"))
    kept = sorted((one for one in cases if one.retired_at is None), key=lambda one: -one.number)
    gone = sorted((one for one in cases if one.retired_at is not None), key=lambda one: -one.number)
    sentence = f"Every proposal is tried on {count_text(len(kept), 'run')}." if kept else ""
    return render_page(
        request, "control/golden", {"now": timezone.now(), "kept": kept, "gone": gone, "sentence": sentence}
    )


@require_http_methods(["GET", "POST"])
def case(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """One golden run: what must stay true, each call, and what the live policy makes of it; POST lets it go."""
    found = GoldenCase.objects.filter(environment=environment, number=number).first()
    if found is None:
        raise Http404(f"There is no golden run {number} in {environment}.")
    form = ReasonForm(request.POST if request.method == "POST" else None, initial={"key": new_key()})
    status, problem = 200, ""
    if request.method == "POST":
        if not visit_of(request).grants.may("propose_policy", environment):
            raise PermissionDenied(f"Your role does not let you let golden runs go in {environment}.")
        if form.is_valid():
            actions.retire_golden(
                by=actor_of(request),
                environment=environment,
                number=number,
                reason=form.cleaned_data["reason"],
                key=form.cleaned_data["key"] or None,
            )
            return changed(request, reverse("golden"), f"“{found.name}” is no longer golden.")
        status = UNPROCESSABLE
    live = live_policy(environment)
    context = {
        "now": timezone.now(),
        "case": found,
        "calls": found.expected,
        "live_name": live.name,
        "difference": first_difference(found.expected, outcomes_of(found, live.document)),
        "form": form,
        "problem": problem,
    }
    return render_page(request, "control/golden_case", context, status=status)

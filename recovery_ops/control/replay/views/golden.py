"""Golden runs: marked on the page of a run, listed, looked at, let go."""

from __future__ import annotations

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.pages.rendering import render_page
from events.wording import count_text
from recovery_ops.control.breakers.views.actions import UNPROCESSABLE
from recovery_ops.control.core.environment import actor_of, visit_of
from recovery_ops.control.core.forms import ReasonForm, add_errors, new_key
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.desired_state.document import live_policy
from recovery_ops.control.replay.golden import first_difference, outcomes_of
from recovery_ops.control.replay.models.golden import GoldenCase
from recovery_ops.control.replay.services import golden as golden_services
from recovery_ops.control.runs.views.run import story_of

WHY = "marked on its page"


class GoldenForm(forms.Form):
    """What a golden run is called, and what must stay true."""

    name = forms.CharField(max_length=200, error_messages={"required": "Type a name."})
    must = forms.CharField(
        min_length=10,
        max_length=500,
        error_messages={
            "required": "Describe the expected outcome in at least 10 characters.",
            "min_length": "The text is too short; use at least 10 characters.",
        },
    )
    key = forms.CharField(max_length=64, required=False)


@require_http_methods(["GET", "POST"])
def mark(request: HttpRequest, *, environment: str, run: str) -> HttpResponse:
    """A form that keeps a run; sent, the page of the golden run. 404 for a run of which nothing is known."""
    if not visit_of(request).grants.may("propose_policy", environment):
        raise PermissionDenied(f"Your role lacks the permission to mark golden runs in {environment}.")
    story_of(environment, run)
    if request.method == "GET":
        return _form(request, run, GoldenForm(initial={"key": new_key()}))
    form = GoldenForm(request.POST)
    if not form.is_valid():
        return _form(request, run, form, status=UNPROCESSABLE)
    cleaned = form.cleaned_data
    try:
        done = golden_services.mark_golden(
            by=actor_of(request),
            environment=environment,
            reason=WHY,
            key=cleaned["key"] or None,
            run=run,
            name=cleaned["name"],
            must=cleaned["must"],
            now=timezone.now(),
        )
    except CommandRejected as rejection:
        add_errors(form, rejection.fields)
        return _form(request, run, form, status=rejection.status, problem=rejection.detail)
    notice = f"Golden run “{done.object.name}” created. Every proposal shows its effect on it."
    return redirect_with_notice(request, reverse("golden-case", args=[done.object.number]), notice)


def _form(request: HttpRequest, run: str, form: GoldenForm, *, status: int = 200, problem: str = "") -> HttpResponse:
    context = {"now": timezone.now(), "run": run, "short": run[:8], "form": form, "problem": problem}
    return render_page(request, "replay/golden_mark", context, status=status)


def golden(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Every golden run, the newest first; those that were let go at the end."""
    cases = list(GoldenCase.objects.filter(environment=environment).defer("facts", "base_document", "expected"))
    kept = sorted((one for one in cases if one.retired_at is None), key=lambda one: -one.number)
    gone = sorted((one for one in cases if one.retired_at is not None), key=lambda one: -one.number)
    sentence = f"Every proposal is replayed on {count_text(len(kept), 'run')}." if kept else ""
    return render_page(
        request, "replay/golden", {"now": timezone.now(), "kept": kept, "gone": gone, "sentence": sentence}
    )


@require_http_methods(["GET", "POST"])
def case(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """One golden run: what must stay true, each call, and what the live policy makes of it; POST lets it go."""
    found = GoldenCase.objects.filter(environment=environment, number=number).first()
    if found is None:
        raise Http404(f"{environment} has no golden run {number}.")
    form = ReasonForm(request.POST if request.method == "POST" else None, initial={"key": new_key()})
    status, problem = 200, ""
    if request.method == "POST":
        if not visit_of(request).grants.may("propose_policy", environment):
            raise PermissionDenied(f"Your role lacks the permission to retire golden runs in {environment}.")
        if form.is_valid():
            golden_services.retire_golden(
                by=actor_of(request),
                environment=environment,
                number=number,
                reason=form.cleaned_data["reason"],
                key=form.cleaned_data["key"] or None,
            )
            return redirect_with_notice(request, reverse("golden"), f"Golden run “{found.name}” retired.")
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
    return render_page(request, "replay/golden_case", context, status=status)

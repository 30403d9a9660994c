"""The form by which a person asks a queue about a run."""

from __future__ import annotations

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.pages import render_page
from recovery_ops.control.actions.raising import QUEUE_CHARS, raise_about
from recovery_ops.control.context import actor_of, visit_of
from recovery_ops.control.escalations.asking import queues_of
from recovery_ops.control.forms import ReasonForm, new_key, problems_of
from recovery_ops.control.refusals import Refused
from recovery_ops.control.views.acts import UNPROCESSABLE
from recovery_ops.control.views.answers import changed
from recovery_ops.control.views.run import short, story_of


class AskForm(ReasonForm):
    """Whom to ask; the reason is the question."""

    queue = forms.CharField(max_length=QUEUE_CHARS, error_messages={"required": "Name the queue that is to be asked."})


@require_http_methods(["GET", "POST"])
def ask(request: HttpRequest, *, environment: str, run: str) -> HttpResponse:
    """The form; sent, the page of the escalation. 404 for a run of which nothing is known."""
    if not visit_of(request).grants.may("respond", environment):
        raise PermissionDenied(f"Your role does not let you ask people in {environment}.")
    story_of(environment, run)
    if request.method == "GET":
        return _form(request, environment, run, AskForm(initial={"key": new_key()}))
    form = AskForm(request.POST)
    if not form.is_valid():
        return _form(request, environment, run, form, status=UNPROCESSABLE)
    cleaned = form.cleaned_data
    try:
        done = raise_about(
            by=actor_of(request),
            environment=environment,
            reason=cleaned["reason"],
            key=cleaned["key"] or None,
            run=run,
            queue=cleaned["queue"],
            now=timezone.now(),
        )
    except Refused as refusal:
        problems_of(form, refusal.fields)
        return _form(request, environment, run, form, status=refusal.status, problem=refusal.detail)
    told = "is asked already" if done.was_already else "is asked"
    return changed(request, reverse("escalation", args=[done.object.pk]), f"{done.object.queue} {told}: {done.object}.")


def _form(
    request: HttpRequest, environment: str, run: str, form: AskForm, *, status: int = 200, problem: str = ""
) -> HttpResponse:
    context = {
        "now": timezone.now(),
        "run": run,
        "short": short(run),
        "form": form,
        "queues": queues_of(environment),
        "problem": problem,
    }
    return render_page(request, "control/run_ask", context, status=status)

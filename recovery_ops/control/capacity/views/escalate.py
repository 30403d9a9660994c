"""The form by which a person asks a queue about a capacity event."""

from __future__ import annotations

from collections.abc import Mapping

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.capacity.asking import wholes_by_number
from events.capacity.rows import CapacityEventRow
from events.pages.rendering import render_page
from recovery_ops.control.breakers.views.actions import UNPROCESSABLE
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.environment import actor_of, visit_of
from recovery_ops.control.core.forms import add_errors, new_key
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.selectors.queue import offered
from recovery_ops.control.escalations.services.raising import open_about_event, raise_about_event
from recovery_ops.control.escalations.terms import terms_now
from recovery_ops.control.issues.views.escalate import AskForm
from recovery_ops.rules.policy.escalation_rules import QUESTION
from recovery_ops.rules.policy.escalation_terms import SEVERITIES


@require_http_methods(["GET", "POST"])
def ask(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """The form; sent, the page of the escalation. 404 for an event that there is not."""
    now = timezone.now()
    row = wholes_by_number(environment, [number], now=now).get(number)
    if row is None:
        raise Http404(f"There is no capacity event CE-{number} in {environment}.")
    if not visit_of(request).grants.may("respond", environment):
        raise PermissionDenied(f"Your role does not let you ask people in {environment}.")
    if request.method == "GET":
        terms = terms_now(environment)[QUESTION]
        initial = {"key": new_key(), "queue": terms.queue, "severity": terms.severity}
        return _form(request, environment, row, AskForm(initial=initial))
    form = AskForm(request.POST)
    if not form.is_valid():
        return _form(request, environment, row, form, status=UNPROCESSABLE)
    try:
        done = _raised(request, environment, row, form.cleaned_data)
    except CommandRejected as rejection:
        add_errors(form, rejection.fields)
        return _form(request, environment, row, form, status=rejection.status, problem=rejection.detail)
    words = "asks about it already" if done.was_already else f"asks {done.object.queue} about it"
    return redirect_with_notice(request, reverse("escalation", args=[done.object.pk]), f"{done.object} {words}.")


def _raised(
    request: HttpRequest, environment: str, row: CapacityEventRow, cleaned: Mapping[str, str]
) -> CommandResult[Escalation]:
    return raise_about_event(
        by=actor_of(request),
        environment=environment,
        reason=cleaned["reason"],
        key=cleaned["key"] or None,
        number=row.id,
        queue=cleaned["queue"],
        question=cleaned["question"],
        severity=cleaned["severity"],
        now=timezone.now(),
    )


def _form(
    request: HttpRequest,
    environment: str,
    row: CapacityEventRow,
    form: AskForm,
    *,
    status: int = 200,
    problem: str = "",
) -> HttpResponse:
    context = {
        "now": timezone.now(),
        "about": f"{row.number}, {row.name}",
        "lead": "The question waits in the queue with a link to this event.",
        "kind": "an event",
        "held": open_about_event(environment, row),
        "back": reverse("capacity-event", args=[row.id]),
        "form": form,
        "severities": SEVERITIES,
        "queues": offered(environment).queues,
        "problem": problem,
    }
    return render_page(request, "core/ask", context, status=status)

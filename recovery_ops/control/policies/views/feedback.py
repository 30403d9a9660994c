"""Feedback: said of a failure or a run, listed, turned into a proposal with one click, or laid aside."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.pages.rendering import render_page
from events.wording import count_text
from recovery_ops.control.breakers.views.actions import UNPROCESSABLE
from recovery_ops.control.core import checks
from recovery_ops.control.core.environment import actor_of, visit_of
from recovery_ops.control.core.forms import ReasonForm, add_errors, new_key
from recovery_ops.control.core.numbers import parse_number
from recovery_ops.control.core.pagination import newest_of
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.policies.models.feedback import Feedback
from recovery_ops.control.policies.services import feedback as feedback_services
from recovery_ops.rules.policy.feedback import WORDS

MOST = 100
_ABOUT = ("operation", "service", "run", "fingerprint")


class FeedbackForm(ReasonForm):
    """What was handled badly, and what should have happened."""

    operation = forms.CharField(max_length=200, error_messages={"required": "Type the operation."})
    want = forms.ChoiceField(
        choices=[(want.value, word) for want, word in WORDS.items()],
        error_messages={
            "required": "Choose the expected reaction.",
            "invalid_choice": "Choose a reaction in the list.",
        },
    )
    service = forms.CharField(max_length=200, required=False)
    run = forms.CharField(max_length=200, required=False)
    fingerprint = forms.CharField(max_length=200, required=False)


@require_http_methods(["GET", "POST"])
def say(request: HttpRequest, *, environment: str) -> HttpResponse:
    """A form (`operation`, `service`, `run`, `fingerprint` and `want` fill it in); sent, the list with the entry."""
    if not visit_of(request).grants.may("propose_policy", environment):
        raise PermissionDenied(f"Your role lacks the permission for feedback in {environment}.")
    if request.method == "GET":
        about = {name: request.GET.get(name, "")[:200] for name in (*_ABOUT, "want")}
        return _form(request, FeedbackForm(initial=about | {"key": new_key()}, is_reason_needed=True))
    form = FeedbackForm(request.POST, is_reason_needed=True)
    if not form.is_valid():
        return _form(request, form, status=UNPROCESSABLE)
    cleaned = form.cleaned_data
    try:
        done = feedback_services.say(
            by=actor_of(request),
            environment=environment,
            reason=cleaned["reason"],
            key=cleaned["key"] or None,
            want=cleaned["want"],
            now=timezone.now(),
            **{name: cleaned[name] for name in _ABOUT},
        )
    except CommandRejected as rejection:
        add_errors(form, rejection.fields)
        return _form(request, form, status=rejection.status, problem=rejection.detail)
    return redirect_with_notice(request, reverse("feedback"), f"Feedback {done.object.number} sent.")


def _form(request: HttpRequest, form: FeedbackForm, *, status: int = 200, problem: str = "") -> HttpResponse:
    context = {
        "now": timezone.now(),
        "form": form,
        "problem": problem,
        "wants": [(want.value, word) for want, word in WORDS.items()],
    }
    return render_page(request, "policies/feedback_say", context, status=status)


@require_http_methods(["GET", "POST"])
def feedback(request: HttpRequest, *, environment: str) -> HttpResponse:
    """What waits for an answer and what was answered; POST `act` proposes a change for entry `number`, or closes it."""
    if request.method == "POST":
        return _answered(request, environment)
    page = newest_of(request, Feedback.objects.filter(environment=environment).select_related("proposal"), MOST)
    rows = page.rows
    waiting = [one for one in rows if one.state == Feedback.OPEN]
    context = {
        "now": timezone.now(),
        "page": page,
        "waiting": [(one, _word(one)) for one in waiting],
        "answered": [(one, _word(one)) for one in rows if one.state != Feedback.OPEN],
        "sentence": f"{count_text(len(waiting), 'entry', 'entries')} open." if waiting else "",
        "key": new_key(),
    }
    return render_page(request, "policies/feedback", context)


def _word(one: Feedback) -> str:
    return next((word for want, word in WORDS.items() if want == one.want), one.want)


def _answered(request: HttpRequest, environment: str) -> HttpResponse:
    act, number = request.POST.get("act", ""), parse_number(request.POST.get("number", ""))
    if act not in ("propose", "close") or number is None:
        raise Http404("The action is unknown; use propose or close.")
    if not visit_of(request).grants.may("propose_policy", environment):
        raise PermissionDenied(f"Your role lacks the permission to propose policies in {environment}.")
    asked: dict[str, Any] = {
        "by": actor_of(request),
        "environment": environment,
        "number": number,
        "key": checks.derive_part_key(request.POST.get("key") or None, act, str(number)),
        "now": timezone.now(),
    }
    try:
        if act == "close":
            feedback_services.lay_aside(**asked, reason="dismissed on the page of feedback")
            return redirect_with_notice(request, reverse("feedback"), f"Feedback {number} dismissed.")
        done = feedback_services.propose_from(**asked, reason="proposed on the page of feedback")
    except CommandRejected as rejection:
        return redirect_with_notice(request, reverse("feedback"), rejection.detail)
    notice = f"Proposal {done.object.number} drafted. Check it, then submit it for review."
    return redirect_with_notice(request, reverse("proposal", args=[done.object.number]), notice)

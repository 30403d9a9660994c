"""The form by which a person asks a queue about a cause of failures, or about several at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.pages.rendering import render_page
from recovery_ops.control.breakers.views.actions import UNPROCESSABLE
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.environment import actor_of, visit_of
from recovery_ops.control.core.forms import ReasonForm, add_errors, new_key
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.selectors.queue import offered
from recovery_ops.control.escalations.services.raising import QUESTION_CHARS, QUEUE_CHARS, open_about, raise_about_cause
from recovery_ops.control.escalations.terms import terms_now
from recovery_ops.control.issues.selectors import grouping_of
from recovery_ops.control.issues.views.issues import matching_names
from recovery_ops.rules.policy.escalation_rules import QUESTION
from recovery_ops.rules.policy.escalation_terms import SEVERITIES

ASKED_ABOVE = 50
"""More than a page of rows: then their number is typed before anybody is asked."""
_MOST = 50


class AskForm(ReasonForm):
    """Whom to ask, what, how urgent it is, and why."""

    queue = forms.CharField(max_length=QUEUE_CHARS, error_messages={"required": "The queue is empty; enter a queue."})
    question = forms.CharField(
        max_length=QUESTION_CHARS, error_messages={"required": "The question is too short; use at least 10 characters."}
    )
    severity = forms.ChoiceField(
        choices=[(word, word) for word in SEVERITIES],
        required=False,
        error_messages={"invalid_choice": "No severity is selected; select one."},
    )
    confirm = forms.CharField(max_length=8, required=False)


@require_http_methods(["GET", "POST"])
def ask(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The form about the causes that are named (`fingerprint`, once or more; `matching` is the query of a list).

    Sent, the page of the escalation; of several, the queue. What is asked already is not asked twice.
    """
    if not visit_of(request).grants.may("respond", environment):
        raise PermissionDenied(f"Your role lacks the permission to escalate in {environment}.")
    given = request.POST if request.method == "POST" else request.GET
    every, listed = given.get("matching"), given.getlist("fingerprint")
    if every is not None and request.method == "GET":
        listed = matching_names(request, environment, every, timezone.now())
    named = [one for one in listed if one]
    if not named:
        return redirect_with_notice(request, _back(given), "No issue is selected; select at least one.")
    grouping = grouping_of(environment)
    return _Asking(request, environment, list(dict.fromkeys(map(grouping.head, named)))[:_MOST]).answer()


class _Asking:
    """One request to ask a queue about some causes."""

    def __init__(self, request: HttpRequest, environment: str, causes: Sequence[str]) -> None:
        self.request, self.environment, self.causes = request, environment, causes

    @property
    def is_confirmed(self) -> bool:
        """Whether so many are meant that somebody has to type how many."""
        return len(self.causes) > ASKED_ABOVE

    def answer(self) -> HttpResponse:
        """The form, or what came of it."""
        if self.request.method == "GET":
            terms = terms_now(self.environment)[QUESTION]
            initial = {"key": new_key(), "queue": terms.queue, "severity": terms.severity}
            return self._form(AskForm(initial=initial))
        form = AskForm(self.request.POST)
        if not form.is_valid():
            return self._form(form, status=UNPROCESSABLE)
        if self.is_confirmed and form.cleaned_data["confirm"].strip() != str(len(self.causes)):
            form.add_error("confirm", f"The number does not match; type {len(self.causes)}.")
            return self._form(form, status=UNPROCESSABLE, problem="Not confirmed.")
        # Each by itself: one that is refused keeps none of the others from being asked, and none is asked twice.
        done: list[CommandResult[Escalation]] = []
        refused: list[CommandRejected] = []
        for one in self.causes:
            try:
                done.append(self._raised(one, form.cleaned_data))
            except CommandRejected as rejection:
                refused.append(rejection)
        if not done:
            why = refused[0]
            add_errors(form, why.fields)
            return self._form(form, status=why.status, problem=why.detail)
        first = done[0].object
        if len(self.causes) > 1:
            already = sum(one.was_already for one in done)
            told = f"{len(done) - already} escalated, {already} already open." if already else "All escalated."
            if refused:
                asked = f"{len(done) - already} escalated, {already} already open"
                told = f"{asked}, {len(refused)} rejected: {refused[0].detail}"
            return redirect_with_notice(
                self.request, f"{reverse('escalations')}?{urlencode({'queue': first.queue})}", told
            )
        words = "is already open" if done[0].was_already else f"opened in {first.queue}"
        return redirect_with_notice(self.request, reverse("escalation", args=[first.pk]), f"{first} {words}.")

    def _raised(self, cause: str, cleaned: Mapping[str, str]) -> CommandResult[Escalation]:
        return raise_about_cause(
            by=actor_of(self.request),
            environment=self.environment,
            reason=cleaned["reason"],
            # One key stands for one change; while its question is open there is no second one about a cause.
            key=cleaned["key"] or None if len(self.causes) == 1 else None,
            fingerprint=cause,
            queue=cleaned["queue"],
            question=cleaned["question"],
            severity=cleaned["severity"],
            now=timezone.now(),
        )

    def _form(self, form: AskForm, *, status: int = 200, problem: str = "") -> HttpResponse:
        is_alone = len(self.causes) == 1
        given = self.request.POST if self.request.method == "POST" else self.request.GET
        context = {
            "now": timezone.now(),
            "causes": self.causes,
            "about": self.causes[0] if is_alone else f"{len(self.causes)} issues",
            "lead": "Creates an escalation linked to these failures."
            if is_alone
            else "Creates an escalation for each issue.",
            "kind": "an issue",
            "held": open_about(self.environment, self.causes[0]) if is_alone else None,
            "back": _back(given),
            "form": form,
            "severities": SEVERITIES,
            "is_confirmed": self.is_confirmed,
            "most": _MOST,
            "queues": offered(self.environment).queues,
            "problem": problem,
        }
        return render_page(self.request, "core/ask", context, status=status)


def _back(given: Mapping[str, str]) -> str:
    """Where the asker came from: a page of failures, named by the form itself."""
    home, back = reverse("failures"), given.get("back", "")
    return back if back == home or back.startswith((f"{home}/", f"{home}?")) else home

"""The form by which a person asks a queue about a run, or about several at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.pages import render_page
from recovery_ops.control.actions import Done
from recovery_ops.control.actions.raising import QUEUE_CHARS, raise_about
from recovery_ops.control.context import actor_of, visit_of
from recovery_ops.control.escalations.asking import offered
from recovery_ops.control.forms import ReasonForm, new_key, problems_of
from recovery_ops.control.models import Escalation
from recovery_ops.control.refusals import Refused
from recovery_ops.control.views.acts import UNPROCESSABLE
from recovery_ops.control.views.answers import changed
from recovery_ops.control.views.run import short, story_of
from recovery_ops.control.views.run_flows import MATCHING_MOST, matching_runs

ASKED_ABOVE = 50
"""More than a page of them: then their number is typed before anybody is asked."""


class AskForm(ReasonForm):
    """Whom to ask; the reason is the question."""

    queue = forms.CharField(max_length=QUEUE_CHARS, error_messages={"required": "Name the queue that is to be asked."})
    confirm = forms.CharField(max_length=8, required=False)


@require_http_methods(["GET", "POST"])
def ask(request: HttpRequest, *, environment: str, run: str) -> HttpResponse:
    """The form; sent, the page of the escalation. 404 for a run of which nothing is known."""
    return _Asking(request, environment, [run]).answer()


@require_http_methods(["GET", "POST"])
def ask_many(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The same about several runs at once, each named by `run`: a question about each. Without one, the list.

    `matching` is the query of a list, and means all of its runs; the form then names each of them.
    """
    given = request.POST if request.method == "POST" else request.GET
    every = given.get("matching")
    listed = given.getlist("run")
    if every is not None and request.method == "GET":
        listed = matching_runs(request, environment, every, timezone.now())
    runs = list(dict.fromkeys(one for one in listed if one))[:MATCHING_MOST]
    if not runs:
        return changed(request, reverse("runs"), "Choose at least one run first.")
    return _Asking(request, environment, runs).answer()


class _Asking:
    """One request to ask a queue about some runs."""

    def __init__(self, request: HttpRequest, environment: str, runs: Sequence[str]) -> None:
        if not visit_of(request).grants.may("respond", environment):
            raise PermissionDenied(f"Your role does not let you ask people in {environment}.")
        for run in runs:
            story_of(environment, run)
        self.request, self.environment, self.runs = request, environment, runs

    @property
    def is_confirmed(self) -> bool:
        """Whether so many are meant that somebody has to type how many."""
        return len(self.runs) > ASKED_ABOVE

    def answer(self) -> HttpResponse:
        """The form, or what came of it."""
        if self.request.method == "GET":
            return self._form(AskForm(initial={"key": new_key()}))
        form = AskForm(self.request.POST)
        if not form.is_valid():
            return self._form(form, status=UNPROCESSABLE)
        if self.is_confirmed and form.cleaned_data["confirm"].strip() != str(len(self.runs)):
            form.add_error("confirm", f"Type {len(self.runs)}: so many are meant.")
            return self._form(form, status=UNPROCESSABLE, problem="Nobody was asked.")
        try:
            # Each by itself: what was asked before one is refused stays asked, and is not asked twice.
            done = [self._raised(run, form.cleaned_data) for run in self.runs]
        except Refused as refusal:
            problems_of(form, refusal.fields)
            return self._form(form, status=refusal.status, problem=refusal.detail)
        first = done[0]
        if len(done) > 1:
            told = f"{first.object.queue} is asked about {len(done)} runs."
            return changed(self.request, f"{reverse('escalations')}?{urlencode({'queue': first.object.queue})}", told)
        words = "is asked already" if first.was_already else "is asked"
        address = reverse("escalation", args=[first.object.pk])
        return changed(self.request, address, f"{first.object.queue} {words}: {first.object}.")

    def _raised(self, run: str, cleaned: Mapping[str, str]) -> Done[Escalation]:
        return raise_about(
            by=actor_of(self.request),
            environment=self.environment,
            reason=cleaned["reason"],
            # One key stands for one change; while its question is open a run asks that queue no second one.
            key=cleaned["key"] or None if len(self.runs) == 1 else None,
            run=run,
            queue=cleaned["queue"],
            now=timezone.now(),
        )

    def _form(self, form: AskForm, *, status: int = 200, problem: str = "") -> HttpResponse:
        about = short(self.runs[0]) if len(self.runs) == 1 else f"{len(self.runs)} runs"
        context = {
            "now": timezone.now(),
            "runs": self.runs,
            "about": about,
            "back": reverse("run", args=[self.runs[0]]) if len(self.runs) == 1 else reverse("runs"),
            "form": form,
            "is_confirmed": self.is_confirmed,
            "most": MATCHING_MOST,
            "queues": offered(self.environment).queues,
            "problem": problem,
        }
        return render_page(self.request, "control/run_ask", context, status=status)

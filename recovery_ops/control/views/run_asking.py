"""The form by which a person asks a queue about a run, or about several at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from recovery_ops.control.actions import Done
from recovery_ops.control.actions.raising import QUEUE_CHARS, raise_about
from recovery_ops.control.context import actor_of
from recovery_ops.control.escalations.asking import offered
from recovery_ops.control.models import Escalation
from recovery_ops.control.views.answers import changed
from recovery_ops.control.views.runs_chosen import ChosenRuns, RunsForm


class AskForm(RunsForm):
    """Whom to ask; the reason is the question."""

    queue = forms.CharField(max_length=QUEUE_CHARS, error_messages={"required": "Name the queue that is to be asked."})


@require_http_methods(["GET", "POST"])
def ask(request: HttpRequest, *, environment: str, run: str) -> HttpResponse:
    """The form; sent, the page of the escalation. 404 for a run of which nothing is known."""
    return _Asking(request, environment, [run]).answer()


@require_http_methods(["GET", "POST"])
def ask_many(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The same about several runs at once: a question about each."""
    return _Asking.of_list(request, environment)


class _Asking(ChosenRuns[AskForm]):
    """One request to ask a queue about some runs."""

    permission, verb, nothing_done = "respond", "ask people", "Nobody was asked."
    page, form = "control/run_ask", AskForm

    def done(self, cleaned: Mapping[str, str]) -> HttpResponse:
        # Each by itself: what was asked before one is refused stays asked, and is not asked twice.
        done = [self._raised(run, cleaned) for run in self.runs]
        first = done[0]
        if len(done) > 1:
            told = f"{first.object.queue} is asked about {len(done)} runs."
            return changed(self.request, f"{reverse('escalations')}?{urlencode({'queue': first.object.queue})}", told)
        words = "is asked already" if first.was_already else "is asked"
        address = reverse("escalation", args=[first.object.pk])
        return changed(self.request, address, f"{first.object.queue} {words}: {first.object}.")

    def more(self) -> Mapping[str, Any]:
        return {"queues": offered(self.environment).queues}

    def _raised(self, run: str, cleaned: Mapping[str, str]) -> Done[Escalation]:
        return raise_about(
            by=actor_of(self.request),
            environment=self.environment,
            reason=cleaned["reason"],
            # While its question is open a run asks that queue no second one.
            key=self.key_of(cleaned),
            run=run,
            queue=cleaned["queue"],
            now=self.now,
        )

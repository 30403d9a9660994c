"""The form by which a person asks a queue about a run, or about several at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.environment import actor_of
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.selectors.queue import offered
from recovery_ops.control.escalations.services.raising import QUEUE_CHARS, raise_about
from recovery_ops.control.runs.views.selected import ChosenRuns, RunsForm


class AskForm(RunsForm):
    """Whom to ask; the reason is the question."""

    queue = forms.CharField(max_length=QUEUE_CHARS, error_messages={"required": "The queue is empty; enter a queue."})


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

    permission, verb, nothing_done = "respond", "escalate", "Not confirmed."
    action = "escalation.raise"
    page, form = "runs/run_ask", AskForm

    def done(self, cleaned: Mapping[str, str]) -> HttpResponse:
        # Each by itself: what was asked before one is refused stays asked, and is not asked twice.
        done = [self._raised(run, cleaned) for run in self.runs]
        first = done[0]
        if len(done) > 1:
            told = f"{len(done)} runs escalated to {first.object.queue}."
            return redirect_with_notice(
                self.request, f"{reverse('escalations')}?{urlencode({'queue': first.object.queue})}", told
            )
        words = "already open" if first.was_already else "opened"
        address = reverse("escalation", args=[first.object.pk])
        return redirect_with_notice(self.request, address, f"{first.object.queue} {words}: {first.object}.")

    def more(self) -> Mapping[str, Any]:
        return {"queues": offered(self.environment).queues}

    def _raised(self, run: str, cleaned: Mapping[str, str]) -> CommandResult[Escalation]:
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

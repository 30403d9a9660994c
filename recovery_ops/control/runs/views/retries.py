"""The forms by which a person has runs begun again from their checkpoints, and takes that back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from events.runs.rows import RunStory
from events.runs.selectors import reporting_of
from events.wording import count_text
from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.runs.retry_status import Chance, chance_of, fleet_for, retries_asked
from recovery_ops.control.runs.services.retries import (
    INPUT_BYTES_MOST,
    held_retry,
    retry_run,
    retry_runs,
    withdraw_retry,
)
from recovery_ops.control.runs.status import standing_of
from recovery_ops.control.runs.views.run import short
from recovery_ops.control.runs.views.selected import ChosenRuns, RunsForm

_NAMED = 10
"""Runs that the form tells one by one."""


class RetryForm(RunsForm):
    """Why, by whom, and what the run is given in place of what it had."""

    instance = forms.CharField(max_length=NAME_CHARS, required=False)
    input = forms.CharField(required=False, strip=False)

    def clean_input(self) -> str:
        """As it was typed: a browser sends each end of a line as two characters. Blanks alone are nothing."""
        typed = str(self.cleaned_data["input"]).replace("\r\n", "\n")
        return typed if typed.strip() else ""


@require_http_methods(["GET", "POST"])
def retry(request: HttpRequest, *, environment: str, run: str) -> HttpResponse:
    """The form; sent, the page of the run. 404 for a run of which nothing is known."""
    return _Retrying(request, environment, [run]).answer()


@require_http_methods(["GET", "POST"])
def retry_many(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The same for several runs at once, each with what it had."""
    return _Retrying.of_list(request, environment)


@require_http_methods(["GET", "POST"])
def withdraw(request: HttpRequest, *, environment: str, run: str) -> HttpResponse:
    """The form that takes it back."""
    return _Withdrawing(request, environment, [run]).answer()


class _Retrying(ChosenRuns[RetryForm]):
    """One request to have some runs begun again."""

    permission, verb, nothing_done = "retry", "retry runs", "Not confirmed."
    action = "run.retry"
    page, form = "runs/run_retry", RetryForm

    def done(self, cleaned: Mapping[str, str]) -> HttpResponse:
        if len(self.runs) == 1:
            one = retry_run(
                **self.asked(cleaned), run=self.runs[0], input=cleaned["input"], instance=cleaned["instance"]
            )
            told = f"Retry of {short(self.runs[0])} on {one.object.instance} requested."
            return redirect_with_notice(self.request, self.back, told)
        done = retry_runs(**self.asked(cleaned), runs=self.runs)
        rest = len(self.runs) - len(done.object)
        others = f"; {count_text(rest, 'other')} unchanged" if rest else ""
        return redirect_with_notice(
            self.request, self.back, f"Retry of {count_text(len(done.object), 'run')} requested{others}."
        )

    @property
    def hint(self) -> str:
        if self._able:
            return ""
        if len(self.stories) == 1:
            [(_, chance)] = self._chances
            return chance.why_not or "A retry is already requested."
        return "None of the runs can be retried; open a run for the reason."

    @property
    def _no_retry(self) -> str:
        """The same as a code."""
        if self._able:
            return ""
        [(_, chance), *others] = self._chances
        return "none" if others else str(chance.fault or "asked_already")

    def more(self) -> Mapping[str, Any]:
        able, is_one = self._able, len(self.stories) == 1
        lines = [(short(one.run), f"on {chance.instances[0].instance}") for one, chance in able]
        instances = {chance.instances[0].instance for _, chance in able}
        return {
            "is_one": is_one,
            "is_over": not able,
            "no_retry": self._no_retry,
            "instances": able[0][1].instances if is_one and able else (),
            "is_own": all(chance.is_own for _, chance in able),
            "own": self.stories[0].holder if is_one else "",
            "kilobytes": INPUT_BYTES_MOST // 1024,
            "lines": () if is_one else lines[:_NAMED],
            "others": len(lines) - _NAMED,
            "impact": ()
            if is_one
            else [
                (f"{count_text(len(able), 'run').split()[-1]} to retry", len(able)),
                (count_text(len(instances), "instance").split()[-1], len(instances)),
                ("unchanged", len(self.stories) - len(able)),
            ],
        }

    @cached_property
    def _chances(self) -> list[tuple[RunStory, Chance]]:
        stories = self.stories
        agents = fleet_for(self.environment, stories, self.now)
        reporting = reporting_of(agents)
        return [(one, chance_of(one, standing_of(one, self.now, reporting), agents, self.now)) for one in stories]

    @cached_property
    def _able(self) -> list[tuple[RunStory, Chance]]:
        """Those that can be begun again and that nobody has asked for yet."""
        asked = retries_asked(self.environment, self.stories, self.now)
        return [(one, chance) for one, chance in self._chances if chance.instances and one.run not in asked]


class _Withdrawing(ChosenRuns[RunsForm]):
    """One request to take back that a run is to begin again."""

    permission, verb, nothing_done = "retry", "retry runs", "Not confirmed."
    action = "run.withdraw_retry"
    page, form = "runs/run_withdraw_retry", RunsForm

    def done(self, cleaned: Mapping[str, str]) -> HttpResponse:
        done = withdraw_retry(**self.asked(cleaned), run=self.runs[0])
        has_begun = done.object.begun_at is not None
        told = "has already restarted; use “Abort” to end it." if has_begun else "will not be retried."
        return redirect_with_notice(self.request, self.back, f"{short(self.runs[0])} {told}")

    def more(self) -> Mapping[str, Any]:
        return {"held": held_retry(self.environment, self.runs[0], self.now)}

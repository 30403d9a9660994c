"""The forms by which a person has runs end, and takes that back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from events.runs.rows import RunStory
from events.wording import count_text, lasted_text
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.runs.services.aborts import abort_run, abort_runs, held_abort, withdraw_abort
from recovery_ops.control.runs.status import Standing, reporting_in, standing_of
from recovery_ops.control.runs.views.run import short
from recovery_ops.control.runs.views.selected import ChosenRuns, RunsForm

_NAMED = 10
"""Runs that the form tells one by one."""


@require_http_methods(["GET", "POST"])
def abort(request: HttpRequest, *, environment: str, run: str) -> HttpResponse:
    """The form; sent, the page of the run. 404 for a run of which nothing is known."""
    return _Aborting(request, environment, [run]).answer()


@require_http_methods(["GET", "POST"])
def abort_many(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The same for several runs at once, each by itself."""
    return _Aborting.of_list(request, environment)


@require_http_methods(["GET", "POST"])
def withdraw(request: HttpRequest, *, environment: str, run: str) -> HttpResponse:
    """The form that takes it back."""
    return _Withdrawing(request, environment, [run]).answer()


class _Aborting(ChosenRuns[RunsForm]):
    """One request to have some runs end."""

    permission, verb, nothing_done = "abort", "abort runs", "Not confirmed."
    action = "run.abort"
    page, form = "runs/run_abort", RunsForm

    def done(self, cleaned: Mapping[str, str]) -> HttpResponse:
        if len(self.runs) == 1:
            abort_run(**self.asked(cleaned), run=self.runs[0])
            return redirect_with_notice(self.request, self.back, f"Abort of {short(self.runs[0])} requested.")
        done = abort_runs(**self.asked(cleaned), runs=self.runs)
        rest = len(self.runs) - len(done.object)
        others = f"; {count_text(rest, 'other')} unchanged" if rest else ""
        return redirect_with_notice(
            self.request, self.back, f"Abort of {count_text(len(done.object), 'run')} requested{others}."
        )

    @property
    def hint(self) -> str:
        if any(one.ended is None for one in self.stories):
            return ""
        have = "The run has" if len(self.stories) == 1 else "All runs have"
        return f"{have} ended."

    def more(self) -> Mapping[str, Any]:
        reporting = reporting_in(self.environment, self.stories, self.now)
        going = [one for one in self.stories if one.ended is None]
        instances = {one.holder for one in going}
        lines = [(short(one.run), _line(one, standing_of(one, self.now, reporting), self.now)) for one in going]
        return {
            "lines": lines[:_NAMED],
            "others": len(lines) - _NAMED,
            "is_over": not going,
            "impact": [
                (f"{count_text(len(going), 'run').split()[-1]} under way", len(going)),
                (count_text(len(instances), "instance").split()[-1], len(instances)),
                ("ended already", len(self.stories) - len(going)),
            ],
        }


class _Withdrawing(ChosenRuns[RunsForm]):
    """One request to let a run go on that was to end."""

    permission, verb, nothing_done = "abort", "cancel aborts", "Not confirmed."
    action = "run.withdraw"
    page, form = "runs/run_withdraw", RunsForm

    def done(self, cleaned: Mapping[str, str]) -> HttpResponse:
        withdraw_abort(**self.asked(cleaned), run=self.runs[0])
        return redirect_with_notice(self.request, self.back, f"Abort of {short(self.runs[0])} cancelled.")

    def more(self) -> Mapping[str, Any]:
        return {"held": held_abort(self.environment, self.runs[0], self.now)}


def _line(story: RunStory, standing: Standing, now: datetime) -> str:
    name = f"{story.name}, " if story.name else ""
    return f"{name}{standing.word} on {story.holder} for {lasted_text(story.length(now).total_seconds())}"

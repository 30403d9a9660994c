"""A form about one run, or about several chosen in a list: who may, which they are, and what is typed for many."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from events.pages.rendering import render_page
from events.runs.rows import RunStory
from events.runs.selectors import get_runs
from recovery_ops.control.breakers.views.actions import UNPROCESSABLE
from recovery_ops.control.core.environment import form_command_context, visit_of
from recovery_ops.control.core.forms import ReasonForm, add_errors, new_key
from recovery_ops.control.core.reasons import needs_reason
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.runs.views.flows import MATCHING_MOST, matching_runs
from recovery_ops.control.runs.views.run import short

CONFIRMED_ABOVE = 50
"""More than a page of them: then their number is typed first."""


class RunsForm(ReasonForm):
    """Why, and how many are meant where they are many."""

    confirm = forms.CharField(max_length=8, required=False)


F = TypeVar("F", bound=RunsForm)


class ChosenRuns(ABC, Generic[F]):
    """One request about some runs; `answer` is the form, or what came of it."""

    permission: ClassVar[str]
    verb: ClassVar[str]
    """What a role may not do, in words: `ask people`."""
    nothing_done: ClassVar[str]
    page: ClassVar[str]
    action: ClassVar[str]
    form: type[F]

    def __init__(self, request: HttpRequest, environment: str, runs: Sequence[str]) -> None:
        if not visit_of(request).grants.may(self.permission, environment):
            raise PermissionDenied(f"Your role lacks the permission to {self.verb} in {environment}.")
        self.request, self.environment, self.runs = request, environment, runs
        self.now = timezone.now()
        self.stories: Sequence[RunStory] = get_runs(environment, [one for one in runs if one.isprintable()])
        known = {one.run for one in self.stories}
        if unknown := [one for one in runs if one not in known]:
            raise Http404(f"Run {unknown[0]} does not exist in {environment}.")

    @classmethod
    def of_list(cls, request: HttpRequest, environment: str) -> HttpResponse:
        """The same about runs that were chosen, each named by `run`; without one, the list.

        `matching` is the query of a list, and means all of its runs; the form then names each of them.
        """
        given = request.POST if request.method == "POST" else request.GET
        every = given.get("matching")
        listed = given.getlist("run")
        if every is not None and request.method == "GET":
            listed = matching_runs(request, environment, every, timezone.now())
        runs = list(dict.fromkeys(one for one in listed if one))[:MATCHING_MOST]
        if not runs:
            return redirect_with_notice(request, reverse("runs"), "No run is selected; select at least one.")
        return cls(request, environment, runs).answer()

    @property
    def is_confirmed(self) -> bool:
        """Whether so many are meant that somebody has to type how many."""
        return len(self.runs) > CONFIRMED_ABOVE

    @property
    def back(self) -> str:
        """Where the form was opened."""
        return reverse("run", args=[self.runs[0]]) if len(self.runs) == 1 else reverse("runs")

    def answer(self) -> HttpResponse:
        """The form, or what came of it."""
        if self.request.method == "GET":
            return self._form(self._asked_form(initial={"key": new_key()}), problem=self.hint)
        form = self._asked_form(self.request.POST)
        if not form.is_valid():
            return self._form(form, status=UNPROCESSABLE)
        if self.is_confirmed and form.cleaned_data["confirm"].strip() != str(len(self.runs)):
            form.add_error("confirm", f"The number does not match; type {len(self.runs)}.")
            return self._form(form, status=UNPROCESSABLE, problem=self.nothing_done)
        try:
            return self.done(form.cleaned_data)
        except CommandRejected as rejection:
            add_errors(form, rejection.fields)
            return self._form(form, status=rejection.status, problem=rejection.detail)

    def _asked_form(self, *args: Any, **kwargs: Any) -> F:
        needed = needs_reason(self.action, self.environment, objects=len(self.runs))
        return self.form(*args, is_reason_needed=needed, **kwargs)

    @property
    def hint(self) -> str:
        """Why sending the form would come to nothing; empty where it would not."""
        return ""

    @abstractmethod
    def done(self, cleaned: Mapping[str, str]) -> HttpResponse:
        """Do it, and say what came of it. Raises CommandRejected."""

    def more(self) -> Mapping[str, Any]:
        """What else the form shows."""
        return {}

    def asked(self, cleaned: Mapping[str, str]) -> Any:
        """What an act in one revision is given, but for the runs."""
        return form_command_context(self.request, self.environment, cleaned, self.now)

    def key_of(self, cleaned: Mapping[str, str]) -> str | None:
        """One key stands for one change, so of several none has it: each is found again by what it is about."""
        return cleaned["key"] or None if len(self.runs) == 1 else None

    def _form(self, form: RunsForm, *, status: int = 200, problem: str = "") -> HttpResponse:
        context = {
            "now": self.now,
            "runs": self.runs,
            "about": short(self.runs[0]) if len(self.runs) == 1 else f"{len(self.runs)} runs",
            "back": self.back,
            "form": form,
            "is_confirmed": self.is_confirmed,
            "most": MATCHING_MOST,
            "problem": problem,
            **self.more(),
        }
        return render_page(self.request, self.page, context, status=status)

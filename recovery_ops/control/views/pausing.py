"""The forms by which people pause new work of instances or services, and resume it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.models import Agent
from events.pages import render_page
from events.queries import fleet
from events.queries.fleet import agent_row
from events.rows import AgentRow
from events.wording import clock_text, count_text, zone_word
from recovery_ops.control.actions import Done
from recovery_ops.control.actions.pausing import PERMISSION, TARGETS_MOST, Target, pause_work, resume_work
from recovery_ops.control.context import asked_by, visit_of
from recovery_ops.control.forms import DEFAULT_EXPIRY_S, EXPIRIES, ReasonForm, new_key, problems_of
from recovery_ops.control.models import WorkPause
from recovery_ops.control.numbers import number_in, numbers_in
from recovery_ops.control.paused import Pauses
from recovery_ops.control.refusals import Refused
from recovery_ops.control.views.answers import changed

UNPROCESSABLE = 422
ASKED_ABOVE = 50
"""So many are paused without their number being typed."""
UNTIL_RESUMED = "resumed"
_NAMED = 10
"""Instances that the form tells one by one."""


class PauseForm(ReasonForm):
    """Why, and until when. `is_whole`: all of the services of those that were chosen, also what begins later."""

    lasts = forms.ChoiceField(
        choices=[*((str(seconds), word) for seconds, word in EXPIRIES), (UNTIL_RESUMED, "Until resumed")],
        error_messages={"required": "Choose when it ends.", "invalid_choice": "Choose one of the lengths offered."},
    )
    is_whole = forms.BooleanField(required=False)
    confirm = forms.CharField(max_length=8, required=False)


@require_http_methods(["GET", "POST"])
def pause(request: HttpRequest, *, environment: str) -> HttpResponse:
    """New work of the instances named by `agent` (a number, once or more), or all of a service, named by `whole`."""
    return _Pausing(request, environment).answer()


@require_http_methods(["GET", "POST"])
def resume(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The same taken back; `revision` names all that was paused at once."""
    return _Resuming(request, environment).answer()


class _Asked:
    """One request about the new work of some instances and services."""

    verb = title = ""

    def __init__(self, request: HttpRequest, environment: str) -> None:
        if not visit_of(request).grants.may(PERMISSION, environment):
            raise PermissionDenied(f"Your role does not let you {self.verb} new work in {environment}.")
        self.request, self.environment, self.now = request, environment, timezone.now()
        self.given = request.POST if request.method == "POST" else request.GET
        numbers = numbers_in(self.given.getlist("agent")[:TARGETS_MOST])
        held = Agent.objects.filter(environment=environment, pk__in=numbers).order_by("service", "instance")
        self.agents: list[AgentRow] = [agent_row(one, self.now) for one in held]
        self.services = [one for one in dict.fromkeys(self.given.getlist("whole")) if one]

    @property
    def back(self) -> str:
        """Where the asker came from: the fleet, or the page of an instance."""
        given, home = self.given.get("back", ""), reverse("agents")
        return given if given == home or given.startswith((f"{home}/settings?", f"{home}?")) else home

    @property
    def targets(self) -> list[Target]:
        """Whom it is about."""
        return [*((one.service, one.instance) for one in self.agents), *((service, "") for service in self.services)]

    @property
    def is_confirmed(self) -> bool:
        """Whether so many are meant that somebody has to type how many."""
        return len(self.targets) > ASKED_ABOVE

    def form(self, given: Any = None) -> ReasonForm:
        """What is typed."""
        raise NotImplementedError

    def done(self, cleaned: Mapping[str, Any]) -> str:
        """Do it, and say what came of it. Raises Refused."""
        raise NotImplementedError

    def more(self) -> Mapping[str, Any]:
        """What else the form shows."""
        return {}

    def answer(self) -> HttpResponse:
        """The form, or what came of it."""
        if not self.targets:
            return changed(self.request, self.back, "Choose at least one instance first.")
        if self.request.method == "GET":
            return self._page(self.form())
        form = self.form(self.request.POST)
        if not form.is_valid():
            return self._page(form, status=UNPROCESSABLE)
        if self.is_confirmed and form.cleaned_data.get("confirm", "").strip() != str(len(self.targets)):
            form.add_error("confirm", f"Type {len(self.targets)}: so many are meant.")
            return self._page(form, status=UNPROCESSABLE, problem="Nothing was changed.")
        try:
            return changed(self.request, self.back, self.done(form.cleaned_data))
        except Refused as refusal:
            problems_of(form, refusal.fields)
            return self._page(form, status=refusal.status, problem=refusal.detail)

    def asked(self, cleaned: Mapping[str, Any]) -> Any:
        """What every action is given."""
        return asked_by(self.request, self.environment, cleaned, self.now)

    def _page(self, form: ReasonForm, *, status: int = 200, problem: str = "") -> HttpResponse:
        context = {
            "now": self.now,
            "verb": self.verb,
            "form": form,
            "title": f"{self.title} {_about(self.targets)}",
            "agents": self.agents,
            "services": self.services,
            "back": self.back,
            "is_confirmed": self.is_confirmed,
            "count": len(self.targets),
            "problem": problem,
            **self.more(),
        }
        return render_page(self.request, "control/agents_pause", context, status=status)


class _Pausing(_Asked):
    verb, title = "pause", "Pause new work of"

    def form(self, given: Any = None) -> ReasonForm:
        return PauseForm(given, initial={"key": new_key(), "lasts": str(DEFAULT_EXPIRY_S)})

    def done(self, cleaned: Mapping[str, Any]) -> str:
        targets: Sequence[Target] = self.targets
        if cleaned["is_whole"]:
            targets = [(service, "") for service in self._of_services]
        lasts_s = None if cleaned["lasts"] == UNTIL_RESUMED else float(cleaned["lasts"])
        return words_of(pause_work(**self.asked(cleaned), targets=targets, expires_in_s=lasts_s), self.now)

    def more(self) -> Mapping[str, Any]:
        meant = {(one.service, one.instance) for one in self.agents}
        rows = [
            one
            for one in fleet(self.environment, now=self.now)
            if one.service in self.services or (one.service, one.instance) in meant
        ]
        there = [one for one in rows if one.is_reachable]
        untold = [one.instance for one in there if one.takes_new_work is None]
        return {
            "impact": [
                (count_text(len(rows), "instance").split()[-1], len(rows)),
                ("runs in hand", sum(one.runs_in_flight for one in there)),
                ("cannot be reached", len(rows) - len(there)),
                ("do not tell", len(untold)),
            ],
            "lines": rows[:_NAMED],
            "others": len(rows) - _NAMED,
            "whole": self._of_services if self.agents else [],
        }

    @property
    def _of_services(self) -> list[str]:
        return sorted({service for service, _ in self.targets})


class _Resuming(_Asked):
    verb, title = "resume", "Resume new work of"

    def __init__(self, request: HttpRequest, environment: str) -> None:
        super().__init__(request, environment)
        self.revision = self.given.get("revision", "")
        held = WorkPause.objects.in_force(environment, self.now)
        number = number_in(self.revision)
        self.together = list(held.filter(revision=number)) if number is not None else []

    @property
    def targets(self) -> list[Target]:
        return list(dict.fromkeys([*super().targets, *((one.service, one.instance) for one in self.together)]))

    @property
    def is_confirmed(self) -> bool:
        return False

    def form(self, given: Any = None) -> ReasonForm:
        return ReasonForm(given, initial={"key": new_key()})

    def done(self, cleaned: Mapping[str, Any]) -> str:
        return words_of(resume_work(**self.asked(cleaned), targets=self.targets), self.now, is_resume=True)

    def more(self) -> Mapping[str, Any]:
        wanted, held = set(self.targets), Pauses(self.environment, self.now).held
        return {
            "revision": self.revision,
            "held": [one for one in held if (one.service, one.instance) in wanted][:_NAMED],
            "wholes": [one for one in held if not one.instance and one.service in {name for name, _ in wanted}],
        }


def words_of(done: Done[Sequence[WorkPause]], now: datetime, *, is_resume: bool = False) -> str:
    """What was done, and until when it holds."""
    rows = done.object
    first, how = rows[0], " already." if done.was_already else f": revision {done.revision}."
    about = _about([(one.service, one.instance) for one in rows])
    if done.was_already and first.ended_at is not None:  # sent again: since then it may have been wanted otherwise
        over = "" if is_resume else ", and it is over"
        return f"{about}: that was done already (revision {done.revision}){over}. The list shows what holds now."
    if first.ended_at is not None:
        return f"{about} may begin new runs{how}"
    ends = first.expires_at
    until = "until resumed" if ends is None else f"until {clock_text(ends, today=now)} {zone_word(ends)}"
    return f"{about}: no new runs {until}{how} The list shows who obeys."


def _about(targets: Sequence[Target]) -> str:
    if len(targets) > 1:
        is_services = not any(instance for _, instance in targets)
        return count_text(len(targets), "service" if is_services else "instance")
    service, instance = targets[0]
    return f"{service}/{instance}" if instance else f"all of {service}"

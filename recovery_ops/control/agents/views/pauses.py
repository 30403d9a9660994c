"""The forms that pause new work of instances or services, stop them, and resume both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.models import Agent
from events.pages.rendering import render_page
from events.queries import fleet
from events.queries.fleet import agent_row
from events.rows import AgentRow
from events.wording import clock_text, count_text, zone_word
from recovery_ops.control.agents.models.pauses import WorkPause
from recovery_ops.control.agents.pause_status import Pauses
from recovery_ops.control.agents.services.pauses import (
    PERMISSION,
    TARGETS_MOST,
    Target,
    count_reached,
    pause_work,
    resume_work,
    stop_agents,
)
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.environment import form_command_context, visit_of
from recovery_ops.control.core.forms import DEFAULT_EXPIRY_S, EXPIRIES, ReasonForm, add_errors, new_key
from recovery_ops.control.core.numbers import parse_number, parse_numbers
from recovery_ops.control.core.reasons import needs_reason
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice

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
        error_messages={"required": "Choose a duration.", "invalid_choice": "Choose one of the durations in the list."},
    )
    is_whole = forms.BooleanField(required=False)
    confirm = forms.CharField(max_length=8, required=False)


class StopForm(PauseForm):
    """The same of a stop, which always has an end."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        lasts = self.fields["lasts"]
        lasts.choices = [(str(seconds), word) for seconds, word in EXPIRIES]  # type: ignore[attr-defined]  # a ChoiceField


@require_http_methods(["GET", "POST"])
def pause(request: HttpRequest, *, environment: str) -> HttpResponse:
    """New work of the instances named by `agent` (a number, once or more), or all of a service, named by `whole`."""
    return _Pausing(request, environment).answer()


@require_http_methods(["GET", "POST"])
def stop(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Instances and services as for a pause; `service` and `instance` name one, for links that know no number."""
    return _Stopping(request, environment).answer()


@require_http_methods(["GET", "POST"])
def resume(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The same taken back; `revision` names all that was paused at once."""
    return _Resuming(request, environment).answer()


class _Asked:
    """One request about the new work of some instances and services."""

    verb = title = ""
    action: str

    def __init__(self, request: HttpRequest, environment: str) -> None:
        if not visit_of(request).grants.may(PERMISSION, environment):
            raise PermissionDenied(f"Your role lacks the permission `{PERMISSION}` in {environment}.")
        self.request, self.environment, self.now = request, environment, timezone.now()
        self.given = request.POST if request.method == "POST" else request.GET
        numbers = parse_numbers(self.given.getlist("agent")[:TARGETS_MOST])
        chosen, name = Q(pk__in=numbers), self.given.get("instance", "")
        if name.isprintable() and name:  # PostgreSQL takes no NUL
            chosen |= Q(service=self.given.get("service", ""), instance=name)
        held = Agent.objects.filter(chosen, environment=environment).order_by("service", "instance")
        self.agents: list[AgentRow] = [agent_row(one, self.now) for one in held]
        self.services = [one for one in dict.fromkeys(self.given.getlist("whole")) if one]

    @property
    def back(self) -> str:
        """Where the asker came from: the fleet, the page of an instance, or that of a run."""
        given, home = self.given.get("back", ""), reverse("agents")
        places = (f"{home}/settings?", f"{home}?", f"{reverse('runs')}/")
        return given if given == home or given.startswith(places) else home

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

    def _form(self, kind: type[ReasonForm], given: Any, **initial: str) -> ReasonForm:
        needed = needs_reason(self.action, self.environment, objects=count_reached(self.environment, self.targets))
        return kind(given, initial={"key": new_key(), **initial}, is_reason_needed=needed)

    def done(self, cleaned: Mapping[str, Any]) -> str:
        """Do it, and say what came of it. Raises CommandRejected."""
        raise NotImplementedError

    def more(self) -> Mapping[str, Any]:
        """What else the form shows."""
        return {}

    def answer(self) -> HttpResponse:
        """The form, or what came of it."""
        if not self.targets:
            return redirect_with_notice(self.request, self.back, "No instance selected; select at least one.")
        if self.request.method == "GET":
            return self._page(self.form())
        form = self.form(self.request.POST)
        if not form.is_valid():
            return self._page(form, status=UNPROCESSABLE)
        if self.is_confirmed and form.cleaned_data.get("confirm", "").strip() != str(len(self.targets)):
            form.add_error("confirm", f"Type {len(self.targets)}, the number of instances.")
            return self._page(form, status=UNPROCESSABLE, problem="Not confirmed; nothing has changed.")
        try:
            return redirect_with_notice(self.request, self.back, self.done(form.cleaned_data))
        except CommandRejected as rejection:
            add_errors(form, rejection.fields)
            return self._page(form, status=rejection.status, problem=rejection.detail)

    def asked(self, cleaned: Mapping[str, Any]) -> Any:
        """What every action is given."""
        return form_command_context(self.request, self.environment, cleaned, self.now)

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
        return render_page(self.request, "agents/agents_pause", context, status=status)


class _Pausing(_Asked):
    verb, title, action = "pause", "Pause new runs of", "work.pause"

    def form(self, given: Any = None) -> ReasonForm:
        return self._form(PauseForm, given, lasts=str(DEFAULT_EXPIRY_S))

    def done(self, cleaned: Mapping[str, Any]) -> str:
        lasts_s = None if cleaned["lasts"] == UNTIL_RESUMED else float(cleaned["lasts"])
        return words_of(pause_work(**self.asked(cleaned), targets=self._meant(cleaned), expires_in_s=lasts_s), self.now)

    def _meant(self, cleaned: Mapping[str, Any]) -> Sequence[Target]:
        return [(service, "") for service in self._of_services] if cleaned["is_whole"] else self.targets

    def more(self) -> Mapping[str, Any]:
        meant = {(one.service, one.instance) for one in self.agents}
        known, of_services = fleet(self.environment, now=self.now), self._of_services
        rows = [one for one in known if one.service in self.services or (one.service, one.instance) in meant]
        whole = [one for one in known if one.service in of_services]
        there = [one for one in rows if one.is_reachable]
        untold = [one.instance for one in there if one.takes_new_work is None]
        return {
            "impact": [
                (count_text(len(rows), "instance").split()[-1], len(rows)),
                ("runs in flight", sum(one.runs_in_flight for one in there)),
                ("unreachable", len(rows) - len(there)),
                ("not reported", len(untold)),
            ],
            "lines": rows[:_NAMED],
            "others": len(rows) - _NAMED,
            "whole": of_services if self.agents else [],
            "whole_instances": len(whole),
            "whole_runs": sum(one.runs_in_flight for one in whole if one.is_reachable),
        }

    @property
    def _of_services(self) -> list[str]:
        return sorted({service for service, _ in self.targets})


class _Stopping(_Pausing):
    verb, title, action = "stop", "Stop", "work.stop"

    def form(self, given: Any = None) -> ReasonForm:
        return self._form(StopForm, given, lasts=str(DEFAULT_EXPIRY_S))

    def done(self, cleaned: Mapping[str, Any]) -> str:
        done = stop_agents(**self.asked(cleaned), targets=self._meant(cleaned), expires_in_s=float(cleaned["lasts"]))
        return words_of(done, self.now)


class _Resuming(_Asked):
    verb, title, action = "resume", "Resume new runs of", "work.resume"

    def __init__(self, request: HttpRequest, environment: str) -> None:
        super().__init__(request, environment)
        self.revision = self.given.get("revision", "")
        held = WorkPause.objects.in_force(environment, self.now)
        number = parse_number(self.revision)
        self.together = list(held.filter(revision=number)) if number is not None else []

    @property
    def targets(self) -> list[Target]:
        return list(dict.fromkeys([*super().targets, *((one.service, one.instance) for one in self.together)]))

    @property
    def is_confirmed(self) -> bool:
        return False

    def form(self, given: Any = None) -> ReasonForm:
        return self._form(ReasonForm, given)

    def done(self, cleaned: Mapping[str, Any]) -> str:
        return words_of(resume_work(**self.asked(cleaned), targets=self.targets), self.now, is_resume=True)

    def more(self) -> Mapping[str, Any]:
        wanted, held = set(self.targets), Pauses(self.environment, self.now).held
        return {
            "revision": self.revision,
            "held": [one for one in held if (one.service, one.instance) in wanted][:_NAMED],
            "wholes": [one for one in held if not one.instance and one.service in {name for name, _ in wanted}],
        }


def words_of(done: CommandResult[Sequence[WorkPause]], now: datetime, *, is_resume: bool = False) -> str:
    """What was done, and until when it holds."""
    rows = done.object
    first, how = rows[0], " already." if done.was_already else f": revision {done.revision}."
    about = _about([(one.service, one.instance) for one in rows])
    if done.was_already and first.ended_at is not None:  # sent again: since then it may have been wanted otherwise
        over = "" if is_resume else " and has ended since"
        word = "resumed" if is_resume else _done(first)
        return f"{about}: already {word} at revision {done.revision}{over}. The page Agents shows the current status."
    if first.ended_at is not None:
        return f"New runs of {about} resumed{how}"
    ends = first.expires_at
    until = "until resumed" if ends is None else f"until {clock_text(ends, today=now)} {zone_word(ends)}"
    subject = f"Runs of {about}" if first.is_stop else f"New runs of {about}"
    return f"{subject} {_done(first)} {until}{how} The page Agents shows the progress."


def _done(one: WorkPause) -> str:
    return "stopped" if one.is_stop else "paused"


def _about(targets: Sequence[Target]) -> str:
    if len(targets) > 1:
        is_services = not any(instance for _, instance in targets)
        return count_text(len(targets), "service" if is_services else "instance")
    service, instance = targets[0]
    return f"{service}/{instance}" if instance else f"all of {service}"

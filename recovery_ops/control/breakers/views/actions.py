"""What a person can do to a breaker, each a page and a dialog: what it hits, where, why and for how long."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events import queries
from events.models import BreakerState
from events.pages.rendering import render_page
from events.rows import AgentRow
from events.wording import clock_text, count_text, rate_text, zone_word
from recovery_ops.control.access.sign_in.sessions import sign_in_again
from recovery_ops.control.breakers.impact import Impact, impact_of
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.breakers.models.ramps import ResetRamp
from recovery_ops.control.breakers.services import overrides, resets
from recovery_ops.control.breakers.services.probes import probe
from recovery_ops.control.breakers.views.ramp_wording import sentence_of, steps_words
from recovery_ops.control.core import commands
from recovery_ops.control.core.approvals import has_wide_reach, requires_second_approver
from recovery_ops.control.core.checks import is_any, is_every_breaker, is_many, is_reported
from recovery_ops.control.core.commands import SIGN_IN_AGAIN, scope_words
from recovery_ops.control.core.environment import form_command_context, visit_of
from recovery_ops.control.core.forms import (
    DEFAULT_EXPIRY_S,
    PARTS,
    BeginForm,
    ExtendForm,
    OverrideForm,
    ReasonForm,
    ScopeForm,
    add_errors,
    new_key,
)
from recovery_ops.control.core.jobs import put_into_tray
from recovery_ops.control.core.reasons import needs_reason
from recovery_ops.control.core.rejections import ApprovalPending, CommandRejected
from recovery_ops.control.core.responses import STILL_TYPED, cancelled_notice, redirect_to_request, redirect_with_notice
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.control.core.undo import Undo, has_replaced, undo
from recovery_ops.control.desired_state.status import Standing
from recovery_ops.rules.fleet.reset_ramp import steps_of
from recovery_ops.rules.policy.scope import ANY, Scope

UNPROCESSABLE = 422
MOST_INSTEAD = 20
MOST_MATCHED = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One of the six: its words, and the form it needs. `permission` is that of `control.roles`."""

    permission: str
    verb: str
    button: str
    notice: str
    form: type[ReasonForm]
    ends: str = ""
    after: str = ""
    undo: str = ""
    consequence: Callable[[Impact], str] = lambda impact: impact.consequence

    @property
    def is_about_override(self) -> bool:
        """Whether it changes an override that is there already."""
        return self.permission in ("release", "extend")


def _passing(impact: Impact) -> str:
    return "Every call is allowed. The breaker keeps counting failures."


def _observing(impact: Impact) -> str:
    return "Every call is allowed. Calls that the breaker would reject are recorded."


def _closing(impact: Impact) -> str:
    ramp = f" over {impact.ramp_s:.0f} s, not all at once" if impact.ramp_s else ""
    return f"Each instance closes the breaker with an empty window{ramp}. An override in this scope is cleared."


def _probing(impact: Impact) -> str:
    return "Each instance with an open breaker allows one call. Its result closes or reopens the breaker."


def _releasing(impact: Impact) -> str:
    return "The policy applies again. A forced-open breaker becomes half-open and allows one probe."


def _extending(impact: Impact) -> str:
    return "The override is unchanged and ends later."


_LONGEST = "Expires on each agent, even if this server is unreachable. Maximum: 24 h."

ACTS = {
    "trip": Act(
        permission="trip",
        verb="Trip",
        button="Trip breaker",
        notice="Set forced open on {}",
        form=OverrideForm,
        ends="Duration",
        after=_LONGEST,
        undo="clear override",
    ),
    "disable": Act(
        permission="disable",
        verb="Disable",
        button="Disable breaker",
        notice="Set disabled on {}",
        form=OverrideForm,
        ends="Duration",
        after=_LONGEST,
        undo="clear override",
        consequence=_passing,
    ),
    "observe": Act(
        permission="observe",
        verb="Observe",
        button="Observe breaker",
        notice="Set metrics only on {}",
        form=OverrideForm,
        ends="Duration",
        after=_LONGEST,
        undo="clear override",
        consequence=_observing,
    ),
    "reset": Act(
        permission="reset",
        verb="Reset",
        button="Reset breaker",
        notice="Requested a reset of {}",
        form=ScopeForm,
        consequence=_closing,
    ),
    "probe": Act(
        permission="probe",
        verb="Probe",
        button="Probe breaker",
        notice="Requested a probe of {}",
        form=ScopeForm,
        consequence=_probing,
    ),
    "release": Act(
        permission="release",
        verb="Clear override of",
        button="Clear override",
        notice="Cleared the override of {}",
        form=ReasonForm,
        consequence=_releasing,
    ),
    "extend": Act(
        permission="extend",
        verb="Extend override of",
        button="Extend override",
        notice="Extended the override of {}",
        form=ExtendForm,
        ends="Duration from now",
        after=_LONGEST,
        undo="clear override",
        consequence=_extending,
    ),
}


@require_http_methods(["GET", "POST"])
def act(request: HttpRequest, *, environment: str, name: str, verb: str) -> HttpResponse:
    """Show the form of an act, or carry it out; `name` may be a pattern. 403 for who may not, 404 for what nobody
    reported, unless it is to be ruled `ahead`.
    """
    chosen = ACTS[verb]
    if not visit_of(request).grants.may_in_part(chosen.permission, environment):
        raise PermissionDenied(f"Your role does not allow `{chosen.permission}` in {environment}.")
    asked = _Asked(request, environment, name, chosen)
    if request.method == "GET":
        if asked.is_of_many and (again := sign_in_again(request)):
            return again
        return asked.page(asked.form({"seen": current_revision(environment), "key": new_key()}))
    return asked.carried_out()


class _Asked:
    """One request for one act on one breaker, or on those of a pattern."""

    def __init__(self, request: HttpRequest, environment: str, name: str, chosen: Act) -> None:
        self.request, self.environment, self.name, self.act = request, environment, name, chosen
        self.now = timezone.now()
        self.override = self._override() if chosen.is_about_override else None
        self.scope = self.override.scope if self.override is not None else Scope(operation=name)
        self.is_every = is_every_breaker(environment, name)
        self.is_pattern = ANY in name
        has_page = not self.is_pattern and BreakerState.objects.filter(environment=environment, breaker=name).exists()
        self.back = reverse("breaker", args=[name]) if has_page else reverse("breakers")
        self.is_new = self.override is None and not has_page and not is_reported(environment, self.scope)
        is_meant = chosen.form is OverrideForm and (request.GET.get("ahead") or request.POST.get("ahead"))
        if self.is_new and not is_meant:
            raise Http404(f"No instance in {environment} has reported the breaker {name}.")

    def _override(self) -> Override:
        """The override named in the address, else the one that rules the breaker everywhere."""
        pk = self.request.GET.get("override") or self.request.POST.get("override", "")
        if not pk:
            resting = Standing(self.environment, now=self.now).override_of(self.name)
            pk = resting.id if resting is not None else ""
        found = Override.objects.filter(environment=self.environment, pk=pk).first()
        if found is None:
            raise Http404(f"No override of {self.name} exists. It may have ended.")
        return found

    @property
    def is_of_many(self) -> bool:
        """Whether it takes a fresh sign-in: what is imposed on so many breakers, or prolonged there."""
        return issubclass(self.act.form, ExtendForm) and is_many(self.environment, self.scope.operation)

    def form(self, initial: Mapping[str, Any] | None = None) -> ReasonForm:
        """The act's form: filled in with defaults, or bound to what was sent."""
        verb = f"breaker.{self.act.permission}"
        is_reason_needed = needs_reason(verb, self.environment, operation=self.scope.operation)
        words: dict[str, Any] = {"is_reason_needed": is_reason_needed}
        if self.act.form is OverrideForm:
            words |= {
                "typed": self._typed_name,
                "for_a_part": visit_of(self.request).is_production,
                "for_all": self.is_every,
            }
        if initial is None:
            return self.act.form(self.request.POST, **words)
        defaults = {"scope": "all", "expires_in_s": DEFAULT_EXPIRY_S, "ahead": self.is_new}
        return self.act.form(initial={**defaults, **initial}, **words)

    @property
    def _typed_name(self) -> str:
        """What has to be typed: a star would be typed without a thought."""
        return self.environment if self.is_every else self.name

    def carried_out(self) -> HttpResponse:
        """Check the form, ask the action, and go back to the breaker; or the form again with what is wrong."""
        form = self.form()
        self.scope = self._chosen(form)
        if self.request.POST.get("weigh"):
            return self.page(self.form(dict(self.request.POST.items())))
        if not form.is_valid():
            return self.page(form, status=UNPROCESSABLE)
        try:
            done = self._done(form)
        except CommandRejected as rejection:
            return self._refused(form, rejection)
        put_into_tray(self.request.session, self.now)
        so_already = " already" if done.was_already else f": revision {done.revision}"
        if isinstance(done.object, Override) and done.object.ended_at is None:
            ends_at = done.object.expires_at
            so_already += f", until {clock_text(ends_at, today=self.now)} {zone_word(ends_at)}"
        if isinstance(done.object, ResetRamp):
            number = done.object.number
            notice = f"Started reset {number}. {sentence_of(done.object)}"
            return redirect_with_notice(self.request, reverse("reset-ramp", args=[number]), notice)
        notice = f"{self.act.notice.format(scope_words(self.scope))}{so_already}."
        notice += cancelled_notice(done, self.now)
        return redirect_with_notice(self.request, self.back, notice, undo=self._undo(done))

    def _undo(self, done: commands.CommandResult[Any]) -> Undo | None:
        """Clearing the override that was just set, unless it replaced another, or ended a window."""
        made = done.object
        is_new = isinstance(made, Override) and self.act.form is OverrideForm and not done.was_already
        if not is_new or done.cancelled or not visit_of(self.request).grants.may("release", self.environment):
            return None
        if has_replaced(self.environment, done.revision):
            return None
        return undo(reverse("breaker-release", args=[self.name]), self.environment, override=str(made.pk))

    def _chosen(self, form: ReasonForm) -> Scope:
        """The part of the environment that a form means, also of one with other faults; all of it where it has none."""
        if self.override is not None or not isinstance(form, ScopeForm):
            return self.scope
        if not form.is_valid() and {"scope", *PARTS} & form.errors.keys():
            return self.scope
        return form.scope_of(self.name)

    def _done(self, form: ReasonForm) -> commands.CommandResult[Any]:
        cleaned = form.cleaned_data
        asked = form_command_context(self.request, self.environment, cleaned, self.now) | {"seen": cleaned["seen"]}
        if "expires_in_s" in cleaned:
            asked["break_glass"] = cleaned["break_glass"]
            asked["expires_in_s"] = float(cleaned["expires_in_s"])
        if "confirm" in cleaned:
            asked["confirm"] = cleaned["confirm"]
        if isinstance(form, BeginForm):
            asked["starts_in_s"] = form.starts_in_s(self.now)
        if "ahead" in cleaned:
            asked["ahead"] = cleaned["ahead"]
        if self.override is not None:
            asked["override_id"] = self.override.pk
        elif isinstance(form, ScopeForm):
            asked["scope"] = self.scope
        return _COMMANDS[self.act.permission](**asked)

    def _refused(self, form: ReasonForm, rejection: CommandRejected) -> HttpResponse:
        """403 is a page of its own; anything else is said above the form, which keeps what was typed."""
        if isinstance(rejection, ApprovalPending):
            return redirect_to_request(self.request, rejection)
        if rejection.status == 403 and rejection.code != SIGN_IN_AGAIN:
            raise PermissionDenied(rejection.detail)
        unplaced = add_errors(form, {name: fault for name, fault in rejection.fields.items() if name != "operation"})
        problem = rejection.detail
        if rejection.status == 409:
            problem += f" {STILL_TYPED}"
        elif rejection.fields and not unplaced and rejection.status == 400:
            problem = ""
        return self.page(form, status=rejection.status, problem=problem)

    def _agents(self) -> list[AgentRow]:
        """The instances that the scope may name."""
        if self.is_pattern or self.is_new:
            return queries.fleet(self.environment, now=self.now)
        return [one.agent for one in queries.instance_states(self.environment, self.name, now=self.now)]

    def _is_second_needed(self) -> bool:
        """Whether it may wait for a second person; which part of the environment is meant is only said in the form."""
        is_lasting = issubclass(self.act.form, ExtendForm)
        return (
            is_lasting and has_wide_reach(self.environment, self.scope) and requires_second_approver(self.environment)
        )

    @property
    def _called(self) -> str:
        """What the page says that it is about: of an override what it rests on, which may be more than this breaker."""
        return "all breakers" if is_any(self.scope.operation) else self.scope.operation

    @property
    def _about(self) -> str:
        """Which override is changed, where it is not just that of this breaker everywhere."""
        if self.override is None or self.scope == Scope(operation=self.name):
            return ""
        return f"Override for {scope_words(self.scope)}, by {self.override.by}: {self.override.reason}"

    @property
    def _is_call_off(self) -> bool:
        """Whether it ends an override that has not begun."""
        return self.act.permission == "release" and self.override is not None and self.override.starts_at > self.now

    def _lead(self, impact: Impact) -> str:
        if self._is_call_off:
            return "The override has not started. The current state is unchanged."
        return self.act.consequence(impact)

    def _breakers(self, impact: Impact) -> list[tuple[str, str]]:
        """How many breakers a pattern means, as a pair like those of `impact_words`."""
        if ANY not in self.scope.operation:
            return []
        return [(count_text(len(impact.breakers), "breaker").split()[-1], str(len(impact.breakers)))]

    def _steps(self, impact: Impact) -> Mapping[str, object]:
        """That a reset of all of them goes in steps, and in which: in words, and how many are reset after each."""
        if self.act.permission != "reset":
            return {}
        bounds = Standing(self.environment, now=self.now).policy.reset_ramp
        return {"in_steps": steps_words(impact.not_closed, bounds), "steps": steps_of(impact.not_closed, bounds)}

    def page(self, form: ReasonForm, *, status: int = 200, problem: str = "") -> HttpResponse:
        """The form with what it would hit, as a page or alone for a dialog."""
        impact = impact_of(self.environment, self.scope, now=self.now)
        having = self._agents()
        revision = current_revision(self.environment)
        context = {
            "now": self.now,
            "act": self.act,
            "form": form,
            "breaker": self._called,
            "override": self.override,
            "about": self._about,
            "lead": self._lead(impact),
            "is_call_off": self._is_call_off,
            "matched": impact.breakers[:MOST_MATCHED] if self.is_pattern and self.override is None else (),
            "more_matched": len(impact.breakers) - MOST_MATCHED,
            "is_new": self.is_new,
            "touched": "" if self.scope == Scope(operation=self.name) else scope_words(self.scope),
            **self._steps(impact),
            "impact": [*self._breakers(impact), *impact_words(impact)],
            "instead": impact.operations[:MOST_INSTEAD] if self.act.permission == "trip" else (),
            "more_instead": len(impact.operations) - MOST_INSTEAD if self.act.permission == "trip" else 0,
            "services": sorted({one.service for one in having}),
            "groups": sorted({one.group for one in having} - {""}),
            "instances": sorted({one.instance for one in having}),
            "typed_name": self._typed_name,
            "action": self.request.get_full_path(),
            "back": self.back,
            "problem": problem,
            "is_second_needed": self._is_second_needed(),
            # Whoever sends the form after a refusal has seen what is there now.
            "seen": revision if status == 409 or not form.is_bound else form["seen"].value(),
            "revision": revision,
            "next_revision": revision + 1,
        }
        return render_page(self.request, "breakers/act", context, status=status)


def impact_words(impact: Impact) -> list[tuple[str, str]]:
    """What an act hits, in a few numbers; what nobody measured is left out, never zero."""
    rates = [
        ("calls/min", impact.calls_per_min),
        ("rejected/min", impact.rejected_per_min),
        ("fallbacks/min", impact.fallbacks_per_min),
    ]
    found = [(word, rate_text(rate)) for word, rate in rates if rate is not None]
    silent = f", {impact.unreachable} unreachable" if impact.unreachable else ""
    return [
        (f"{count_text(impact.instances, 'instance').split()[-1]}{silent}", str(impact.instances)),
        (f"{count_text(impact.runs_in_flight, 'run').split()[-1]} in flight", str(impact.runs_in_flight)),
        *found,
    ]


_COMMANDS: dict[str, Callable[..., commands.CommandResult[Any]]] = {
    "trip": overrides.trip,
    "disable": overrides.disable,
    "observe": overrides.observe,
    "release": overrides.release,
    "extend": overrides.extend,
    "reset": resets.reset,
    "probe": probe,
}
"""The command of each permission."""

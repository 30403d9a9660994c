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
from events.pages import render_page
from events.wording import count_text, rate_text
from recovery_ops.control import actions
from recovery_ops.control.actions import Refused, words_of
from recovery_ops.control.context import actor_of, visit_of
from recovery_ops.control.desired import current_revision
from recovery_ops.control.forms import (
    DEFAULT_EXPIRY_S,
    ExtendForm,
    OverrideForm,
    ReasonForm,
    ScopeForm,
    new_key,
    problems_of,
)
from recovery_ops.control.impact import Impact, impact_of
from recovery_ops.control.models import Override
from recovery_ops.control.views.answers import changed
from recovery_ops.control.views.standing import Standing
from recovery_ops.rules.scope import Scope

UNPROCESSABLE = 422


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
    return "Every call goes through, whatever fails; the breaker goes on counting."


def _observing(impact: Impact) -> str:
    return "Every call goes through; what the rules would have refused is recorded."


def _closing(impact: Impact) -> str:
    ramp = f" over {impact.ramp_s:.0f} s, not all at once" if impact.ramp_s else ""
    return f"Each instance closes once with an empty window{ramp}. An override in this scope ends with it."


def _releasing(impact: Impact) -> str:
    return "The rules decide again: a tripped breaker goes to half_open and lets one probe through."


def _extending(impact: Impact) -> str:
    return "It goes on as it is and ends later."


_LONGEST = "It ends by itself, by each agent’s own clock, also when this server is away. The longest is 24 h."

ACTS = {
    "trip": Act(
        permission="trip",
        verb="Trip",
        button="Trip breaker",
        notice="{} is to be tripped",
        form=OverrideForm,
        ends="Ends after",
        after=_LONGEST,
        undo="Return to auto",
    ),
    "disable": Act(
        permission="disable",
        verb="Disable",
        button="Disable breaker",
        notice="{} is to be disabled",
        form=OverrideForm,
        ends="Ends after",
        after=_LONGEST,
        undo="Return to auto",
        consequence=_passing,
    ),
    "observe": Act(
        permission="observe",
        verb="Only observe",
        button="Only observe",
        notice="{} is to be observed only",
        form=OverrideForm,
        ends="Ends after",
        after=_LONGEST,
        undo="Return to auto",
        consequence=_observing,
    ),
    "reset": Act(
        permission="reset",
        verb="Reset",
        button="Reset breaker",
        notice="{} is to be reset",
        form=ScopeForm,
        consequence=_closing,
    ),
    "release": Act(
        permission="release",
        verb="Return to auto:",
        button="Return to auto",
        notice="{} is to return to auto",
        form=ReasonForm,
        consequence=_releasing,
    ),
    "extend": Act(
        permission="extend",
        verb="Extend the override of",
        button="Extend",
        notice="The override of {} is to be extended",
        form=ExtendForm,
        ends="Ends after, counted from now",
        after=_LONGEST,
        undo="Return to auto",
        consequence=_extending,
    ),
}


@require_http_methods(["GET", "POST"])
def act(request: HttpRequest, *, environment: str, name: str, verb: str) -> HttpResponse:
    """Show the form of an act, or carry it out. 403 for who may not, 404 for a breaker nobody reported."""
    chosen = ACTS[verb]
    if not visit_of(request).grants.may(chosen.permission, environment):
        raise PermissionDenied(f"Your role does not let you {chosen.permission} breakers in {environment}.")
    asked = _Asked(request, environment, name, chosen)
    if request.method == "GET":
        return asked.page(asked.form({"seen": current_revision(environment), "key": new_key()}))
    return asked.carried_out()


class _Asked:
    """One request for one act on one breaker."""

    def __init__(self, request: HttpRequest, environment: str, name: str, chosen: Act) -> None:
        self.request, self.environment, self.name, self.act = request, environment, name, chosen
        self.now = timezone.now()
        self.override = self._override() if chosen.is_about_override else None
        self.scope = self.override.scope if self.override is not None else Scope(operation=name)
        self.back = reverse("breaker", args=[name])
        if self.override is None and not BreakerState.objects.filter(environment=environment, breaker=name).exists():
            raise Http404(f"No instance in {environment} has ever reported a breaker called {name}.")

    def _override(self) -> Override:
        """The override named in the address, else the one that rules the breaker everywhere."""
        pk = self.request.GET.get("override") or self.request.POST.get("override", "")
        if not pk:
            resting = Standing(self.environment, now=self.now).override_of(self.name)
            pk = resting.id if resting is not None else ""
        found = Override.objects.filter(environment=self.environment, pk=pk).first()
        if found is None:
            raise Http404(f"No override rests on {self.name}: it may have ended meanwhile.")
        return found

    def form(self, initial: Mapping[str, Any] | None = None) -> ReasonForm:
        """The act's form: filled in with defaults, or bound to what was sent."""
        words: dict[str, Any] = {}
        if self.act.form is OverrideForm:
            words = {"breaker": self.name, "is_name_needed": self.environment.startswith("prod")}
        if initial is None:
            return self.act.form(self.request.POST, **words)
        defaults = {"scope": "all", "expires_in_s": DEFAULT_EXPIRY_S}
        return self.act.form(initial={**defaults, **initial}, **words)

    def carried_out(self) -> HttpResponse:
        """Check the form, ask the action, and go back to the breaker; or the form again with what is wrong."""
        form = self.form()
        if not form.is_valid():
            return self.page(form, status=UNPROCESSABLE)
        try:
            done = self._done(form)
        except Refused as refusal:
            return self._refused(form, refusal)
        so_already = " already; nothing was changed" if done.was_already else f": revision {done.revision}"
        notice = f"{self.act.notice.format(words_of(self.scope))}{so_already}. The page shows who has applied it."
        return changed(self.request, self.back, notice)

    def _done(self, form: ReasonForm) -> actions.Done[Any]:
        cleaned = form.cleaned_data
        asked: dict[str, Any] = {
            "by": actor_of(self.request),
            "environment": self.environment,
            "reason": cleaned["reason"],
            "seen": cleaned["seen"],
            "key": cleaned["key"] or None,
            "now": self.now,
        }
        if "expires_in_s" in cleaned:
            asked["expires_in_s"] = float(cleaned["expires_in_s"])
        if self.override is not None:
            asked["override_id"] = self.override.pk
        elif isinstance(form, ScopeForm):
            self.scope = asked["scope"] = form.scope_of(self.name)
        carry_out: Callable[..., actions.Done[Any]] = getattr(actions, self.act.permission)
        return carry_out(**asked)

    def _refused(self, form: ReasonForm, refusal: Refused) -> HttpResponse:
        """403 is a page of its own; anything else is said above the form, which keeps what was typed."""
        if refusal.status == 403:
            raise PermissionDenied(refusal.detail)
        unplaced = problems_of(form, {name: fault for name, fault in refusal.fields.items() if name != "operation"})
        problem = refusal.detail
        if refusal.status == 409:
            problem += " What you typed is kept; sending it again does it all the same."
        elif refusal.fields and not unplaced and refusal.status == 400:
            problem = ""
        return self.page(form, status=refusal.status, problem=problem)

    def page(self, form: ReasonForm, *, status: int = 200, problem: str = "") -> HttpResponse:
        """The form with what it would hit, as a page or alone for a dialog."""
        impact = impact_of(self.environment, self.scope, now=self.now)
        having = queries.instance_states(self.environment, self.name, now=self.now)
        revision = current_revision(self.environment)
        context = {
            "now": self.now,
            "act": self.act,
            "form": form,
            "breaker": self.name,
            "override": self.override,
            "lead": self.act.consequence(impact),
            "impact": impact_words(impact),
            "services": sorted({one.agent.service for one in having}),
            "instances": sorted({one.agent.instance for one in having}),
            "action": self.request.get_full_path(),
            "back": self.back,
            "problem": problem,
            # Whoever sends the form after a refusal has seen what is there now.
            "seen": revision if status == 409 or not form.is_bound else form["seen"].value(),
            "revision": revision,
            "next_revision": revision + 1,
        }
        return render_page(self.request, "control/act", context, status=status)


def impact_words(impact: Impact) -> list[tuple[str, str]]:
    """What an act hits, in four numbers; what nobody measured is left out, never zero."""
    rates = [
        ("calls per minute", impact.calls_per_min),
        ("refused per minute", impact.rejected_per_min),
        ("by a fallback per minute", impact.fallbacks_per_min),
    ]
    found = [(word, rate_text(rate)) for word, rate in rates if rate is not None]
    silent = f", {impact.unreachable} unreachable" if impact.unreachable else ""
    return [(f"{count_text(impact.instances, 'instance').split()[-1]}{silent}", str(impact.instances)), *found]

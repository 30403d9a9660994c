"""One proposal: what it would change, what to ask about it, what was said, and what can be done to it now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.pages.rendering import render_page
from events.wording import count_text, share_text, span_text, zone_word
from recovery_ops.control.breakers.views.actions import UNPROCESSABLE
from recovery_ops.control.core import commands
from recovery_ops.control.core.differences import lines_of, parts_of
from recovery_ops.control.core.environment import actor_of, form_command_context, visit_of
from recovery_ops.control.core.forms import ReasonForm, add_errors, new_key
from recovery_ops.control.core.numbers import NumberField
from recovery_ops.control.core.reasons import needs_reason
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.desired_state.document import LivePolicy, live_policy
from recovery_ops.control.policies.models.policies import PolicyProposal
from recovery_ops.control.policies.services import proposals as proposals_services
from recovery_ops.control.policies.services import review as review_services
from recovery_ops.control.policies.services.proposals import MOVES, had_a_hand
from recovery_ops.control.replay.golden import results_of
from recovery_ops.control.replay.views.replays import WINDOWS, sentence_of
from recovery_ops.rules.fleet.health_gate import LEAST_CALLS
from recovery_ops.rules.policy.lint import lint
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.rules.policy.scope import ANY

MOST_REPLAYS = 3
LIFE = ("draft", "in_review", "approved", "scheduled", "rolling_out", "live")
"""The states of a proposal that all goes well with."""

_DO: dict[str, Any] = {
    "submit": proposals_services.submit,
    "comment": proposals_services.comment,
    "approve": proposals_services.approve,
    "return": proposals_services.send_back,
    "reject": proposals_services.reject,
    "schedule": proposals_services.schedule,
    "release": proposals_services.release_proposal,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """One thing that can be done now; `why_not` says why it cannot, where that is worth saying."""

    move: str
    word: str
    is_main: bool = False
    why_not: str = ""


class RolloutForm(ReasonForm):
    """To whom a proposal goes first, and for how long."""

    percent = forms.FloatField(min_value=0.1, max_value=100, initial=10)
    minutes = forms.FloatField(min_value=1, max_value=7 * 24 * 60, initial=15)
    service = forms.CharField(max_length=200, required=False)
    group = forms.CharField(max_length=200, required=False)
    least_calls = NumberField(min_value=1, max_value=1_000_000, initial=LEAST_CALLS)
    break_glass = forms.BooleanField(required=False)
    accepts_golden = forms.BooleanField(required=False)


class MoveForm(ReasonForm):
    """What a move is given; the moment is one of the reader's clock."""

    go_live_at = forms.DateTimeField(required=False, input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"])
    first_percent = forms.FloatField(min_value=0.1, max_value=100, required=False)
    first_minutes = forms.FloatField(min_value=1, max_value=7 * 24 * 60, required=False)
    break_glass = forms.BooleanField(required=False)
    accepts_golden = forms.BooleanField(required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        zone, field = zone_word(timezone.now()), self.fields["go_live_at"]
        field.help_text = f"{zone}, to schedule the release"
        field.error_messages["invalid"] = f"Not a time; use {zone} time, such as 2026-01-31T22:00."

    def cohort(self) -> dict[str, float] | None:
        """Whom a scheduled proposal goes to first; None for all at once."""
        percent, minutes = self.cleaned_data["first_percent"], self.cleaned_data["first_minutes"]
        if percent is None and minutes is None:
            return None
        said = {"share": None if percent is None else percent / 100, "for_s": None if minutes is None else minutes * 60}
        return {name: value for name, value in said.items() if value is not None}


@require_http_methods(["GET", "POST"])
def proposal(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """Show a proposal, or carry out a move. 403 for who may not, 404 for one that is not there."""
    found = PolicyProposal.objects.filter(environment=environment, number=number).first()
    if found is None:
        raise Http404(f"{environment} has no proposal {number}.")
    if request.method == "GET":
        return page(request, found, MoveForm(initial={"seen": found.step, "key": new_key()}))
    move = request.POST.get("move", "")
    if move not in _DO:
        raise Http404(f"`{move}` is not an action of proposals.")
    if not visit_of(request).grants.may(MOVES[move].permission, environment):
        raise PermissionDenied(f"Your role lacks the permission to {move} proposals in {environment}.")
    return _carried_out(request, found, move)


def _carried_out(request: HttpRequest, found: PolicyProposal, move: str) -> HttpResponse:
    verb = "policy.release" if move == "release" else f"proposal.{move}"
    form = MoveForm(request.POST, is_reason_needed=needs_reason(verb, found.environment))
    if form.is_valid() and move == "schedule" and form.cleaned_data["go_live_at"] is None:
        form.add_error("go_live_at", ValidationError("Choose a release time.", code="required"))
    if not form.is_valid():
        return page(request, found, form, status=UNPROCESSABLE)
    try:
        done = _DO[move](**_asked(request, found, move, form))
    except CommandRejected as rejection:
        if rejection.status == 403 and rejection.code == "forbidden":
            raise PermissionDenied(rejection.detail) from None
        unplaced = add_errors(form, rejection.fields)
        problem = "" if rejection.fields and not unplaced and rejection.status == 400 else rejection.detail
        found.refresh_from_db()
        return page(request, found, form, status=rejection.status, problem=problem)
    return redirect_with_notice(request, reverse("proposal", args=[found.number]), _notice(found, move, done))


def _asked(request: HttpRequest, found: PolicyProposal, move: str, form: MoveForm) -> dict[str, Any]:
    cleaned = form.cleaned_data
    asked = form_command_context(request, found.environment, cleaned, timezone.now()) | {
        "number": found.number,
        "seen": cleaned["seen"],
    }
    if move in ("approve", "schedule", "release"):
        asked["accepts_golden"] = cleaned["accepts_golden"]
    if move == "schedule":
        asked["go_live_at"] = cleaned["go_live_at"]
        asked["cohort"] = form.cohort()
    if move == "release":
        asked["break_glass"] = cleaned["break_glass"]
    return asked


def _notice(found: PolicyProposal, move: str, done: commands.CommandResult[Any]) -> str:
    if move == "release":
        where = "The page of policies shows its progress."
        return f"Policy {done.object.version} is live: revision {done.revision}. {where}"
    if move == "schedule" and done.object.cohort is not None:
        return f"Proposal {found.number} scheduled, canary {cohort_text(done.object.cohort)}."
    return f"Proposal {found.number}: {done.object.state.replace('_', ' ')}."


def cohort_text(cohort: Mapping[str, Any]) -> str:
    """`10 % of the instances of research for 15m`."""
    names = [cohort[name] for name in ("service", "group") if cohort[name] != ANY]
    of = f" of {' and '.join(names)}" if names else ""
    return f"{share_text(cohort['share'])} of the instances{of} for {span_text(cohort['for_s'])}"


def page(
    request: HttpRequest,
    found: PolicyProposal,
    form: MoveForm,
    *,
    status: int = 200,
    problem: str = "",
    rollout_form: RolloutForm | None = None,
) -> HttpResponse:
    """The proposal with a form for what can be done to it."""
    live = live_policy(found.environment)
    release = found.releases.order_by("version").first()
    base = live.document
    if release is not None:
        earlier = type(release).objects.filter(environment=found.environment, version=release.version - 1).first()
        base = LivePolicy.built_in().document if earlier is None else earlier.document
    changes = parts_of(base, found.document)
    buttons = buttons_of(request, found, live)
    context = {
        **_rollout_context(found, buttons, rollout_form),
        **_golden_context(found),
        "now": timezone.now(),
        "proposal": found,
        "release": release,
        "live": live,
        "form": form,
        "seen": found.step if status == 409 or not form.is_bound else form["seen"].value(),
        "problem": problem,
        "sentence": _sentence(found, len(changes), live),
        "life": [(state.replace("_", " "), state == found.state) for state in LIFE],
        "is_off_course": found.state not in LIFE,
        "lines": lines_of(base, found.document),
        "changes": changes,
        "findings": lint(parse_policy(found.document), found.document),
        "notes": list(found.notes.order_by("-step")),
        "buttons": buttons,
        "replays": [(one, sentence_of(one)) for one in found.replays.order_by("-number")[:MOST_REPLAYS]],
        "windows": WINDOWS,
        "replay_key": new_key(),
        "cohort_words": "" if found.cohort is None else cohort_text(found.cohort),
        "can_schedule": any(one.move == "schedule" and not one.why_not for one in buttons),
        "may_break_glass": _may_break_glass(request, found),
        "is_review_needed": review_services.is_review_needed(found.environment),
        "is_behind": found.is_open and found.base_version != live.version,
        "can_edit": found.state in MOVES["revise"].states
        and visit_of(request).grants.may("propose_policy", found.environment),
    }
    return render_page(request, "policies/policy_proposal", context, status=status)


def _rollout_context(found: PolicyProposal, buttons: list[Button], asked: RolloutForm | None) -> dict[str, Any]:
    """What the page says of rolling the proposal out."""
    form = asked or RolloutForm(
        initial={"seen": found.step, "key": new_key()},
        is_reason_needed=needs_reason("rollout.start", found.environment),
    )
    return {
        "rollouts": list(found.rollouts.order_by("-number")[:MOST_REPLAYS]),
        "rollout_form": form,
        "rollout_fields": rollout_fields(form),
        "can_roll_out": any(one.move == "release" and not one.why_not for one in buttons),
    }


def _golden_context(found: PolicyProposal) -> dict[str, Any]:
    """What the proposal does to the golden runs, and whether somebody still has to accept it."""
    golden = results_of(found) if found.is_open else []
    return {
        "golden": golden,
        "asks_golden": any(not one.is_same and one.case.number not in found.golden_accepted for one in golden),
    }


def rollout_fields(form: RolloutForm) -> list[dict[str, Any]]:
    """The fields of the form of a rollout, with their words."""
    words = {
        "percent": ("Canary share", "% of the instances"),
        "minutes": ("Duration", "minutes"),
        "service": ("Service", "empty: any"),
        "group": ("Group", "empty: any"),
        "least_calls": ("Required calls", "on each side"),
        "reason": ("Reason", "at least 10 characters"),
    }
    return [{"field": form[name], "word": word, "hint": hint} for name, (word, hint) in words.items()]


def buttons_of(request: HttpRequest, found: PolicyProposal, live: LivePolicy) -> list[Button]:
    """What this person can do to it now, and why not what they might expect to."""
    may = visit_of(request).grants.may
    words = {
        "comment": "Comment",
        "submit": "Submit for review",
        "approve": "Approve",
        "return": "Return to draft",
        "reject": "Reject",
        "schedule": "Schedule",
        "release": "Release now",
    }
    fitting = [
        move for move in words if found.state in MOVES[move].states and may(MOVES[move].permission, found.environment)
    ]
    main = next((move for move in ("approve", "release", "submit") if move in fitting), "")
    if main == "release" and not found.approved_by and review_services.is_review_needed(found.environment):
        main = "submit" if "submit" in fitting else ""
    return [
        Button(move=move, word=words[move], is_main=move == main, why_not=_why_not(request, found, move, live))
        for move in fitting
    ]


def _why_not(request: HttpRequest, found: PolicyProposal, move: str, live: LivePolicy) -> str:
    if move == "approve" and had_a_hand(actor_of(request), found):
        return "You edited this proposal; another user has to approve it."
    if move in ("schedule", "release") and found.base_version != live.version:
        return (
            f"The base is policy {found.base_version}, but {live.version} is live; edit it onto {live.version} first."
        )
    is_unapproved = not found.approved_by and review_services.is_review_needed(found.environment)
    if (
        move in ("schedule", "release")
        and is_unapproved
        and not (move == "release" and _may_break_glass(request, found))
    ):
        return f"{found.environment} requires the approval of another user first."
    return ""


def _may_break_glass(request: HttpRequest, found: PolicyProposal) -> bool:
    """Whether releasing it now would be without the approval that is asked for, and this person may."""
    is_unapproved = not found.approved_by and review_services.is_review_needed(found.environment)
    is_releasable = found.state in MOVES["release"].states
    return is_unapproved and is_releasable and visit_of(request).grants.may("break_glass", found.environment)


def _sentence(found: PolicyProposal, changes: int, live: LivePolicy) -> str:
    what = f"{count_text(changes, 'value')} of {_named(found.base_version)}"
    if not found.is_open:
        return f"Changed {what}; now {found.state.replace('_', ' ')}."
    behind = f" Policy {live.version} went live after this draft." if found.base_version != live.version else ""
    return f"Changes {what}.{behind}"


def _named(version: str) -> str:
    return f"policy {version}" if version.isdigit() else "the default policy"

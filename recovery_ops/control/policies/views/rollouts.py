"""Rollouts: begun on the page of a proposal, watched while they go on, promoted, prolonged or taken back by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events import queries
from events.pages.rendering import render_page
from events.rows import AgentRow
from events.wording import count_text, share_text, span_text
from recovery_ops.control.breakers.views.actions import UNPROCESSABLE
from recovery_ops.control.core.differences import lines_of
from recovery_ops.control.core.environment import actor_of, form_command_context, visit_of
from recovery_ops.control.core.forms import ReasonForm, add_errors, new_key
from recovery_ops.control.core.numbers import parse_number
from recovery_ops.control.core.reasons import needs_reason
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.desired_state.document import LivePolicy
from recovery_ops.control.desired_state.status import Standing
from recovery_ops.control.policies.models.policies import PolicyProposal, PolicyRelease
from recovery_ops.control.policies.models.rollouts import PolicyRollout
from recovery_ops.control.policies.rollout_evidence import evidence_of, figures_of, split
from recovery_ops.control.policies.services import rollouts
from recovery_ops.control.policies.views.proposals import MoveForm, RolloutForm
from recovery_ops.control.policies.views.proposals import page as proposal_page
from recovery_ops.control.replay.views.replays import named
from recovery_ops.rules.fleet.health_gate import MEASURES
from recovery_ops.rules.policy.scope import ANY

_PERMISSIONS = {"promote": "release_policy", "take-back": "roll_back_policy", "extend": "release_policy"}
MOST_NAMED = 40


class DecideForm(ReasonForm):
    """What the buttons of a rollout are given."""

    minutes = forms.FloatField(min_value=1, max_value=7 * 24 * 60, required=False, initial=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRow:
    """One measure of both sides, in words."""

    word: str
    cohort: str
    other: str


@require_http_methods(["POST"])
def start(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """Let a part of the fleet obey a proposal, and go to the page that shows how it fares."""
    found = PolicyProposal.objects.filter(environment=environment, number=number).first()
    if found is None:
        raise Http404(f"{environment} has no proposal {number}.")
    if not visit_of(request).grants.may("release_policy", environment):
        raise PermissionDenied(f"Your role lacks the permission to release policies in {environment}.")
    other = MoveForm(initial={"seen": found.step, "key": new_key()})
    form = RolloutForm(request.POST, is_reason_needed=needs_reason("rollout.start", environment))
    if not form.is_valid():
        return proposal_page(request, found, other, status=UNPROCESSABLE, rollout_form=form)
    cleaned = form.cleaned_data
    try:
        done = rollouts.start_rollout(
            by=actor_of(request),
            environment=environment,
            number=number,
            reason=cleaned["reason"],
            seen=cleaned["seen"],
            key=cleaned["key"] or None,
            share=cleaned["percent"] / 100,
            for_s=cleaned["minutes"] * 60,
            service=cleaned["service"] or ANY,
            group=cleaned["group"] or ANY,
            least_calls=cleaned["least_calls"],
            break_glass=cleaned["break_glass"],
            accepts_golden=cleaned["accepts_golden"],
            now=timezone.now(),
        )
    except CommandRejected as rejection:
        if rejection.code == "forbidden":
            raise PermissionDenied(rejection.detail) from None
        add_errors(form, rejection.fields)
        found.refresh_from_db()
        return proposal_page(
            request, found, other, status=rejection.status, problem=rejection.detail, rollout_form=form
        )
    notice = f"Rollout {done.object.number} started: revision {done.revision}."
    return redirect_with_notice(request, reverse("rollout", args=[done.object.number]), notice)


@require_http_methods(["GET", "POST"])
def rollout(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """How a rollout fares, or how it ended; POST `act` promotes, prolongs or takes it back."""
    found = PolicyRollout.objects.filter(environment=environment, number=number).select_related("proposal").first()
    if found is None:
        raise Http404(f"{environment} has no rollout {number}.")
    if request.method == "GET":
        form = DecideForm(
            initial={"seen": found.step, "key": new_key(), "minutes": 15},
            is_reason_needed=needs_reason("rollout.promote", environment),
        )
        return _page(request, found, form)
    act = request.POST.get("act", "")
    if act not in _PERMISSIONS:
        raise Http404(f"`{act}` is not an action of rollouts.")
    if not visit_of(request).grants.may(_PERMISSIONS[act], environment):
        raise PermissionDenied(f"Your role lacks the permission for this action in {environment}.")
    return _carried_out(request, found, act)


def _carried_out(request: HttpRequest, found: PolicyRollout, act: str) -> HttpResponse:
    verb = f"rollout.{act.replace('-', '_')}"
    form = DecideForm(request.POST, is_reason_needed=needs_reason(verb, found.environment))
    if form.is_valid() and act == "extend" and not form.cleaned_data["minutes"]:
        form.add_error("minutes", "Type the extension in minutes.")
    if not form.is_valid():
        return _page(request, found, form, status=UNPROCESSABLE)
    cleaned = form.cleaned_data
    asked = form_command_context(request, found.environment, cleaned, timezone.now()) | {
        "number": found.number,
        "seen": cleaned["seen"],
    }
    try:
        notice = _done(act, asked, cleaned)
    except CommandRejected as rejection:
        if rejection.code == "forbidden":
            raise PermissionDenied(rejection.detail) from None
        add_errors(form, rejection.fields)
        found.refresh_from_db()
        return _page(request, found, form, status=rejection.status, problem=rejection.detail)
    return redirect_with_notice(request, reverse("rollout", args=[found.number]), notice)


def _done(act: str, asked: Mapping[str, Any], cleaned: Mapping[str, Any]) -> str:
    """Carry it out; return what to say of it."""
    if act == "promote":
        done = rollouts.promote(**asked)
        return f"Policy {done.object.version} is live: revision {done.revision}."
    if act == "take-back":
        taken = rollouts.take_back(**asked)
        return f"Rollout {taken.object.number} rolled back: revision {taken.revision}."
    longer = rollouts.extend_rollout(**asked, for_s=cleaned["minutes"] * 60)
    return f"Rollout {longer.object.number} extended until {longer.object.ends_at:%H:%M:%S} UTC."


def _page(
    request: HttpRequest, found: PolicyRollout, form: DecideForm, *, status: int = 200, problem: str = ""
) -> HttpResponse:
    now = timezone.now()
    standing = Standing(found.environment, now=now)
    agents = queries.fleet(found.environment, now=now)
    members, others = split(found, agents)
    if found.is_running:
        evidence = evidence_of(found, now=now, agents=agents)
        opinion = evidence.opinion(found)
        figures, health, said = figures_of(evidence), opinion.health.value, opinion.sentence
    else:
        figures, health, said = found.figures, found.health, found.said
    release = PolicyRelease.objects.filter(environment=found.environment, revision=found.end_revision or 0).first()
    revision = found.revision if found.is_running else (found.end_revision or found.revision)
    made_at = found.started_at if found.is_running else found.ended_at
    context = {
        "now": now,
        "rollout": found,
        "release": release if found.state == PolicyRollout.PROMOTED else None,
        "sentence": sentence_of(found, now),
        "health": health,
        "said": said,
        "rows": figure_rows(figures),
        "other_word": figures.get("other", {}).get("word", "other instances"),
        "members": sorted(members, key=_place)[:MOST_NAMED],
        "more_members": max(0, len(members) - MOST_NAMED),
        "sides": [
            _side("Canary", standing, members, revision, made_at),
            _side("Other instances of its services", standing, others, revision, made_at),
        ],
        "base_name": named(found.base_version),
        "lines": lines_of(_base_of(found), found.document),
        "form": form,
        "seen": found.step if status == 409 or not form.is_bound else form["seen"].value(),
        "problem": problem,
    }
    return render_page(request, "policies/policy_rollout", context, status=status)


def _side(
    word: str, standing: Standing, agents: Sequence[AgentRow], revision: int, made_at: datetime | None
) -> dict[str, Any]:
    applying = standing.applying(agents, revision, made_at=made_at)
    return {"word": word, "apply": applying, "missing": applying.missing(), "total": len(agents)}


def _place(row: AgentRow) -> tuple[str, str]:
    return row.service, row.instance


def _base_of(found: PolicyRollout) -> Mapping[str, Any]:
    """The document that the others obey meanwhile."""
    version = parse_number(found.base_version) or 0
    release = PolicyRelease.objects.filter(environment=found.environment, version=version).first()
    document: Mapping[str, Any] = LivePolicy.built_in().document if release is None else release.document
    return document


def rollout_row(environment: str, *, now: datetime) -> dict[str, Any] | None:
    """The rollout that goes on, for other pages: the row, and what it is in words."""
    found = PolicyRollout.objects.running(environment).select_related("proposal").first()
    return None if found is None else {"rollout": found, "sentence": sentence_of(found, now)}


def sentence_of(found: PolicyRollout, now: datetime) -> str:
    """How far it is, in one sentence."""
    if found.state == PolicyRollout.PROMOTED:
        return f"Promoted by {found.ended_by}: {found.end_reason}"
    if found.state == PolicyRollout.ROLLED_BACK:
        return f"Rolled back by {found.ended_by}: {found.end_reason}"
    left_s = (found.ends_at - now).total_seconds()
    if left_s > 0:
        return f"Canary: {cohort_text(found)}, {span_text(math.ceil(left_s))} left, then the health gate decides."
    return f"Canary: {cohort_text(found)}. Its time is over; a healthy result of the gate promotes it."


def cohort_text(found: PolicyRollout) -> str:
    """`10 % of service research`: who obeys it."""
    parts = [f"service {found.service}"] if found.service != ANY else []
    parts += [f"group {found.group}"] if found.group != ANY else []
    of = " in ".join(parts) or "all instances"
    return f"{share_text(found.share)} of {of}" if found.share < 1 else f"all of {of}"


def figure_rows(figures: Mapping[str, Any]) -> list[FigureRow]:
    """The measures that the gate compares, side by side."""
    if not figures:
        return []
    cohort, other = figures["cohort"], figures["other"]
    rows = [FigureRow(word="Calls", cohort=f"{cohort['calls']:,}", other=f"{other['calls']:,}")]
    rows += [
        FigureRow(
            word=one.word.capitalize(),
            cohort=_counted(cohort, one.name),
            other=_counted(other, one.name),
        )
        for one in MEASURES
    ]
    rows.append(FigureRow(word="p95 of timed calls", cohort=_p95(cohort), other=_p95(other)))
    rows.append(
        FigureRow(
            word="Unreachable or rejecting instances",
            cohort=f"{cohort['silent'] + cohort['refused']} of {cohort['instances']}",
            other=f"{other['silent'] + other['refused']} of {other['instances']}",
        )
    )
    return rows


def _counted(side: Mapping[str, Any], name: str) -> str:
    if not side["calls"]:
        return "unknown"
    return f"{side['rates'][name] * 100:.1f} % ({count_text(side[name], 'time')})"


def _p95(side: Mapping[str, Any]) -> str:
    return "unknown" if side["p95_s"] is None else f"up to {side['p95_s']:g} s"

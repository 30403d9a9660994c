"""Resets that go in steps: which there were, how far one has come, who halted it, and deciding about it by hand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.pages.rendering import render_page
from events.wording import count_text, span_text
from recovery_ops.control.breakers.models.ramps import ResetRamp
from recovery_ops.control.breakers.ramp_progress import Seen, opinion_of, seen_of
from recovery_ops.control.breakers.services import ramps as ramps_services
from recovery_ops.control.breakers.views.actions import UNPROCESSABLE
from recovery_ops.control.breakers.views.ramp_wording import MARKS, line_of, names_of, sentence_of
from recovery_ops.control.core.environment import actor_of, visit_of
from recovery_ops.control.core.forms import ReasonForm, add_errors, new_key
from recovery_ops.control.core.jobs import put_into_tray
from recovery_ops.control.core.pagination import newest_of
from recovery_ops.control.core.reasons import needs_reason
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.rules.policy.scope import ANY

MOST = 50
MOST_SHOWN = 60
_ACTS = {"continue": ramps_services.go_on, "cancel": ramps_services.cancel}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLine:
    """One step: what it resets, when it did, and under which revision; None while it is to come."""

    number: int
    count: int
    mark: str
    word: str
    at: datetime | None = None
    revision: int | None = None
    by: str = ""


class Evidence(StrEnum):
    """What is known of a breaker since its reset: a code beside the words."""

    OPENED_AGAIN = "opened_again"
    UNREACHABLE = "unreachable"
    NOT_APPLIED = "not_applied"
    NOT_CLOSED = "not_closed"
    STAYS_CLOSED = "stays_closed"
    CLOSED_SO_FAR = "closed_so_far"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLine:
    """One breaker of one instance that was reset: desired closed, and what was observed."""

    seen: Seen
    state: str | None
    evidence: Evidence
    word: str
    is_culprit: bool


def ramps(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The newest resets of many."""
    page = newest_of(request, ResetRamp.objects.filter(environment=environment), MOST)
    found = page.rows
    context = {
        "page": page,
        "now": timezone.now(),
        "lines": [line_of(one) for one in found],
        "going_on": sum(one.is_running for one in found),
        "halted": sum(one.state == ResetRamp.HALTED for one in found),
    }
    return render_page(request, "breakers/ramps", context)


@require_http_methods(["GET", "POST"])
def ramp(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """How far a reset has come, or how it ended; POST `act` goes on with it or cancels it."""
    found = ResetRamp.objects.filter(environment=environment, number=number).first()
    if found is None:
        raise Http404(f"Reset {number} does not exist in {environment}.")
    if request.method == "GET":
        return _page(
            request,
            found,
            ReasonForm(
                initial={"seen": found.turn, "key": new_key()},
                is_reason_needed=needs_reason("ramp.continue", environment),
            ),
        )
    act = request.POST.get("act", "")
    if act not in _ACTS:
        raise Http404(f"Action {act} does not exist.")
    if not visit_of(request).grants.may("reset", environment, found.group):
        raise PermissionDenied(f"Your role does not allow `reset` in {environment}.")
    form = ReasonForm(request.POST, is_reason_needed=needs_reason(f"ramp.{act}", environment))
    if not form.is_valid():
        return _page(request, found, form, status=UNPROCESSABLE)
    try:
        done = _ACTS[act](
            by=actor_of(request),
            environment=environment,
            number=number,
            reason=form.cleaned_data["reason"],
            seen=form.cleaned_data["seen"],
            key=form.cleaned_data["key"] or None,
            now=timezone.now(),
        )
    except CommandRejected as rejection:
        if rejection.code == "forbidden":
            raise PermissionDenied(rejection.detail) from None
        add_errors(form, rejection.fields)
        found.refresh_from_db()
        return _page(request, found, form, status=rejection.status, problem=rejection.detail)
    put_into_tray(request.session, timezone.now())
    word = "continued" if act == "continue" else "cancelled"
    return redirect_with_notice(request, reverse("reset-ramp", args=[number]), f"Reset {done.object.number} {word}.")


def _page(
    request: HttpRequest, found: ResetRamp, form: ReasonForm, *, status: int = 200, problem: str = ""
) -> HttpResponse:
    now = timezone.now()
    seen = seen_of(found, now=now)
    said = found.said or "Not checked yet."
    if found.is_running:
        said = opinion_of(found, seen, now=now).sentence
    elif found.end_reason:
        said = found.end_reason
    lines = sorted((_member(one, found) for one in seen), key=_place)
    context = {
        "now": now,
        "ramp": found,
        "names": names_of(found.breakers),
        "links": [(name, reverse("breaker", args=[name])) for name in found.breakers[:MOST_SHOWN]],
        "sentence": sentence_of(found),
        "mark": MARKS[found.state],
        "said": said,
        "steps": list(_steps(found)),
        "lines": lines[:MOST_SHOWN],
        "more": max(0, len(lines) - MOST_SHOWN),
        "where": _where(found),
        "waits": f"{count_text(found.limits.least_calls, 'call')} or {span_text(found.limits.least_time_s)} closed",
        "patience": span_text(found.limits.patience_s),
        "form": form,
        "may_decide": visit_of(request).grants.may("reset", found.environment, found.group),
        "seen": found.turn if status == 409 or not form.is_bound else form["seen"].value(),
        "problem": problem,
    }
    return render_page(request, "breakers/ramp", context, status=status)


def _steps(found: ResetRamp) -> Iterable[StepLine]:
    before = 0
    for index, (count, _) in enumerate(found.plan):
        done: dict[str, Any] | None = found.steps[index] if index < len(found.steps) else None
        if done is None:
            word, mark = ("pending" if not found.is_over else "skipped"), "unknown"
        elif index == len(found.steps) - 1 and found.state in (ResetRamp.RUNNING, ResetRamp.HALTED):
            word, mark = ("halted here", "open") if found.state == ResetRamp.HALTED else ("waiting", "half_open")
        else:
            word, mark = "done", "closed"
        yield StepLine(
            number=index + 1,
            count=count - before,
            mark=mark,
            word=word,
            at=None if done is None else datetime.fromisoformat(done["at"]),
            revision=None if done is None else done["revision"],
            by="" if done is None else done["by"],
        )
        before = count


def _member(one: Seen, found: ResetRamp) -> MemberLine:
    member = one.member
    if member.opened_after_s is not None:
        evidence, word = Evidence.OPENED_AGAIN, f"reopened {span_text(member.opened_after_s)} after its reset"
    elif not member.is_reachable:
        evidence, word = Evidence.UNREACHABLE, "unreachable: resets when it reconnects"
    elif not member.has_applied:
        evidence, word = Evidence.NOT_APPLIED, "reset pending"
    elif not member.is_closed:
        evidence, word = Evidence.NOT_CLOSED, "not closed yet"
    elif member.stays_closed(found.limits):
        evidence, word = Evidence.STAYS_CLOSED, "stays closed"
    else:
        word = f"closed for {span_text(member.closed_for_s)}, {count_text(member.calls, 'call')}"
        evidence = Evidence.CLOSED_SO_FAR
    state = one.one.state.value if one.one.state is not None else None
    is_culprit = member.name in found.culprits
    return MemberLine(seen=one, state=state, evidence=evidence, word=word, is_culprit=is_culprit)


def _place(line: MemberLine) -> tuple[bool, bool, int, str]:
    """Who halts it first, then whom it waits for."""
    member = line.seen.member
    is_calm = line.evidence is Evidence.STAYS_CLOSED
    return not (line.is_culprit or member.opened_after_s is not None), is_calm, -line.seen.step, member.name


def _where(found: ResetRamp) -> str:
    parts = {part: getattr(found, part) for part in ("service", "group", "instance")}
    return ", ".join(f"{part} {name}" for part, name in parts.items() if name != ANY) or "all services"

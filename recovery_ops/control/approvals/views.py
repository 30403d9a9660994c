"""Pages of approval requests: the list, and one request with its decision."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.pages.rendering import render_page
from events.wording import count_text, span_text
from recovery_ops.control.approvals.services import agree, reject, review_glass
from recovery_ops.control.breakers.impact import impact_of
from recovery_ops.control.breakers.views.actions import UNPROCESSABLE, impact_words
from recovery_ops.control.core.approvals import requires_second_approver
from recovery_ops.control.core.commands import SIGN_IN_AGAIN
from recovery_ops.control.core.environment import actor_of, visit_of
from recovery_ops.control.core.forms import ReasonForm, add_errors, new_key
from recovery_ops.control.core.models.approval_requests import ApprovalRequest
from recovery_ops.control.core.pagination import newest_of
from recovery_ops.control.core.reasons import needs_reason
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.rules.policy.scope import Scope

MOST = 100
_ACTS = {"agree": agree, "reject": reject, "review": review_glass}
_MARKS = {
    ApprovalRequest.WAITING: "half_open",
    ApprovalRequest.GLASS: "open",
    ApprovalRequest.AGREED: "closed",
    ApprovalRequest.REVIEWED: "closed",
}
_WORDS = {
    ApprovalRequest.WAITING: "pending",
    ApprovalRequest.AGREED: "approved",
    ApprovalRequest.GLASS: "break-glass, review due",
    ApprovalRequest.REVIEWED: "break-glass, reviewed",
}
_TITLES = {
    "trip": "Trip",
    "disable": "Disable",
    "observe": "Observe",
    "extend": "Extend override of",
    "shed": "Start shedding of",
    "extend_shed": "Extend shedding of",
    "set_rules": "Change rules of",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One request as it is shown."""

    held: ApprovalRequest
    state: str
    word: str
    mark: str
    title: str


@require_http_methods(["GET"])
def held_acts(request: HttpRequest, *, environment: str) -> HttpResponse:
    """List of approval requests: waiting and unreviewed ones first, then the newest of the others."""
    now = timezone.now()
    page = newest_of(request, ApprovalRequest.objects.filter(environment=environment), MOST)
    lines = sorted(
        lines_of(page.rows, now), key=lambda line: line.state not in (ApprovalRequest.WAITING, ApprovalRequest.GLASS)
    )
    waiting = sum(line.state == ApprovalRequest.WAITING for line in lines)
    to_review = sum(line.state == ApprovalRequest.GLASS for line in lines)
    sentence = f"{count_text(waiting, 'request')} pending" if waiting else "No pending requests"
    if to_review:
        sentence += f", {count_text(to_review, 'break-glass change')} to review"
    context = {
        "now": now,
        "lines": lines,
        "page": page,
        "sentence": f"{sentence}.",
        "is_second_needed": requires_second_approver(environment),
    }
    return render_page(request, "approvals/held_acts", context)


@require_http_methods(["GET", "POST"])
def held_act(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """One approval request with its impact; POST `act` approves it, rejects it or marks it as reviewed."""
    found = ApprovalRequest.objects.filter(environment=environment, number=number).first()
    if found is None:
        raise Http404(f"{environment} has no approval request {number}.")
    if request.method == "GET":
        return _page(
            request,
            found,
            ReasonForm(
                initial={"seen": current_revision(environment), "key": new_key()},
                is_reason_needed=needs_reason("request.agree", environment),
            ),
        )
    act = request.POST.get("act", "")
    if act not in _ACTS:
        raise Http404(f"`{act}` is not an action; use one of {', '.join(_ACTS)}.")
    form = ReasonForm(request.POST, is_reason_needed=needs_reason(f"request.{act}", environment))
    if not form.is_valid():
        if not visit_of(request).grants.may("agree", environment):
            raise PermissionDenied(f"Your role lacks the permission to approve requests in {environment}.")
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
        if rejection.status == 403 and rejection.code not in (SIGN_IN_AGAIN, "own_work"):
            raise PermissionDenied(rejection.detail) from None
        add_errors(form, rejection.fields)
        found.refresh_from_db()
        return _page(request, found, form, status=rejection.status, problem=rejection.detail)
    word = "" if done.object.revision is None else f": revision {done.object.revision}"
    return redirect_with_notice(
        request, reverse("held-act", args=[number]), f"Request {number} is {_word(done.object.state)}{word}."
    )


def lines_of(found: Iterable[ApprovalRequest], now: datetime) -> list[Line]:
    """Requests as they are shown."""
    return [_line(one, now) for one in found]


def _line(one: ApprovalRequest, now: datetime) -> Line:
    state = one.state_at(now)
    title = f"{_TITLES.get(one.act, one.act)} {one.about}"
    return Line(held=one, state=state, word=_word(state), mark=_MARKS.get(state, "unknown"), title=title)


def _word(state: str) -> str:
    return _WORDS.get(state, state)


def _page(
    request: HttpRequest, found: ApprovalRequest, form: ReasonForm, *, status: int = 200, problem: str = ""
) -> HttpResponse:
    now = timezone.now()
    line = _line(found, now)
    is_own = found.identity == actor_of(request).identity
    revision = current_revision(found.environment)
    context = {
        "now": now,
        "line": line,
        "held": found,
        "terms": list(_terms(found)),
        "impact": _impact(found, now) if line.state == ApprovalRequest.WAITING else (),
        "is_own": is_own,
        "is_waiting": line.state == ApprovalRequest.WAITING,
        "is_to_review": line.state == ApprovalRequest.GLASS,
        "form": form,
        "seen": revision if status == 409 or not form.is_bound else form["seen"].value(),
        "problem": problem,
    }
    return render_page(request, "approvals/held_act", context, status=status)


def _impact(found: ApprovalRequest, now: datetime) -> list[tuple[str, str]]:
    if found.act == "set_rules":
        return []
    return impact_words(impact_of(found.environment, Scope(**found.arguments.get("scope", {})), now=now))


def _terms(found: ApprovalRequest) -> Iterable[tuple[str, str]]:
    """Arguments of the request as label and value."""
    said: dict[str, Any] = found.arguments
    if "expires_in_s" in said:
        yield "Duration", span_text(said["expires_in_s"])
    if said.get("starts_in_s"):
        yield "Starts in", span_text(said["starts_in_s"])
    if "least" in said:
        yield "Lowest priority that passes", str(said["least"]).replace("_", " ")
    if "override_id" in said:
        yield "Override", said["override_id"]
    for name, words in (("is_review_needed", "Policy approval"), ("is_second_needed", "Second approver")):
        if name in said:
            yield words, "required" if said[name] else "no longer required"
    if "is_production" in said:
        yield "Production", "yes" if said["is_production"] else "no longer"

"""Several breakers at once: one verb, one reason, what they touch together, and what came of each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, urlencode

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events import queries
from events.pages.rendering import render_page
from events.rows import BreakerRow
from recovery_ops.control.breakers.impact import Impact, impact_of_all
from recovery_ops.control.breakers.models.ramps import ResetRamp
from recovery_ops.control.breakers.services import bulk as actions
from recovery_ops.control.breakers.views.actions import ACTS, MOST_INSTEAD, UNPROCESSABLE, impact_words
from recovery_ops.control.breakers.views.breakers import ratio_of
from recovery_ops.control.core.actions import ACTIONS
from recovery_ops.control.core.approvals import requires_second_approver
from recovery_ops.control.core.commands import SIGN_IN_AGAIN, CommandContext
from recovery_ops.control.core.environment import actor_of, visit_of
from recovery_ops.control.core.forms import DEFAULT_EXPIRY_S, BulkForm, add_errors, new_key
from recovery_ops.control.core.jobs import put_into_tray
from recovery_ops.control.core.reasons import needs_reason
from recovery_ops.control.core.rejections import ApprovalPending, CommandRejected
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.rules.policy.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One breaker to choose; after the act, what came of it."""

    row: BreakerRow
    ratio: str
    is_chosen: bool
    outcome: str = ""
    result: str = ""
    """The outcome as a code: `done`, `already`, `in_steps`, `waiting` or `refused`."""
    state: str = ""
    """A state whose mark fits the outcome."""


@require_http_methods(["GET", "POST"])
def bulk(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Choose breakers and what to do with them; see what they touch together; then a result in each row.

    Nothing is done before the sum of exactly these breakers, in exactly this scope, was shown.
    """
    if not visit_of(request).grants.may_in_part("trip", environment):
        raise PermissionDenied(f"Your role does not allow `trip` in {environment}.")
    now = timezone.now()
    rows = queries.breakers(environment, now=now)
    names = [row.name for row in rows]
    given = request.POST if request.method == "POST" else request.GET
    verb, count = given.get("verb", "trip"), len(set(given.getlist("name")))
    is_reason_needed = f"breaker.{verb}" in ACTIONS and needs_reason(f"breaker.{verb}", environment, objects=count)
    if request.method == "GET":
        initial = {
            "seen": current_revision(environment),
            "key": new_key(),
            "scope": "all",
            "verb": verb,
            "expires_in_s": DEFAULT_EXPIRY_S,
            "name": [name for name in request.GET.getlist("name") if name in names],
        }
        form = BulkForm(names=names, environment=environment, initial=initial, is_reason_needed=is_reason_needed)
        return _page(request, environment, form, rows)
    form = BulkForm(request.POST, names=names, environment=environment, is_reason_needed=is_reason_needed)
    if not form.is_valid():
        return _page(request, environment, form, rows, status=UNPROCESSABLE)
    said = form.cleaned_data
    if request.POST.get("weighed") != _weight(said["name"], form.where()):
        return _page(request, environment, form, rows)
    try:
        results = _carried_out(request, environment, form)
    except CommandRejected as rejection:
        add_errors(form, rejection.fields)
        if rejection.code == SIGN_IN_AGAIN:
            form.add_error("reason", rejection.detail)
        return _page(request, environment, form, rows, status=rejection.status)
    put_into_tray(request.session, now)
    return _page(request, environment, form, rows, results=results)


def _carried_out(request: HttpRequest, environment: str, form: BulkForm) -> list[actions.Result]:
    said, now = form.cleaned_data, timezone.now()
    asked = CommandContext(
        by=actor_of(request),
        environment=environment,
        reason=said["reason"],
        seen=said["seen"],
        key=said["key"] or None,
        break_glass=said["break_glass"],
        now=now,
    )
    more: dict[str, Any] = {
        "starts_in_s": form.starts_in_s(now),
        "confirm": said.get("confirm", ""),
        "break_glass": said["break_glass"],
        "ahead": said["ahead"],
    }
    if said["expires_in_s"]:
        more["expires_in_s"] = float(said["expires_in_s"])
    return actions.each(said["verb"], said["name"], asked, where=form.where(), **more)


def _weight(names: Iterable[str], where: Mapping[str, str]) -> str:
    """A word for a choice of breakers and a scope, by which it is known whether their sum was shown."""
    return sha256(json.dumps([sorted(names), sorted(where.items())]).encode()).hexdigest()[:16]


def _page(
    request: HttpRequest,
    environment: str,
    form: BulkForm,
    rows: Sequence[BreakerRow],
    *,
    results: Sequence[actions.Result] = (),
    status: int = 200,
) -> HttpResponse:
    told = {one.name: one for one in results}
    chosen = [row.name for row in rows if row.name in set(form["name"].value() or ())]
    where = form.where() if form.is_bound and form.is_valid() else {}
    verb = str(form["verb"].value())
    # What was asked is over by now: what it touches is said before.
    is_weighed = bool(chosen) and status == 200 and not results
    impact = _impact(environment, chosen, where) if is_weighed else None
    agents = queries.fleet(environment, now=timezone.now())
    waiting = sum(isinstance(one.rejection, ApprovalPending) for one in results)
    refused = sum(one.rejection is not None for one in results) - waiting
    context = {
        "now": timezone.now(),
        "form": form,
        "lines": [_line(row, told.get(row.name), is_chosen=row.name in chosen) for row in rows],
        "is_done": bool(results),
        "chosen": len(chosen),
        "weighed": _weight(chosen, where) if impact is not None else "",
        "impact": None if impact is None else impact_words(impact),
        "lead": ACTS[verb].consequence(impact) if impact is not None and verb in ACTS else "",
        "instead": impact.operations[:MOST_INSTEAD] if impact is not None and verb == "trip" else (),
        "more_instead": len(impact.operations) - MOST_INSTEAD if impact is not None and verb == "trip" else 0,
        "done_words": f"{len(results) - refused - waiting} of {len(results)} done"
        + (f", {waiting} waiting for approval" if waiting else "")
        + (f", {refused} rejected" if refused else ""),
        "services": sorted({one.service for one in agents}),
        "groups": sorted({one.group for one in agents} - {""}),
        "instances": sorted({one.instance for one in agents}),
        "back": _back(request, chosen),
        "came_from": _came_from(request),
        "is_second_needed": requires_second_approver(environment),
        "ramp": next((one for one in map(_object_of, results) if isinstance(one, ResetRamp)), None),
    }
    return render_page(request, "breakers/bulk", context, status=status)


def _came_from(request: HttpRequest) -> str:
    """The list as it was narrowed, where the form names it; else the whole list."""
    given, home = (request.POST or request.GET).get("back", ""), reverse("breakers")
    return given if given.startswith(f"{home}?") else home


def _back(request: HttpRequest, names: Iterable[str]) -> str:
    """The list that one came from, with these chosen."""
    path, _, query = _came_from(request).partition("?")
    kept = [(name, value) for name, value in parse_qsl(query) if name != "chosen"]
    asked = urlencode([*kept, *(("chosen", name) for name in names)])
    return f"{path}?{asked}" if asked else path


def _impact(environment: str, names: Iterable[str], where: Mapping[str, str]) -> Impact:
    scopes = [Scope(operation=name, **where) for name in names]
    return impact_of_all(environment, scopes, now=timezone.now())


def _object_of(result: actions.Result) -> object:
    return None if result.done is None else result.done.object


def _line(row: BreakerRow, result: actions.Result | None, *, is_chosen: bool) -> Line:
    outcome, code, state = "", "", ""
    if result is not None and result.done is not None:
        outcome = "unchanged" if result.done.was_already else f"done: revision {result.done.revision}"
        code, state = "already" if result.done.was_already else "done", "closed"
        if isinstance(result.done.object, ResetRamp):
            outcome = f"part of reset {result.done.object.number}"
            code, state = "in_steps", "half_open"
    elif result is not None and isinstance(result.rejection, ApprovalPending):
        outcome = f"waits for approval: request {result.rejection.request.number}"
        code, state = "waiting", "half_open"
    elif result is not None and result.rejection is not None:
        outcome, code, state = f"rejected: {result.rejection.detail}", "refused", "open"
    return Line(row=row, ratio=ratio_of(row), is_chosen=is_chosen, outcome=outcome, result=code, state=state)

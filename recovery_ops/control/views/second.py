"""What waits for a second person, what became of it, and what went without one; and saying yes or no to it."""

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

from events.pages import render_page
from events.wording import count_text, span_text
from recovery_ops.control.actions import Refused
from recovery_ops.control.actions.attempt import SIGN_IN_AGAIN
from recovery_ops.control.actions.holding import is_second_needed
from recovery_ops.control.actions.second import agree, reject, review_glass
from recovery_ops.control.context import actor_of, visit_of
from recovery_ops.control.desired import current_revision
from recovery_ops.control.forms import ReasonForm, new_key, problems_of
from recovery_ops.control.impact import impact_of
from recovery_ops.control.models import HeldAct
from recovery_ops.control.views.acts import UNPROCESSABLE, impact_words
from recovery_ops.control.views.answers import changed
from recovery_ops.control.views.paging import newest_of
from recovery_ops.rules.scope import Scope

MOST = 100
_ACTS = {"agree": agree, "reject": reject, "review": review_glass}
_MARKS = {
    HeldAct.WAITING: "half_open",
    HeldAct.GLASS: "open",
    HeldAct.AGREED: "closed",
    HeldAct.REVIEWED: "closed",
}
_WORDS = {HeldAct.GLASS: "done alone, to be reviewed", HeldAct.REVIEWED: "done alone, reviewed"}
_TITLES = {
    "trip": "Trip",
    "disable": "Disable",
    "observe": "Only observe",
    "extend": "Extend the override of",
    "shed": "Shed",
    "extend_shed": "Go on shedding",
    "set_rules": "Ask for less in",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One request as it is shown."""

    held: HeldAct
    state: str
    word: str
    mark: str
    title: str


@require_http_methods(["GET"])
def held_acts(request: HttpRequest, *, environment: str) -> HttpResponse:
    """What waits first, then what has to be reviewed, then the newest of the others."""
    now = timezone.now()
    page = newest_of(request, HeldAct.objects.filter(environment=environment), MOST)
    lines = sorted(lines_of(page.rows, now), key=lambda line: line.state not in (HeldAct.WAITING, HeldAct.GLASS))
    waiting = sum(line.state == HeldAct.WAITING for line in lines)
    to_review = sum(line.state == HeldAct.GLASS for line in lines)
    sentence = f"{count_text(waiting, 'request')} waiting" if waiting else "Nothing waits"
    if to_review:
        sentence += f", {to_review} done alone and not reviewed yet"
    context = {
        "now": now,
        "lines": lines,
        "page": page,
        "sentence": f"{sentence}.",
        "is_second_needed": is_second_needed(environment),
    }
    return render_page(request, "control/held_acts", context)


@require_http_methods(["GET", "POST"])
def held_act(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """What was asked for and what it would hit; POST `act` agrees to it, rejects it, or has looked at it."""
    found = HeldAct.objects.filter(environment=environment, number=number).first()
    if found is None:
        raise Http404(f"There is no request {number} in {environment}.")
    if request.method == "GET":
        return _page(request, found, ReasonForm(initial={"seen": current_revision(environment), "key": new_key()}))
    act = request.POST.get("act", "")
    if act not in _ACTS:
        raise Http404(f"Nothing is called {act}.")
    form = ReasonForm(request.POST)
    if not form.is_valid():
        if not visit_of(request).grants.may("agree", environment):
            raise PermissionDenied(f"Your role does not let you agree to requests in {environment}.")
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
    except Refused as refusal:
        if refusal.status == 403 and refusal.code not in (SIGN_IN_AGAIN, "own_work"):
            raise PermissionDenied(refusal.detail) from None
        problems_of(form, refusal.fields)
        found.refresh_from_db()
        return _page(request, found, form, status=refusal.status, problem=refusal.detail)
    word = "" if done.object.revision is None else f": revision {done.object.revision}"
    return changed(
        request, reverse("held-act", args=[number]), f"Request {number} is {_word(done.object.state)}{word}."
    )


def lines_of(found: Iterable[HeldAct], now: datetime) -> list[Line]:
    """Requests as they are shown."""
    return [_line(one, now) for one in found]


def _line(one: HeldAct, now: datetime) -> Line:
    state = one.state_at(now)
    title = f"{_TITLES.get(one.act, one.act)} {one.about}"
    return Line(held=one, state=state, word=_word(state), mark=_MARKS.get(state, "unknown"), title=title)


def _word(state: str) -> str:
    return _WORDS.get(state, state)


def _page(
    request: HttpRequest, found: HeldAct, form: ReasonForm, *, status: int = 200, problem: str = ""
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
        "impact": _impact(found, now) if line.state == HeldAct.WAITING else (),
        "is_own": is_own,
        "is_waiting": line.state == HeldAct.WAITING,
        "is_to_review": line.state == HeldAct.GLASS,
        "form": form,
        "seen": revision if status == 409 or not form.is_bound else form["seen"].value(),
        "problem": problem,
    }
    return render_page(request, "control/held_act", context, status=status)


def _impact(found: HeldAct, now: datetime) -> list[tuple[str, str]]:
    if found.act == "set_rules":
        return []
    return impact_words(impact_of(found.environment, Scope(**found.arguments.get("scope", {})), now=now))


def _terms(found: HeldAct) -> Iterable[tuple[str, str]]:
    """What was asked for, as far as it is for people."""
    said: dict[str, Any] = found.arguments
    if "expires_in_s" in said:
        yield "Ends after", span_text(said["expires_in_s"])
    if said.get("starts_in_s"):
        yield "Begins after", span_text(said["starts_in_s"])
    if "least" in said:
        yield "Least that passes", str(said["least"]).replace("_", " ")
    if "override_id" in said:
        yield "Override", said["override_id"]
    for name, words in (("is_review_needed", "Approval of policies"), ("is_second_needed", "Two persons")):
        if name in said:
            yield words, "asked for" if said[name] else "no longer asked for"

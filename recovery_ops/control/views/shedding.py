"""Shedding load: what would fail fast, said before the click, for a whole environment, and until when."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events import queries
from events.models import MinuteSum
from events.pages import render_page
from events.wording import clock_text, rate_text, zone_word
from recovery_ops.control.actions import Done, Refused
from recovery_ops.control.actions.attempt import SIGN_IN_AGAIN
from recovery_ops.control.actions.shedding import extend_shed, let_pass, shed
from recovery_ops.control.context import asked_by, visit_of
from recovery_ops.control.desired_standing import Standing
from recovery_ops.control.forms import DEFAULT_EXPIRY_S, ShedForm, new_key, problems_of
from recovery_ops.control.impact import MEASURED_MINUTES
from recovery_ops.control.models import LoadShed
from recovery_ops.control.refusals import Held
from recovery_ops.control.sign_in.sessions import sign_in_again
from recovery_ops.control.views.acts import UNPROCESSABLE
from recovery_ops.control.views.answers import called_off, changed, waits
from recovery_ops.rules.importance import importance_of, is_shed
from recovery_ops.rules.intent import Shed
from recovery_ops.rules.scope import Place

_LEAST_OFFERED = "critical"


@require_http_methods(["GET", "POST"])
def shedding(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Who passes now and until when, and a form that changes it."""
    if not visit_of(request).grants.may("shed", environment):
        raise PermissionDenied(f"Your role does not let you shed load in {environment}.")
    now = timezone.now()
    standing = Standing(environment, now=now)
    held = standing.shed
    ahead = [_coming(one, now) for one in standing.sheds_ahead]
    offered: dict[str, Any] = {
        "is_shedding": held is not None,
        "ahead": [(one["one"].id, f"{one['when']} {zone_word(one['begins'])}") for one in ahead],
    }
    if request.method == "GET":
        # Where something can be ended the page opens for everybody: that asks for no fresh sign-in.
        if held is None and not ahead and (again := sign_in_again(request)):
            return again
        initial = {
            "seen": standing.revision,
            "key": new_key(),
            "act": _LEAST_OFFERED if held is None and not ahead else "pass" if held else f"pass:{ahead[0]['one'].id}",
            "expires_in_s": DEFAULT_EXPIRY_S,
        }
        return _page(
            request,
            standing,
            ShedForm(environment=environment, **offered, initial=initial),
        )
    form = ShedForm(request.POST, environment=environment, **offered)
    if not form.is_valid():
        return _page(request, standing, form, status=UNPROCESSABLE)
    try:
        done = _done(request, environment, form, now)
    except Held as held_back:
        return waits(request, held_back)
    except Refused as refusal:
        if refusal.status == 403 and refusal.code != SIGN_IN_AGAIN:
            raise PermissionDenied(refusal.detail) from None
        unplaced = problems_of(form, refusal.fields)
        problem = refusal.detail if refusal.status == 409 or unplaced or not refusal.fields else ""
        return _page(request, Standing(environment, now=now), form, status=refusal.status, problem=problem)
    return changed(request, reverse("shed"), f"{words_of(done)} Agents shows who obeys.{called_off(done, now)}")


def words_of(done: Done[LoadShed]) -> str:
    """What was done, and until when it holds."""
    one = done.object
    how = " already." if done.was_already else f": revision {done.revision}."
    now = timezone.now()
    if one.ended_at is not None and one.starts_at > one.ended_at:
        return f"None is to be shed from {clock_text(one.starts_at, today=now)} {zone_word(one.starts_at)} on{how}"
    if one.ended_at is not None:
        return f"Everything is to pass again{how}"
    begins = f"from {clock_text(one.starts_at, today=now)} " if one.starts_at > now else ""
    ends = clock_text(one.expires_at, today=now)
    return f"Load is to be shed {begins}until {ends} {zone_word(one.expires_at)}{how}"


def _done(request: HttpRequest, environment: str, form: ShedForm, now: datetime) -> Done[LoadShed]:
    said = form.cleaned_data
    asked = asked_by(request, environment, said, now) | {"seen": said["seen"]}
    act, _, shed_id = said["act"].partition(":")
    if act == "pass":
        return let_pass(**asked, shed_id=shed_id)
    asked["break_glass"] = said["break_glass"]
    carry_out: Callable[..., Done[LoadShed]] = extend_shed
    if said["act"] != "extend":
        asked |= {"least": said["act"], "confirm": said["confirm"], "starts_in_s": form.starts_in_s(now)}
        carry_out = shed
    return carry_out(**asked, expires_in_s=float(said["expires_in_s"]))


def _page(
    request: HttpRequest, standing: Standing, form: ShedForm, *, status: int = 200, problem: str = ""
) -> HttpResponse:
    policy = standing.policy.for_operation(Place(service="", instance="", operation=""))
    held = standing.shed
    agents = queries.fleet(standing.environment, now=standing.now)
    by_policy = policy.knobs.least_importance
    context = {
        "now": standing.now,
        "form": form,
        "held": held,
        "ahead": [_coming(one, standing.now) for one in standing.sheds_ahead],
        "began": None if held is None else datetime.fromtimestamp(held.starts_at, UTC),
        "ends": None if held is None else datetime.fromtimestamp(held.expires_at, UTC),
        "least": "" if held is None else held.least.replace("_", " "),
        "by_policy": "" if by_policy in (None, "sheddable") else str(by_policy).replace("_", " "),
        "impact": impact_words(
            standing,
            agents_reachable=sum(one.is_reachable for one in agents),
            runs=sum(one.runs_in_flight for one in agents if one.is_reachable),
        ),
        "sources": _sources(standing, held.least if held is not None else _LEAST_OFFERED),
        "back": reverse("breakers"),
        "problem": problem,
        "is_second_needed": standing.is_second_needed,
        "seen": standing.revision if status == 409 else form["seen"].value(),
    }
    return render_page(request, "control/shed", context, status=status)


def _coming(ahead: Shed, now: datetime) -> dict[str, Any]:
    """What is to be shed later, for the page."""
    begins, ends = (datetime.fromtimestamp(at, UTC) for at in (ahead.starts_at, ahead.expires_at))
    when = f"from {clock_text(begins, today=now)} to {clock_text(ends, today=now)}"
    return {"one": ahead, "begins": begins, "ends": ends, "least": ahead.least.replace("_", " "), "when": when}


def sentence_of(held: Shed, *, now: datetime) -> str:
    """What is shed, by whom, until when and why, for the pages that only tell of it."""
    ends_at = datetime.fromtimestamp(held.expires_at, UTC)
    return (
        f"What is less important than {held.least.replace('_', ' ')} fails at once until "
        f"{clock_text(ends_at, today=now)} {zone_word(ends_at)}. "
        f"{held.by}: {held.reason}"
    )


def impact_words(standing: Standing, *, agents_reachable: int, runs: int) -> list[tuple[str, str]]:
    """What shedding all that nobody waits for would touch, as pairs of a word and a number."""
    found = _sources(standing, _LEAST_OFFERED)
    total = sum(rate for _, rate, _ in found)
    shed_now = sum(rate for _, rate, would in found if would)
    return [
        ("instances", str(agents_reachable)),
        ("runs in flight", str(runs)),
        ("calls per minute", rate_text(total)),
        ("of them would fail fast", rate_text(shed_now)),
    ]


def _sources(standing: Standing, least: str) -> list[tuple[str, float, bool]]:
    """Each source that called lately: its calls per minute, and whether it would be shed."""
    policy = standing.policy.for_operation(Place(service="", instance="", operation=""))

    def would(source: str) -> bool:
        return is_shed(importance_of(policy.importance, source, is_foreground=policy.is_foreground(source)), least)

    return [(source or "not said", rate, would(source)) for source, rate in _rates(standing.environment, standing.now)]


def _rates(environment: str, now: datetime) -> list[tuple[str, float]]:
    last = int(now.timestamp()) // 60
    counted: Any = MinuteSum.objects.filter(
        environment=environment, minute__gt=last - MEASURED_MINUTES, minute__lte=last
    )
    rows = counted.values("source").annotate(all_calls=Sum("calls")).order_by("-all_calls")
    return [(row["source"], row["all_calls"] / MEASURED_MINUTES) for row in rows if row["all_calls"]]

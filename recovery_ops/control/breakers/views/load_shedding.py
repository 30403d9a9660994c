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
from events.pages.rendering import render_page
from events.wording import clock_text, rate_text, zone_word
from recovery_ops.control.access.sign_in.sessions import sign_in_again
from recovery_ops.control.breakers.models.load_shedding import LoadShed
from recovery_ops.control.breakers.services.load_shedding import extend_shed, let_pass, shed
from recovery_ops.control.breakers.views.actions import UNPROCESSABLE
from recovery_ops.control.core.commands import SIGN_IN_AGAIN, CommandResult
from recovery_ops.control.core.environment import form_command_context, visit_of
from recovery_ops.control.core.forms import DEFAULT_EXPIRY_S, ShedForm, add_errors, new_key
from recovery_ops.control.core.reasons import needs_reason
from recovery_ops.control.core.rejections import ApprovalPending, CommandRejected
from recovery_ops.control.core.responses import cancelled_notice, redirect_to_request, redirect_with_notice
from recovery_ops.control.core.undo import Undo, has_replaced, undo
from recovery_ops.control.desired_state.status import Standing
from recovery_ops.rules.desired_state import Shed
from recovery_ops.rules.policy.load_shedding import importance_of, is_shed
from recovery_ops.rules.policy.scope import Place

_LEAST_OFFERED = "critical"
_MEASURED_MINUTES = 5


@require_http_methods(["GET", "POST"])
def shedding(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Who passes now and until when, and a form that changes it."""
    if not visit_of(request).grants.may("shed", environment):
        raise PermissionDenied(f"Your role does not allow `shed` in {environment}.")
    now = timezone.now()
    standing = Standing(environment, now=now)
    current = standing.shed
    ahead = [_coming(one, now) for one in standing.sheds_ahead]
    offered: dict[str, Any] = {
        "is_shedding": current is not None,
        "ahead": [(one["one"].id, f"{one['when']} {zone_word(one['begins'])}") for one in ahead],
    }
    if request.method == "GET":
        # Where something can be ended the page opens for everybody: that asks for no fresh sign-in.
        if current is None and not ahead and (again := sign_in_again(request)):
            return again
        initial = {
            "seen": standing.revision,
            "key": new_key(),
            "act": _LEAST_OFFERED
            if current is None and not ahead
            else "pass"
            if current
            else f"pass:{ahead[0]['one'].id}",
            "expires_in_s": DEFAULT_EXPIRY_S,
        }
        return _page(
            request,
            standing,
            _form(environment, str(initial["act"]), offered, initial=initial),
        )
    form = _form(environment, request.POST.get("act", ""), offered, request.POST)
    if not form.is_valid():
        return _page(request, standing, form, status=UNPROCESSABLE)
    try:
        done = _done(request, environment, form, now)
    except ApprovalPending as held_back:
        return redirect_to_request(request, held_back)
    except CommandRejected as rejection:
        if rejection.status == 403 and rejection.code != SIGN_IN_AGAIN:
            raise PermissionDenied(rejection.detail) from None
        unplaced = add_errors(form, rejection.fields)
        problem = rejection.detail if rejection.status == 409 or unplaced or not rejection.fields else ""
        return _page(request, Standing(environment, now=now), form, status=rejection.status, problem=problem)
    notice = f"{words_of(done)}{cancelled_notice(done, now)}"
    return redirect_with_notice(request, reverse("shed"), notice, undo=_undo(form, done, environment))


def _form(environment: str, act: str, offered: dict[str, Any], given: Any = None, **kwargs: Any) -> ShedForm:
    verb = {"pass": "load.pass", "extend": "load.extend"}.get(act.partition(":")[0], "load.shed")
    needed = needs_reason(verb, environment)
    return ShedForm(given, environment=environment, is_reason_needed=needed, **offered, **kwargs)


def _undo(form: ShedForm, done: CommandResult[LoadShed], environment: str) -> Undo | None:
    """Stopping what was just started, unless it took the place of something else."""
    is_new = form.cleaned_data["act"] in dict(ShedForm.SHED) and not done.was_already and not done.cancelled
    if not is_new or has_replaced(environment, done.revision):
        return None
    is_ahead = done.object.starts_at > timezone.now()
    return undo(reverse("shed"), environment, act=f"pass:{done.object.pk}" if is_ahead else "pass")


def words_of(done: CommandResult[LoadShed]) -> str:
    """What was done, and until when it holds."""
    one = done.object
    how = " already." if done.was_already else f": revision {done.revision}."
    now = timezone.now()
    if one.ended_at is not None and one.starts_at > one.ended_at:
        return f"Cancelled load shedding from {clock_text(one.starts_at, today=now)} {zone_word(one.starts_at)}{how}"
    if one.ended_at is not None:
        return f"Stopped load shedding{how}"
    begins = f"Scheduled load shedding from {clock_text(one.starts_at, today=now)}" if one.starts_at > now else ""
    ends = clock_text(one.expires_at, today=now)
    return f"{begins or 'Started load shedding'} until {ends} {zone_word(one.expires_at)}{how}"


def _done(request: HttpRequest, environment: str, form: ShedForm, now: datetime) -> CommandResult[LoadShed]:
    said = form.cleaned_data
    asked = form_command_context(request, environment, said, now) | {"seen": said["seen"]}
    act, _, shed_id = said["act"].partition(":")
    if act == "pass":
        return let_pass(**asked, shed_id=shed_id)
    asked["break_glass"] = said["break_glass"]
    carry_out: Callable[..., CommandResult[LoadShed]] = extend_shed
    if said["act"] != "extend":
        asked |= {"least": said["act"], "confirm": said["confirm"], "starts_in_s": form.starts_in_s(now)}
        carry_out = shed
    return carry_out(**asked, expires_in_s=float(said["expires_in_s"]))


def _page(
    request: HttpRequest, standing: Standing, form: ShedForm, *, status: int = 200, problem: str = ""
) -> HttpResponse:
    policy = standing.policy.for_operation(Place(service="", instance="", operation=""))
    current = standing.shed
    agents = queries.fleet(standing.environment, now=standing.now)
    by_policy = policy.settings.least_importance
    context = {
        "now": standing.now,
        "form": form,
        "held": current,
        "ahead": [_coming(one, standing.now) for one in standing.sheds_ahead],
        "began": None if current is None else datetime.fromtimestamp(current.starts_at, UTC),
        "ends": None if current is None else datetime.fromtimestamp(current.expires_at, UTC),
        "least": "" if current is None else current.least.replace("_", " "),
        "by_policy": "" if by_policy in (None, "sheddable") else str(by_policy).replace("_", " "),
        "impact": impact_words(
            standing,
            agents_reachable=sum(one.is_reachable for one in agents),
            runs=sum(one.runs_in_flight for one in agents if one.is_reachable),
        ),
        "sources": _sources(standing, current.least if current is not None else _LEAST_OFFERED),
        "back": reverse("breakers"),
        "problem": problem,
        "is_second_needed": standing.is_second_needed,
        "seen": standing.revision if status == 409 else form["seen"].value(),
    }
    return render_page(request, "breakers/shed", context, status=status)


def _coming(ahead: Shed, now: datetime) -> dict[str, Any]:
    """What is to be shed later, for the page."""
    begins, ends = (datetime.fromtimestamp(at, UTC) for at in (ahead.starts_at, ahead.expires_at))
    when = f"from {clock_text(begins, today=now)} to {clock_text(ends, today=now)}"
    return {"one": ahead, "begins": begins, "ends": ends, "least": ahead.least.replace("_", " "), "when": when}


def sentence_of(current: Shed, *, now: datetime) -> str:
    """What is shed, by whom, until when and why, for the pages that only tell of it."""
    ends_at = datetime.fromtimestamp(current.expires_at, UTC)
    return (
        f"Calls less important than {current.least.replace('_', ' ')} are rejected until "
        f"{clock_text(ends_at, today=now)} {zone_word(ends_at)}. "
        f"{current.by}: {current.reason}"
    )


def impact_words(standing: Standing, *, agents_reachable: int, runs: int) -> list[tuple[str, str]]:
    """What shedding all that nobody waits for would touch, as pairs of a word and a number."""
    found = _sources(standing, _LEAST_OFFERED)
    total = sum(rate for _, rate, _ in found)
    shed_now = sum(rate for _, rate, would in found if would)
    return [
        ("instances", str(agents_reachable)),
        ("runs in flight", str(runs)),
        ("calls/min", rate_text(total)),
        ("of them shed", rate_text(shed_now)),
    ]


def _sources(standing: Standing, least: str) -> list[tuple[str, float, bool]]:
    """Each source that called lately: its calls per minute, and whether it would be shed."""
    policy = standing.policy.for_operation(Place(service="", instance="", operation=""))

    def would(source: str) -> bool:
        return is_shed(importance_of(policy.importance, source, is_foreground=policy.is_foreground(source)), least)

    return [(source or "no source", rate, would(source)) for source, rate in _rates(standing.environment, standing.now)]


def _rates(environment: str, now: datetime) -> list[tuple[str, float]]:
    last = int(now.timestamp()) // 60
    counted: Any = MinuteSum.objects.filter(
        environment=environment, minute__gt=last - _MEASURED_MINUTES, minute__lte=last
    )
    rows = counted.values("source").annotate(all_calls=Sum("calls")).order_by("-all_calls")
    return [(row["source"], row["all_calls"] / _MEASURED_MINUTES) for row in rows if row["all_calls"]]

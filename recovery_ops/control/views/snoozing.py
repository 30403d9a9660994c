"""Holding back the notices of one provider for a time, and lifting that: from Capacity, the overview, the settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods

from events.wording import clock_text, count_text, zone_word
from recovery_ops.control.actions.snoozing import PERMISSION, lift, providers_known
from recovery_ops.control.actions.snoozing import snooze as hold_back
from recovery_ops.control.context import actor_of
from recovery_ops.control.models import NoticeSnooze
from recovery_ops.control.notification_forms import ReasonOnlyForm, SnoozeForm
from recovery_ops.control.notify.snoozing import counts_held
from recovery_ops.control.views.settings import Asking, answer, require

HERE = "notifications"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnoozeLine:
    """One snooze in force, and of how many things it holds notices back."""

    one: NoticeSnooze
    held: int


def snooze_lines(environment: str, now: datetime) -> Sequence[SnoozeLine]:
    """Those in force. One query, and another where there is one."""
    found = list(NoticeSnooze.objects.in_force(environment, now))
    held = counts_held(found)
    return [SnoozeLine(one=one, held=held.get(one.pk, 0)) for one in found]


@require_http_methods(["GET", "POST"])
def snooze(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Ask for how long, and why; `provider` and `back` of the address say of whom, and from where one came."""
    require(request, PERMISSION, environment)
    known = providers_known(environment, timezone.now())
    chosen = request.GET.get("provider", "")

    def form(*args: object, **kwargs: dict[str, object]) -> SnoozeForm:
        kwargs["initial"] = {"provider": chosen, **kwargs.get("initial", {})}
        return SnoozeForm(*args, providers=known, **kwargs)

    asking = Asking(
        title=f"Snooze notices of {chosen}" if chosen else "Snooze notices of a provider",
        lead="Until then no rule tells of its trouble. The end of what was told is told all the same, and so is what "
        "waits for a person: escalations, their deadlines, overrides about to end. What is held back is counted, and "
        "told with its names when the snooze is over.",
        button="Snooze",
        here=HERE,
        back=_back(request),
        form=form,
        carry_out=lambda typed: hold_back(
            by=actor_of(request),
            environment=environment,
            reason=typed["reason"],
            key=typed["key"] or None,
            provider=typed["provider"],
            expires_in_s=float(typed["expires_in_s"]),
        ),
        told=lambda done: _until(done.object),
    )
    return answer(request, asking)


@require_http_methods(["GET", "POST"])
def lift_snooze(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """Let its notices through again; what was held back is told at once."""
    require(request, PERMISSION, environment)
    one = NoticeSnooze.objects.filter(environment=environment, pk=number).first()
    if one is None:
        raise Http404(f"There is no snooze {number} of notices in {environment}.")
    held = counts_held([one]).get(one.pk, 0)
    asking = Asking(
        title=f"Lift the snooze of {one.provider}",
        lead=f"Notices of {one.provider} are told again. {count_text(held, 'thing was', 'things were')} held back so "
        "far, and that is told at once.",
        button="Lift",
        here=HERE,
        back=_back(request),
        form=ReasonOnlyForm,
        carry_out=lambda typed: lift(
            by=actor_of(request),
            environment=environment,
            reason=typed["reason"],
            key=typed["key"] or None,
            number=number,
        ),
        told=lambda done: f"Notices of {one.provider} are told again.",
    )
    return answer(request, asking)


def _until(one: NoticeSnooze) -> str:
    until = f"{clock_text(one.expires_at, today=timezone.now())} {zone_word(one.expires_at)}"
    return f"Notices of {one.provider} are snoozed until {until}."


def _back(request: HttpRequest) -> str:
    given = request.GET.get("back", "")
    is_ours = given.startswith("/") and url_has_allowed_host_and_scheme(given, allowed_hosts=None)
    return given if is_ours else reverse(HERE)

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
from recovery_ops.control.core.environment import actor_of
from recovery_ops.control.core.views.settings import SettingsFormView, answer, require
from recovery_ops.control.notifications.forms import ReasonOnlyForm, SnoozeForm
from recovery_ops.control.notifications.models.mutes import NoticeSnooze
from recovery_ops.control.notifications.muting import counts_held
from recovery_ops.control.notifications.services.muting import PERMISSION, lift, providers_known
from recovery_ops.control.notifications.services.muting import snooze as hold_back

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

    asking = SettingsFormView(
        title=f"Mute {chosen}" if chosen else "Mute provider",
        lead="Rules hold the messages of the provider until then and send a summary afterwards. Escalations, deadlines "
        "and expiring overrides are not muted.",
        button="Mute provider",
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
        raise Http404(f"Mute {number} does not exist in {environment}.")
    held = counts_held([one]).get(one.pk, 0)
    asking = SettingsFormView(
        title=f"Unmute {one.provider}",
        lead=f"{count_text(held, 'held message')} will be sent at once.",
        button="Unmute",
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
        told=lambda done: f"{one.provider} unmuted.",
    )
    return answer(request, asking)


def _until(one: NoticeSnooze) -> str:
    until = f"{clock_text(one.expires_at, today=timezone.now())} {zone_word(one.expires_at)}"
    return f"{one.provider} muted until {until}."


def _back(request: HttpRequest) -> str:
    given = request.GET.get("back", "")
    is_ours = given.startswith("/") and url_has_allowed_host_and_scheme(given, allowed_hosts=None)
    return given if is_ours else reverse(HERE)

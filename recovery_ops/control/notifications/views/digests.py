"""Settings → Notifications: the digest of a channel, when it is told, and what it would say now."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.wording import clock_text, zone_word
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.environment import actor_of
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.views.settings import SettingsFormView, answer, require
from recovery_ops.control.notifications.digests import next_at, what_is_down
from recovery_ops.control.notifications.forms import DigestForm
from recovery_ops.control.notifications.models.digests import Digest
from recovery_ops.control.notifications.models.notifications import Channel
from recovery_ops.control.notifications.services.digests import channel_of, set_digest
from recovery_ops.control.notifications.services.settings import PERMISSION


@require_http_methods(["GET", "POST"])
def digest(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """Set when a channel gets its digest, beside what it would say now: nothing is sent for that."""
    require(request, PERMISSION, environment)
    try:
        channel = channel_of(environment, number)
    except CommandRejected as rejection:
        raise Http404(rejection.detail) from rejection
    found = Digest.objects.filter(channel=channel).first()
    now = timezone.now()

    def carry_out(typed: dict[str, Any]) -> CommandResult[Digest]:
        return set_digest(
            by=actor_of(request),
            environment=environment,
            reason=typed["reason"],
            key=typed["key"] or None,
            number=number,
            version=typed["version"],
            **{name: typed[name] for name in ("every", "at", "weekday", "zone", "tells_calm", "is_on")},
        )

    asking = SettingsFormView(
        title=f"Digest of {channel.name}",
        lead="A daily or weekly summary of open problems.",
        button="Save",
        here="notifications",
        back=reverse("notifications"),
        form=partial(DigestForm, digest=found),
        carry_out=carry_out,
        told=lambda done: _told(channel, done.object),
        page="notifications/digest",
        beside={"down": what_is_down(environment, now), "digest": found, "due_at": _due_at(found), "now": now},
    )
    return answer(request, asking)


def _due_at(found: Digest | None) -> Any:
    return next_at(found, timezone.now()) if found is not None and found.is_on else None


def _told(channel: Channel, one: Digest) -> str:
    if not one.is_on:
        return f"Digest of {channel.name} disabled."
    at = next_at(one, timezone.now())
    return f"Digest saved. Next digest of {channel.name}: {clock_text(at, today=timezone.now())} {zone_word(at)}."

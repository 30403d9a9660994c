"""Settings → Notifications: the digest of a channel, when it is told, and what it would say now."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.wording import clock_text, zone_word
from recovery_ops.control.actions import Done, Refused
from recovery_ops.control.actions.digests import channel_of, set_digest
from recovery_ops.control.actions.notifying import PERMISSION
from recovery_ops.control.context import actor_of
from recovery_ops.control.models import Channel, Digest
from recovery_ops.control.notification_forms import DigestForm
from recovery_ops.control.notify.digests import next_at, what_is_down
from recovery_ops.control.views.settings import Asking, answer, require


@require_http_methods(["GET", "POST"])
def digest(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """Set when a channel gets its digest, beside what it would say now: nothing is sent for that."""
    require(request, PERMISSION, environment)
    try:
        channel = channel_of(environment, number)
    except Refused as refusal:
        raise Http404(refusal.detail) from refusal
    found = Digest.objects.filter(channel=channel).first()
    now = timezone.now()

    def carry_out(typed: dict[str, Any]) -> Done[Digest]:
        return set_digest(
            by=actor_of(request),
            environment=environment,
            reason=typed["reason"],
            key=typed["key"] or None,
            number=number,
            version=typed["version"],
            **{name: typed[name] for name in ("every", "at", "weekday", "zone", "tells_calm", "is_on")},
        )

    asking = Asking(
        title=f"Digest of {channel.name}",
        lead="Once a day or a week the channel is told what is down or needs somebody then, and nothing else.",
        button="Save",
        here="notifications",
        back=reverse("notifications"),
        form=partial(DigestForm, digest=found),
        carry_out=carry_out,
        told=lambda done: _told(channel, done.object),
        page="digest",
        beside={"down": what_is_down(environment, now), "digest": found, "due_at": _due_at(found), "now": now},
    )
    return answer(request, asking)


def _due_at(found: Digest | None) -> Any:
    return next_at(found, timezone.now()) if found is not None and found.is_on else None


def _told(channel: Channel, one: Digest) -> str:
    if not one.is_on:
        return f"{channel.name} gets no digest."
    at = next_at(one, timezone.now())
    return f"{channel.name} gets its next digest at {clock_text(at, today=timezone.now())} {zone_word(at)}."

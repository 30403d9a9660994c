"""Settings → Notifications → Log: a message that was not delivered, sent again by a person who knows what it means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.wording import clock_text, count_text, zone_word
from recovery_ops.control.actions import Refused
from recovery_ops.control.actions.notifying import PERMISSION
from recovery_ops.control.actions.resending import message_of, refuse
from recovery_ops.control.actions.resending import resend as send_again
from recovery_ops.control.context import actor_of
from recovery_ops.control.models import Delivery
from recovery_ops.control.notification_forms import DoubtForm, ReasonOnlyForm
from recovery_ops.control.notify.repeating import repeated_by, since
from recovery_ops.control.views.answers import changed
from recovery_ops.control.views.settings import Asking, answer, require


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One message of the log, and the number of the one by which it was sent again."""

    one: Delivery
    again: int | None

    @property
    def is_repeatable(self) -> bool:
        """Whether a person may send it again."""
        is_reachable = self.one.channel.is_on and self.one.channel.removed_at is None
        return self.again is None and is_reachable and self.one.state in Delivery.REPEATABLE


@require_http_methods(["GET", "POST"])
def resend(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """Say what is known of it and what was told since, then send it again as a message of its own."""
    require(request, PERMISSION, environment)
    try:
        one = message_of(environment, number)
        if request.method == "GET":
            refuse(one)
    except Refused as refusal:
        if refusal.status == 404:
            raise Http404(refusal.detail) from refusal
        return changed(request, _back(number), refusal.detail)
    is_unsure = one.state == Delivery.UNKNOWN
    asking = Asking(
        title=f"Send message {one.pk} again",
        lead=_lead(one),
        button="Send it again",
        here="notifications",
        back=_back(number),
        form=DoubtForm if is_unsure else ReasonOnlyForm,
        carry_out=lambda typed: send_again(
            by=actor_of(request),
            environment=environment,
            reason=typed["reason"],
            key=typed["key"] or None,
            number=number,
            may_arrive_twice=typed.get("may_arrive_twice", False),
        ),
        told=lambda done: f"It is sent again as message {done.object.pk}; the log shows what becomes of it.",
    )
    return answer(request, asking)


def lines_of(messages: Sequence[Delivery]) -> list[Line]:
    """Messages as the log shows them. One query where one of them failed."""
    again = repeated_by(messages)
    return [Line(one=one, again=again.get(one.pk)) for one in messages]


def _back(number: int) -> str:
    return f"{reverse('notification-log')}?number={number}"


def _lead(one: Delivery) -> str:
    """What it says, why it failed, and what was told of the same since."""
    now = timezone.now()
    made = f"{clock_text(one.made_at, today=now)} {zone_word(one.made_at)}"
    known = "Nobody knows whether it arrived" if one.state == Delivery.UNKNOWN else "It was not delivered"
    later = since(one)
    told = f" Since then {count_text(later.count, 'message')} of the same came after it" if later.count else ""
    if later.count and later.newest is not None:
        at = later.newest.made_at
        told += f"; the newest that was sent says “{later.newest.title}” ({clock_text(at, today=now)} {zone_word(at)})"
    return (
        f"“{one.title}” of {made} to {one.channel.name}. {known}: {(one.problem or 'no reason was noted').rstrip('.')}."
        f"{told}{'.' if told else ''} It goes out as a message of its own that says which one it repeats, once."
    )

"""Which notices are held back because somebody snoozed those of their provider, and what of it is to be told later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime

from django.db.models import Count

from events.wording import count_text
from recovery_ops.control.notifications.models.mutes import NoticeSnooze
from recovery_ops.control.notifications.models.notifications import Notification
from recovery_ops.control.notifications.triggers import MONTHLY_REPORT, Occurrence

_ALWAYS_TOLD = ("escalation_", "sla_", "override_", "second_person", MONTHLY_REPORT)
"""How the kinds begin of what waits for somebody: no snooze of a provider holds that back."""


def snooze_of(one: Occurrence, providers: AbstractSet[str], snoozes: Sequence[NoticeSnooze]) -> NoticeSnooze | None:
    """The snooze that holds this back: all of its providers are snoozed, and the one that ends last counts."""
    if not snoozes or not providers or one.kind.startswith(_ALWAYS_TOLD):
        return None
    by_provider = {snooze.provider: snooze for snooze in snoozes}
    if not providers <= by_provider.keys():
        return None
    return max((by_provider[name] for name in providers), key=lambda snooze: (snooze.expires_at, snooze.pk))


def held_until(notes: Iterable[Notification], now: datetime) -> datetime | None:
    """Until when the notes of one subject are held back; None where no snooze holds any of them now."""
    held = [note.snooze for note in notes if note.snooze is not None and note.snooze.holds_at(now)]
    return max((snooze.expires_at for snooze in held), default=None)


def counts_held(snoozes: Iterable[NoticeSnooze]) -> Mapping[int, int]:
    """Of how many things each holds notices back now, by its number. One query where there is one."""
    numbers = [one.pk for one in snoozes]
    if not numbers:
        return {}
    held = Notification.objects.filter(snooze__in=numbers, delivery=None)
    return dict(held.values_list("snooze").annotate(count=Count("subject", distinct=True)).order_by())


def heading_of(snooze: NoticeSnooze, things: int) -> str:
    """What is said above what was held back."""
    were = count_text(things, "message was", "messages were")
    return f"Mute of {snooze.provider} ended: {were} held"

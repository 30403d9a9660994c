"""Who else looks at an escalation now: two who answer the same question at once would rather know of each other."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db import DatabaseError, transaction

from recovery_ops.control.models import Escalation, EscalationLook

BEAT_S = 15
"""How often a page that is in sight says so."""
GONE_AFTER = timedelta(seconds=3 * BEAT_S)


def others_at(one: Escalation, user: User, now: datetime) -> list[tuple[str, datetime]]:
    """The others who look at it, and since when; notes that this person does. One query, a few more once in a while."""
    looks = list(EscalationLook.objects.filter(escalation=one).select_related("user").order_by("since", "pk"))
    mine = next((look for look in looks if look.user_id == user.pk), None)
    if mine is None or now - mine.seen_at >= timedelta(seconds=BEAT_S - 1):
        _note(one, user, mine, now)
    here = [look for look in looks if look.user_id != user.pk and now - look.seen_at < GONE_AFTER]
    return [(look.user.get_full_name() or look.user.get_username(), look.since) for look in here]


def _note(one: Escalation, user: User, mine: EscalationLook | None, now: datetime) -> None:
    """Who was away for long begins anew. A store that is busy with facts is left alone: it is said again soon."""
    is_back = mine is None or now - mine.seen_at >= GONE_AFTER
    since = now if mine is None or is_back else mine.since
    try:
        with transaction.atomic():
            EscalationLook.objects.update_or_create(
                escalation=one, user=user, defaults={"seen_at": now, "since": since}
            )
            if is_back:
                EscalationLook.objects.filter(escalation=one, seen_at__lt=now - timedelta(days=1)).delete()
    except DatabaseError:
        return

"""Who else looks at an escalation now: two who answer the same question at once would rather know of each other."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import DatabaseError, transaction

from recovery_ops.control.models import Escalation, EscalationLook

BEAT_S = 15
"""How often a page that is in sight says so."""
GONE_AFTER = timedelta(seconds=3 * BEAT_S)


def looking_at(one: Escalation, user_id: int | None, now: datetime) -> list[tuple[str, datetime]]:
    """Note that this person looks at it; the others who do, and since when."""
    looks = list(EscalationLook.objects.filter(escalation=one).select_related("user").order_by("since", "pk"))
    mine = next((look for look in looks if look.user_id == user_id), None)
    if user_id is not None and (mine is None or now - mine.seen_at >= timedelta(seconds=BEAT_S - 1)):
        _note(one, user_id, mine, now)
    here = [look for look in looks if look.user_id != user_id and now - look.seen_at < GONE_AFTER]
    return [(look.user.get_full_name() or look.user.get_username(), look.since) for look in here]


def _note(one: Escalation, user_id: int, mine: EscalationLook | None, now: datetime) -> None:
    """Who was away for long begins anew. A store that is busy with facts is left alone: it is said again soon."""
    is_back = mine is None or now - mine.seen_at >= GONE_AFTER
    since = now if mine is None or is_back else mine.since
    try:
        with transaction.atomic():
            EscalationLook.objects.update_or_create(
                escalation=one, user_id=user_id, defaults={"seen_at": now, "since": since}
            )
            if is_back:
                EscalationLook.objects.filter(escalation=one, seen_at__lt=now - timedelta(days=1)).delete()
    except DatabaseError:
        return

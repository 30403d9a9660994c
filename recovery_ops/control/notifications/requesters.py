"""Who asked for a trip, an override, its end or a reset hears when not everybody obeys it, and when they do later.

Told once each, by the channel that writes to people; the overview and the header of the page say
it in any case. An act that is obeyed everywhere, or was replaced, is noted without a message, so that the next look
does not ask for it again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime

from django.urls import reverse

from events.queries import fleet
from events.wording import listing
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.desired_state.action_propagation import (
    FOLLOWED,
    WAITED,
    Obeyed,
    acts,
    all_obeyed,
    asked_for,
    of_one_revision,
)
from recovery_ops.control.desired_state.document import read
from recovery_ops.control.notifications.models.notifications import (
    TEXT_CHARS,
    TITLE_CHARS,
    Channel,
    Delivery,
    Notification,
)
from recovery_ops.control.notifications.recipients import names_with_address
from recovery_ops.control.notifications.triggers import LOOKED_BACK
from recovery_ops.control.notifications.wording import LINES_MOST, shown
from recovery_ops.rules.notifications.grouping import Phase, Severity

INCOMPLETE, COMPLETE, SETTLED = "act_incomplete", "act_complete", "act_settled"


def tell_requesters(channel: Channel, now: datetime) -> int:
    """Tell of acts of the last minutes that are incomplete, and of told ones that are complete; return how many
    messages were made: at most two to a person.

    `channel` writes to people. To be called under the look's lock. Two queries where nobody acted, or all is settled;
    otherwise as many as for one act, however many there are.
    """
    environment = channel.environment
    told = Notification.objects.filter(
        environment=environment, channel=channel, origin__startswith="act:", at__gte=now - FOLLOWED
    )
    notes = list(told.only("origin", "is_open"))
    fresh = _fresh(environment, now, known={note.origin for note in notes})
    followed = _of(environment, [note.origin for note in notes if note.is_open])
    if not fresh and not followed:
        return 0
    asked = asked_for(environment, [*fresh, *followed])
    found = all_obeyed(asked, read(environment), fleet(environment, now=now), now=now)
    current = [found[act.number] for act in fresh if act.number in found]
    late = [one for one in current if one.late]
    complete = [found[act.number] for act in followed if act.number in found and found[act.number].is_everywhere]
    settled = [act for act in fresh if act.number not in found] + [one.act for one in current if one.is_everywhere]
    replaced = [act for act in followed if act.number not in found]
    Notification.objects.bulk_create([_note(act, channel, SETTLED, now) for act in settled])
    over = [_origin(act) for act in (*replaced, *(one.act for one in complete))]
    if over:
        told.filter(origin__in=over).update(is_open=False)
    return _tell(channel, late, Phase.BEGAN, now) + _tell(channel, complete, Phase.ENDED, now)


def mail_to_people(environment: str) -> Channel | None:
    """The channel that writes to people at their own addresses; None where there is none. One query."""
    found = Channel.objects.filter(environment=environment, kind=Channel.PEOPLE, removed_at=None, is_on=True)
    return found.order_by("pk").first()


def _fresh(environment: str, now: datetime, *, known: set[str]) -> list[AuditEntry]:
    """What people asked for lately and nothing was noted of."""
    lately = acts(environment).filter(at__gte=now - LOOKED_BACK, at__lte=now - WAITED)
    return [one for one in of_one_revision(lately) if _origin(one) not in known]


def _of(environment: str, origins: Sequence[str]) -> list[AuditEntry]:
    if not origins:
        return []
    return list(acts(environment).filter(number__in=[int(one.removeprefix("act:")) for one in origins]))


def _origin(act: AuditEntry) -> str:
    return f"act:{act.number}"


def _tell(channel: Channel, standings: Iterable[Obeyed], phase: Phase, now: datetime) -> int:
    """One message to each person who can be written to, about all that is theirs; return how many."""
    by_account: dict[str, list[Obeyed]] = defaultdict(list)
    for one in standings:
        by_account[one.act.actor_id].append(one)
    if not by_account:
        return 0
    names = names_with_address(by_account, channel.environment, now=now)
    for account, name in names.items():
        _send(channel, by_account[account], person=name, phase=phase, now=now)
    return len(names)


def _send(channel: Channel, theirs: Sequence[Obeyed], *, person: str, phase: Phase, now: datetime) -> None:
    """Message and rows in the transaction of the look: the unique rows say that it was told."""
    is_end, first = phase is Phase.ENDED, theirs[0]
    if len(theirs) == 1:
        ends = "is applied everywhere" if is_end else f"is incomplete: {first.share}"
        lines = [first.rest] if first.rest else []
    else:
        ends = "are applied everywhere" if is_end else "are incomplete"
        lines = [f"{one.what}." if is_end else f"{one.what}: {one.share}. {one.rest}" for one in theirs[:LINES_MOST]]
        if len(theirs) > LINES_MOST:
            lines.append(f"… and {len(theirs) - LINES_MOST} more")
    delivery = Delivery.objects.create(
        environment=channel.environment,
        channel=channel,
        origin=_origin(first.act),
        person=person,
        lane=f"acts:{person}",
        phase=phase.value,
        severity=Severity.WARNING.value,
        title=shown(f"Your {listing([one.what for one in theirs])} {ends}", TITLE_CHARS),
        lines=[shown(line, TEXT_CHARS) for line in lines],
        path=first.path if len(theirs) == 1 else reverse("breakers"),
        made_at=now,
        not_before=now,
    )
    kind = COMPLETE if is_end else INCOMPLETE
    Notification.objects.bulk_create([_note(one.act, channel, kind, now, delivery) for one in theirs])


def _note(
    act: AuditEntry, channel: Channel, kind: str, now: datetime, delivery: Delivery | None = None
) -> Notification:
    return Notification(
        environment=act.environment,
        origin=_origin(act),
        channel=channel,
        event=f"{act.environment}:{act.number}",  # entries are numbered within their environment
        kind=kind,
        phase=Phase.TOLD.value if delivery is None else delivery.phase,
        subject=f"act {act.number}",
        severity=Severity.INFO.value if delivery is None else delivery.severity,
        at=now,
        found_at=now,
        title="" if delivery is None else delivery.title,
        path="" if delivery is None else delivery.path,
        is_open=kind == INCOMPLETE,
        delivery=delivery,
    )

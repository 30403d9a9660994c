"""Who asked for a trip, an override, its end or a reset hears when not everybody obeys it, and when they do later.

Told once each, by the channel that writes to people; where there is none, the overview alone says it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from django.contrib.auth import get_user_model
from django.urls import reverse

from events.queries import fleet
from events.wording import count_text, listing
from recovery_ops.control.desired import ApplySummary, apply_status
from recovery_ops.control.models import AuditEntry, Channel, Delivery, Notification, Override, Reset
from recovery_ops.control.models.notifying import TEXT_CHARS, TITLE_CHARS
from recovery_ops.control.notify.triggers import LOOKED_BACK
from recovery_ops.control.notify.wording import shown
from recovery_ops.rules.scope import Scope
from recovery_ops.rules.telling import Phase, Severity

WAITED = timedelta(seconds=10)
"""Twice the interval at which agents poll: whoever can be reached should obey by then."""
FOLLOWED = timedelta(days=1)
"""So long it is waited for that what stayed incomplete becomes complete."""
INCOMPLETE, COMPLETE = "act_incomplete", "act_complete"
_ACTS = {
    "breaker.trip": "trip",
    "breaker.disable": "order to disable",
    "breaker.observe": "order to observe only",
    "breaker.release": "release",
    "breaker.extend": "extension",
    "breaker.reset": "reset",
}
_NAMED = 6


def tell_requesters(channel: Channel, now: datetime) -> int:
    """Tell of acts of the last minutes that are incomplete, and of told ones that are complete; return how many.

    `channel` writes to people. To be called under the look's lock. Two queries where nobody acted.
    """
    environment = channel.environment
    told = Notification.objects.filter(
        environment=environment, channel=channel, origin__startswith="act:", at__gte=now - FOLLOWED
    )
    notes = list(told.select_related("delivery"))
    open_ = {note.origin: note for note in notes if note.is_open}
    acts = AuditEntry.objects.filter(environment=environment, verb__in=_ACTS, result=AuditEntry.OK, actor_kind="person")
    lately = list(acts.filter(at__gte=now - LOOKED_BACK, at__lte=now - WAITED, revision__isnull=False))
    known = {note.origin for note in notes}
    fresh = [one for one in lately if _origin(one) not in known]
    numbers = [int(origin.removeprefix("act:")) for origin in open_]
    followed = list(acts.filter(number__in=numbers)) if numbers else []
    if not fresh and not followed:
        return 0
    scopes, agents = _scopes(environment, [*fresh, *followed]), fleet(environment, now=now)
    people = get_user_model().objects.in_bulk({int(one.actor_id) for one in fresh if one.actor_id.isdigit()})
    made = 0
    for one in (act for act in (*fresh, *followed) if act.revision in scopes):
        revision = one.revision or 0
        summary = apply_status(environment, revision, scopes[revision], now=now, agents=agents)
        late = [*summary.pending, *summary.failed, *summary.drifted]
        note = open_.get(_origin(one))
        if note is None and late and one.actor_id.isdigit() and int(one.actor_id) in people:
            person = people[int(one.actor_id)].get_username()
            _send(one, channel, summary, person=person, phase=Phase.BEGAN, now=now)
            made += 1
        elif note is not None and not late:
            person = note.delivery.person if note.delivery else ""
            _send(one, channel, summary, person=person, phase=Phase.ENDED, now=now)
            Notification.objects.filter(pk=note.pk).update(is_open=False)
            made += 1
    return made


def mail_to_people(environment: str) -> Channel | None:
    """The channel that writes to people at their own addresses; None where there is none. One query."""
    found = Channel.objects.filter(environment=environment, kind=Channel.PEOPLE, removed_at=None, is_on=True)
    return found.order_by("pk").first()


def _origin(one: AuditEntry) -> str:
    return f"act:{one.number}"


def _scopes(environment: str, acts: Iterable[AuditEntry]) -> Mapping[int, Scope]:
    """Which part of the environment each revision was about; what was changed again since is not among them."""
    revisions = [one.revision for one in acts if one.revision is not None]
    overrides = Override.objects.filter(environment=environment)
    found = {one.revision: one.scope for one in overrides.filter(revision__in=revisions)}
    ended = overrides.filter(end_revision__in=revisions)
    found |= {one.end_revision: one.scope for one in ended if one.end_revision is not None}
    resets = Reset.objects.filter(environment=environment, revision__in=revisions)
    return found | {one.revision: one.scope for one in resets}


def _send(
    one: AuditEntry, channel: Channel, summary: ApplySummary, *, person: str, phase: Phase, now: datetime
) -> None:
    """Both rows in the transaction of the look: the unique one that says it was told, and the message."""
    what = f"Your {_ACTS[one.verb]} of {one.operation if one.operation not in ('', '*') else 'every breaker'}"
    late = [*summary.pending, *summary.failed, *summary.drifted]
    reached = len(summary.applied) + len(late)
    is_end = phase is Phase.ENDED
    ends = "is applied everywhere now" if is_end else f"is incomplete: {len(summary.applied)} of {reached} applied it"
    parts = [] if is_end else [f"Not yet: {listing([row.instance for row in late[:_NAMED]])}."]
    if len(late) > _NAMED:
        parts.append(f"And {len(late) - _NAMED} more.")
    if summary.unreachable:
        parts.append(f"{count_text(len(summary.unreachable), 'instance')} cannot be reached and may not know of it.")
    text = shown(" ".join(parts), TEXT_CHARS)
    said = {
        "severity": Severity.WARNING.value,
        "title": shown(f"{what} {ends}", TITLE_CHARS),
        "phase": phase.value,
        "path": reverse("breaker", args=[one.operation]) if one.operation not in ("", "*") else reverse("breakers"),
    }
    delivery = Delivery.objects.create(
        environment=one.environment,
        channel=channel,
        origin=_origin(one),
        person=person,
        lane=_origin(one),
        lines=[text] if text else [],
        made_at=now,
        not_before=now,
        **said,
    )
    Notification.objects.create(
        environment=one.environment,
        origin=_origin(one),
        channel=channel,
        event=str(one.number),
        kind=COMPLETE if is_end else INCOMPLETE,
        subject=f"act {one.number}",
        at=now,
        found_at=now,
        text=text,
        is_open=phase is Phase.BEGAN,
        delivery=delivery,
        **said,
    )

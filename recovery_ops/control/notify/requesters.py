"""Who asked for a trip, an override, its end or a reset hears when not everybody obeys it, and when they do later.

Told once each, by the channel that writes to people; where there is none, the overview alone says it. An act that is
obeyed everywhere, or was replaced, is noted without a message, so that the next look does not ask for it again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.urls import reverse

from events.queries import fleet
from events.rows import AgentRow
from events.wording import count_text, listing
from recovery_ops.control.desired import ApplySummary, Standards, apply_status_of, read, who_is
from recovery_ops.control.models import AuditEntry, Channel, Delivery, Notification, Override, Reset
from recovery_ops.control.models.notifying import TEXT_CHARS, TITLE_CHARS
from recovery_ops.control.notify.people import names_with_address
from recovery_ops.control.notify.triggers import LOOKED_BACK
from recovery_ops.control.notify.wording import LINES_MOST, shown
from recovery_ops.rules.scope import Scope
from recovery_ops.rules.telling import Phase, Severity

WAITED = timedelta(seconds=10)
"""Twice the interval at which agents poll: whoever can be reached should obey by then."""
FOLLOWED = timedelta(days=1)
"""So long it is waited for that what stayed incomplete becomes complete."""
INCOMPLETE, COMPLETE, SETTLED = "act_incomplete", "act_complete", "act_settled"
_RELEASE, _RESETS = "breaker.release", ("breaker.reset", "ramp.continue")
_ACTS = {
    "breaker.trip": "trip",
    "breaker.disable": "order to disable",
    "breaker.observe": "order to observe only",
    _RELEASE: "release",
    "breaker.extend": "extension",
    "breaker.reset": "reset",
    "ramp.continue": "next step",
}
_NAMED = 6
_OBJECT_CHARS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """How far an act has come."""

    act: AuditEntry
    summary: ApplySummary

    @property
    def late(self) -> list[AgentRow]:
        """Who can be reached and does not obey it."""
        return [*self.summary.pending, *self.summary.failed, *self.summary.drifted]

    @property
    def is_everywhere(self) -> bool:
        """Whether everybody is known to obey it."""
        return not self.late and not self.summary.unreachable

    @property
    def what(self) -> str:
        """`trip of search_web`."""
        return f"{_ACTS[self.act.verb]} of {shown(self.act.object, _OBJECT_CHARS)}"

    @property
    def share(self) -> str:
        """How many of those who can be reached obey it."""
        applied = len(self.summary.applied)
        return f"{applied} of {applied + len(self.late)} applied it"

    @property
    def rest(self) -> str:
        """Who does not, by name."""
        parts = [f"Not yet: {listing([row.instance for row in self.late[:_NAMED]])}."] if self.late else []
        if len(self.late) > _NAMED:
            parts.append(f"And {len(self.late) - _NAMED} more.")
        if self.summary.unreachable:
            unreachable = count_text(len(self.summary.unreachable), "instance")
            parts.append(f"{unreachable} cannot be reached and may not know of it.")
        return " ".join(parts)

    @property
    def path(self) -> str:
        """The page of its breaker, or of all where it is about several."""
        name = self.act.operation
        is_about_one = name not in ("", "*") and f"{self.act.object} ".startswith(f"{name} ")
        return reverse("breaker", args=[name]) if is_about_one else reverse("breakers")


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
    scopes = _scopes(environment, [*fresh, *followed], now)
    standards, agents = Standards(read(environment)), fleet(environment, now=now)

    def standing(act: AuditEntry) -> _Standing:
        return _Standing(act=act, summary=_summary(act, scopes[act.number], standards, agents))

    current = [standing(act) for act in fresh if act.number in scopes]
    late = [one for one in current if one.late]
    complete = [one for one in map(standing, (act for act in followed if act.number in scopes)) if one.is_everywhere]
    settled = [act for act in fresh if act.number not in scopes] + [one.act for one in current if one.is_everywhere]
    replaced = [act for act in followed if act.number not in scopes]
    Notification.objects.bulk_create([_note(act, channel, SETTLED, now) for act in settled])
    over = [_origin(act) for act in (*replaced, *(one.act for one in complete))]
    if over:
        told.filter(origin__in=over).update(is_open=False)
    return _tell(channel, late, Phase.BEGAN, now) + _tell(channel, complete, Phase.ENDED, now)


def mail_to_people(environment: str) -> Channel | None:
    """The channel that writes to people at their own addresses; None where there is none. One query."""
    found = Channel.objects.filter(environment=environment, kind=Channel.PEOPLE, removed_at=None, is_on=True)
    return found.order_by("pk").first()


def _acts(environment: str) -> QuerySet[AuditEntry]:
    acts = AuditEntry.objects.filter(environment=environment, verb__in=_ACTS, result=AuditEntry.OK, actor_kind="person")
    return acts.filter(revision__isnull=False).order_by("number")


def _fresh(environment: str, now: datetime, *, known: set[str]) -> list[AuditEntry]:
    """What people asked for lately and nothing was noted of. Of a reset of many the last entry speaks for all."""
    lately = _acts(environment).filter(at__gte=now - LOOKED_BACK, at__lte=now - WAITED)
    by_revision = {(one.actor_id, one.revision): one for one in lately}
    return [one for one in by_revision.values() if _origin(one) not in known]


def _of(environment: str, origins: Sequence[str]) -> list[AuditEntry]:
    if not origins:
        return []
    return list(_acts(environment).filter(number__in=[int(one.removeprefix("act:")) for one in origins]))


def _origin(act: AuditEntry) -> str:
    return f"act:{act.number}"


def _scopes(environment: str, acts: Sequence[AuditEntry], now: datetime) -> Mapping[int, Scope]:
    """Which part of the environment each act is about, by its number; what no longer holds is not among them.

    An override that has ended or was changed again does not, nor an end or a reset where another override holds since.
    """
    revisions = [act.revision for act in acts if act.revision is not None]
    live = list(Override.objects.live(environment).filter(expires_at__gt=now))
    held_since = {one.scope: one.revision for one in live if one.starts_at <= now}
    ended = Override.objects.filter(environment=environment, end_revision__in=revisions)
    resets = Reset.objects.filter(environment=environment, revision__in=revisions)
    set_by = {one.revision: one.scope for one in live}
    ended_by = {one.end_revision: one.scope for one in ended}
    reset_by = {one.revision: one.scope for one in resets}
    found = {}
    for act in acts:
        revision = act.revision or 0
        is_end = act.verb == _RELEASE or act.verb in _RESETS
        by = (ended_by if act.verb == _RELEASE else reset_by) if is_end else set_by
        scope = by.get(revision)
        if scope is not None and not (is_end and held_since.get(scope, 0) > revision):
            found[act.number] = scope
    return found


def _summary(act: AuditEntry, scope: Scope, standards: Standards, agents: Iterable[AgentRow]) -> ApplySummary:
    """Who obeys it, of those that were there: who came later got it with their first document."""
    there = [row for row in agents if row.is_follower and row.first_seen <= act.at and who_is(row).is_in(scope)]
    return apply_status_of(there, act.revision or 0, standards, made_at=act.at)


def _tell(channel: Channel, standings: Iterable[_Standing], phase: Phase, now: datetime) -> int:
    """One message to each person who can be written to, about all that is theirs; return how many."""
    by_account: dict[str, list[_Standing]] = defaultdict(list)
    for one in standings:
        by_account[one.act.actor_id].append(one)
    if not by_account:
        return 0
    names = names_with_address(by_account, channel.environment, now=now)
    for account, name in names.items():
        _send(channel, by_account[account], person=name, phase=phase, now=now)
    return len(names)


def _send(channel: Channel, theirs: Sequence[_Standing], *, person: str, phase: Phase, now: datetime) -> None:
    """Message and rows in the transaction of the look: the unique rows say that it was told."""
    is_end, first = phase is Phase.ENDED, theirs[0]
    if len(theirs) == 1:
        ends = "is applied everywhere now" if is_end else f"is incomplete: {first.share}"
        lines = [first.rest] if first.rest else []
    else:
        ends = "are applied everywhere now" if is_end else "are incomplete"
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

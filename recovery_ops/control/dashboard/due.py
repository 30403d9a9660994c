"""What an overview tells beside the facts: keys that end, questions that were asked or come back, notices that are
held back, causes that are new or back.

With it comes the hash at the end of the audit log, which tells whether what is desired has to be read anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import CharField, DateTimeField, Exists, F, Q, QuerySet, Value
from django.db.models.functions import Cast

from events.failures.naming import Called, called_lately
from events.models import AgentKey, Fact
from events.moments import to_us
from events.queries.sums import FAILED as FAILURE
from recovery_ops.control.core.models.audit import AuditHead
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.issues.models import FailureCase
from recovery_ops.control.notifications.models.mutes import NoticeSnooze
from recovery_ops.control.notifications.models.notifications import Channel, NotifyLook, SeenFailure
from recovery_ops.control.policies.models.policies import PolicyRelease

KEYS_AHEAD = timedelta(days=7)
SNOOZES_AHEAD = timedelta(hours=24)
NEW_FOR = timedelta(hours=1)
MOST = 2_000
HEAD, LOOKED, KEY, SNOOZE, REGRESSED = "0 head", "0 looked", "1 key", "2 snooze", "3 regressed"
NOTICES = "2 snooze of notices"
FAILED, RELEASED, CHANNEL = "0 failed", "0 released", "1 channel"
NEW, ASKED = "4 new", "5 asked"
"""In the order in which they are read: what there may be most of stands last."""
BEGINS_FOR = timedelta(days=7)
"""So long an environment is young, and what is still to be done first is said."""
_LOOKED_WITHIN = timedelta(minutes=5)
_TEXT, _MOMENT = CharField(), DateTimeField()


class Due(NamedTuple):
    """One of them: `ref` is the prefix of a key, the number of a question, the name of a cause, or the hash."""

    kind: str
    at: datetime
    ref: str
    name: str
    by: str
    why: str


def due_in(
    environment: str, *, now: datetime, since: datetime | None = None, wants_beginnings: bool = False
) -> list[Due]:
    """Keys that end within a week, questions and notices that come back within a day, causes that are back, and those
    of the last hour that were never seen before, as far as a notification rule asks for such (`LOOKED` says when it was
    looked); before them the end of the audit log. With `since`, those new from then on, and the questions that were
    asked from then on; with `wants_beginnings`, whether any call failed within a week, and whether there is a policy
    and a channel of one's own. At most 2,000, so that the last kinds may not be whole (`is_cut`). One query.
    """
    since = now if since is None else since
    end = AuditHead.objects.filter(environment=environment)
    keys = AgentKey.objects.filter(environment=environment, revoked_at=None, expires_at__gt=now)
    asleep = Escalation.objects.filter(environment=environment, resolved_at=None, snoozed_until__gt=now)
    quiet = NoticeSnooze.objects.in_force(environment, now)
    back = FailureCase.objects.filter(environment=environment, state=FailureCase.REGRESSED)
    new = SeenFailure.objects.filter(environment=environment, first_at__gt=min(since, now - NEW_FOR), first_at__lte=now)
    looked = NotifyLook.objects.filter(environment=environment, failures_at__gt=now - _LOOKED_WITHIN)
    open_since = Q(resolved_at=None) | Q(resolved_at__gte=since)
    asked = Escalation.objects.filter(
        open_since, environment=environment, merged_into=None, opened_at__gte=since, opened_at__lt=now
    )
    first, *others = (
        _told(end, HEAD, Value(now), ref="hash"),
        _told(keys.filter(expires_at__lt=now + KEYS_AHEAD), KEY, F("expires_at"), ref="prefix", name="name"),
        _told(
            asleep.filter(snoozed_until__lt=now + SNOOZES_AHEAD), SNOOZE, F("snoozed_until"), ref="id", name="operation"
        ),
        _told(
            *(quiet.filter(expires_at__lt=now + SNOOZES_AHEAD), NOTICES, F("expires_at")),
            ref="id",
            name="provider",
            by="by",
            why="reason",
        ),
        _told(back, REGRESSED, F("decided_at"), ref="fingerprint", by="decided_by", why="reason"),
        _told(new, NEW, F("first_at"), ref="fingerprint"),
        _told(looked, LOOKED, F("failures_at")),
        _told(asked, ASKED, F("opened_at"), ref="id"),
    )
    if wants_beginnings:
        others += _beginnings(environment, keys=AgentKey.objects.filter(environment=environment), now=now)
    return [Due._make(row) for row in first.union(*others, all=True).order_by("told_kind", "told_at")[:MOST]]


def _beginnings(environment: str, *, keys: QuerySet[AgentKey], now: datetime) -> Iterator[QuerySet[Any, Any]]:
    """What is done in an environment first. Who fails came in with a key, so that the keys may be asked for it."""
    failures = Fact.objects.filter(environment=environment, event=FAILURE, at_us__gt=to_us(now - BEGINS_FOR))
    yield _told(keys.filter(Exists(failures)), FAILED, Value(now), ref="prefix")
    yield _told(
        PolicyRelease.objects.filter(environment=environment, version=1), RELEASED, F("created_at"), ref="version"
    )
    yield _told(Channel.objects.filter(environment=environment, removed_at=None), CHANNEL, Value(now), name="name")


def _told(found: QuerySet[Any], kind: str, at: F | Value, **columns: str) -> QuerySet[Any, Any]:
    """The rows of one table in the columns of `Due`."""
    told: dict[str, Any] = {"told_kind": Cast(Value(kind), _TEXT), "told_at": Cast(at, _MOMENT)}
    for name in Due._fields[2:]:
        said: F | Value = F(columns[name]) if name in columns else Value("")
        told[f"told_{name}"] = Cast(said, _TEXT)
    rows: QuerySet[Any, Any] = found.order_by().annotate(**told).values_list(*(f"told_{name}" for name in Due._fields))
    return rows


def head_in(due: Iterable[Due]) -> str:
    """The hash at the end of the audit log; empty where nothing was done yet."""
    return next((one.ref for one in due if one.kind == HEAD), "")


def of_kind(due: Iterable[Due], kind: str) -> list[Due]:
    """Those of one kind."""
    return [one for one in due if one.kind == kind]


def new_lately(due: Iterable[Due], now: datetime) -> list[Due]:
    """The causes of the last hour that were never seen before."""
    return [one for one in of_kind(due, NEW) if one.at > now - NEW_FOR]


def called_in(due: Iterable[Due], environment: str, now: datetime, also: Collection[str] = ()) -> dict[str, Called]:
    """What the causes are called that are back or new, and others. One query, none where there is no such cause."""
    due = list(due)
    back = {one.ref for one in of_kind(due, REGRESSED)}
    new = {one.ref: one.at for one in new_lately(due, now)}
    return called_lately(environment, back | set(also), now=now, came_first=new)


def is_cut(due: Sequence[Due]) -> bool:
    """Whether there was more than is read."""
    return len(due) == MOST

"""What an overview tells beside the facts: keys that end, questions that come back, causes that are new or back.

With it comes the hash at the end of the audit log, which tells whether what is desired has to be read anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import CharField, DateTimeField, F, QuerySet, Value
from django.db.models.functions import Cast

from events.models import AgentKey
from recovery_ops.control.models import AuditHead, Escalation, FailureCase, SeenFailure

KEYS_AHEAD = timedelta(days=7)
SNOOZES_AHEAD = timedelta(hours=24)
NEW_FOR = timedelta(hours=1)
MOST = 200
HEAD, KEY, SNOOZE, REGRESSED, NEW = "0 head", "1 key", "2 snooze", "4 regressed", "3 new"
"""In the order in which they are read: what there may be most of stands last."""
_TEXT, _MOMENT = CharField(), DateTimeField()


class Due(NamedTuple):
    """One of them: `ref` is the prefix of a key, the number of a question, the name of a cause, or the hash."""

    kind: str
    at: datetime
    ref: str
    name: str
    by: str
    why: str


def due_in(environment: str, *, now: datetime) -> list[Due]:
    """Keys that end within a week, questions that come back within a day, causes that are back, and those of the last
    hour that were never seen before, as far as a notification rule asks for such; before them the end of the audit log.
    At most 200. One query.
    """
    end = AuditHead.objects.filter(environment=environment)
    keys = AgentKey.objects.filter(environment=environment, revoked_at=None, expires_at__gt=now)
    asleep = Escalation.objects.filter(environment=environment, resolved_at=None, snoozed_until__gt=now)
    back = FailureCase.objects.filter(environment=environment, state=FailureCase.REGRESSED)
    new = SeenFailure.objects.filter(environment=environment, first_at__gt=now - NEW_FOR, first_at__lte=now)
    first, *others = (
        _told(end, HEAD, Value(now), ref="hash"),
        _told(keys.filter(expires_at__lt=now + KEYS_AHEAD), KEY, F("expires_at"), ref="prefix", name="name"),
        _told(
            asleep.filter(snoozed_until__lt=now + SNOOZES_AHEAD), SNOOZE, F("snoozed_until"), ref="id", name="operation"
        ),
        _told(back, REGRESSED, F("decided_at"), ref="fingerprint", by="decided_by", why="reason"),
        _told(new, NEW, F("first_at"), ref="fingerprint"),
    )
    return [Due._make(row) for row in first.union(*others, all=True).order_by("told_kind", "told_at")[:MOST]]


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

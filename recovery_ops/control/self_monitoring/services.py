"""What people do about records that could not be taken in: have them taken in again after a fix, or forget them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NotRequired, Unpack

from django.db.models import Max

from events.ingest.cardinality import known_names
from events.ingest.quarantine import Settled, drop, replay
from events.models import Quarantine
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CONFLICT, CommandRejected
from recovery_ops.rules.policy.scope import Scope

PERMISSION = "mend_intake"


class Mending(CommandContext):
    """What `replay_quarantine` and `drop_quarantine` are given: the lines by id; without any, all of them."""

    lines: NotRequired[Sequence[int] | None]


def replay_quarantine(**asked: Unpack[Mending]) -> CommandResult[Settled]:
    """Take lines of the quarantine in once more. What still cannot be stays, with the reason of today.

    Raises CommandRejected: 403, 400 by field.
    """
    return _settle("quarantine.replay", asked, replay)


def drop_quarantine(**asked: Unpack[Mending]) -> CommandResult[Settled]:
    """Forget lines of the quarantine for good. Raises CommandRejected: 403, 400 by field."""
    return _settle("quarantine.drop", asked, drop)


def newest_of_quarantine(environment: str) -> int:
    """The number of the newest line; 0 where there is none. What `seen` is compared with where all are meant."""
    return Quarantine.objects.filter(environment=environment).aggregate(newest=Max("pk"))["newest"] or 0


def _settle(verb: str, asked: Mending, settle: Callable[..., Settled]) -> CommandResult[Settled]:
    environment, chosen = asked["environment"], asked.get("lines")
    about = "quarantined records" if chosen is None else f"{len(chosen)} quarantined records"
    command = Command.of(verb, Scope(), asked, about=about)

    def write(revision: int) -> Change[Settled]:
        if chosen is None and command.seen is not None and command.seen < newest_of_quarantine(environment):
            detail = "New records have arrived. Reload, or select records."
            raise CommandRejected("stale", detail, status=CONFLICT)
        lines = Quarantine.objects.filter(environment=environment).order_by("id")
        if chosen is not None:
            lines = lines.filter(pk__in=list(chosen))
        settled = settle(list(lines), now_us=int(command.now.timestamp() * 1_000_000))
        after = {"stored": settled.stored, "settled": settled.settled, "left": settled.left}
        return Change(object=settled, revision=revision, after=after)

    with command.noted():
        command.check()
        try:
            done = execute(command, write, recall=_recalled)
        except Exception:
            known_names.forget()
            raise
        if done.is_dry_run:
            known_names.forget()
        return done


def _recalled(entry: AuditEntry) -> Settled:
    after = entry.after or {}
    return Settled(stored=after.get("stored", 0), settled=after.get("settled", 0), left=after.get("left", 0))

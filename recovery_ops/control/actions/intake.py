"""What people do about records that could not be taken in: have them taken in again after a fix, or forget them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NotRequired, Unpack

from django.db.models import Max

from events.cardinality import known_names
from events.models import Quarantine
from events.quarantine import Settled, drop, replay
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.models import AuditEntry
from recovery_ops.control.refusals import STALE, Refused
from recovery_ops.rules.scope import Scope

PERMISSION = "mend_intake"


class Mending(Asked):
    """What `replay_quarantine` and `drop_quarantine` are given: the lines by id; without any, all of them."""

    lines: NotRequired[Sequence[int] | None]


def replay_quarantine(**asked: Unpack[Mending]) -> Done[Settled]:
    """Take lines of the quarantine in once more. What still cannot be stays, with the reason of today.

    Raises Refused: 403, 400 by field.
    """
    return _settle("quarantine.replay", asked, replay)


def drop_quarantine(**asked: Unpack[Mending]) -> Done[Settled]:
    """Forget lines of the quarantine for good. Raises Refused: 403, 400 by field."""
    return _settle("quarantine.drop", asked, drop)


def newest_of_quarantine(environment: str) -> int:
    """The number of the newest line; 0 where there is none. What `seen` is compared with where all are meant."""
    return Quarantine.objects.filter(environment=environment).aggregate(newest=Max("pk"))["newest"] or 0


def _settle(verb: str, asked: Mending, settle: Callable[..., Settled]) -> Done[Settled]:
    environment, chosen = asked["environment"], asked.get("lines")
    about = "the quarantine" if chosen is None else f"{len(chosen)} of the quarantine"
    attempt = Attempt.of(verb, PERMISSION, Scope(), asked, about=about, is_for_agents=False)

    def write(revision: int) -> Step[Settled]:
        if chosen is None and attempt.seen is not None and attempt.seen < newest_of_quarantine(environment):
            detail = "More came since you looked. Look again, then decide; or name the lines that you mean."
            raise Refused("stale", detail, status=STALE)
        lines = Quarantine.objects.filter(environment=environment).order_by("id")
        if chosen is not None:
            lines = lines.filter(pk__in=list(chosen))
        settled = settle(list(lines), now_us=int(attempt.now.timestamp() * 1_000_000))
        after = {"stored": settled.stored, "settled": settled.settled, "left": settled.left}
        return Step(object=settled, revision=revision, after=after)

    with attempt.noted():
        attempt.check()
        try:
            done = carry_out(attempt, write, recall=_recalled)
        except Exception:
            known_names.forget()
            raise
        if done.is_dry_run:
            known_names.forget()
        return done


def _recalled(entry: AuditEntry) -> Settled:
    after = entry.after or {}
    return Settled(stored=after.get("stored", 0), settled=after.get("settled", 0), left=after.get("left", 0))

"""The audit log as a file."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import QuerySet

from recovery_ops.control.audit.selectors import ASKS, conditions_in, entries_of, matching
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.bases import EVERYWHERE
from recovery_ops.control.core.numbers import parse_number
from recovery_ops.control.exports.lists import Batch, Cells, FileList, Wish

_AT_ONCE = 2_000


class AuditFile(FileList):
    """Entries, the newest first; `chain=*`: those of everywhere."""

    name = "audit"
    page = "audit"
    title = "Audit log"
    one, several = "entry", "entries"
    counts = "entries"
    asks = (*ASKS, "chain")
    at_once_most = 50_000
    is_bound = False
    has_range = False
    columns = (
        *("number", "at", "who", "kind", "what", "object", "reason", "before", "after", "revision", "result", "code"),
        *("channel", "ip", "request", "hash"),
    )

    def needs(self, wish: Wish) -> tuple[str, str]:
        """To see the audit log, of here or of everywhere."""
        return "see_audit", _place(wish)

    def total(self, wish: Wish, *, most: int | None = None) -> int:
        """How many entries there are. One query."""
        found = _found(wish)
        return found.count() if most is None else found.order_by()[: most + 1].count()

    def batches(self, wish: Wish) -> Iterator[Batch]:
        """Walks by the entries' numbers, so that no reading goes on for long."""
        found, below = _found(wish).order_by("-number"), None
        while True:
            read = list((found if below is None else found.filter(number__lt=below))[:_AT_ONCE])
            yield Batch([_cells(one) for one in read], len(read))
            if len(read) < _AT_ONCE:
                return
            below = read[-1].number


def _place(wish: Wish) -> str:
    return EVERYWHERE if wish.given.get("chain") == EVERYWHERE else wish.environment


def _found(wish: Wish) -> QuerySet[AuditEntry]:
    before = parse_number(wish.given.get("before", ""))
    found = entries_of(_place(wish), start=wish.start, end=wish.end, before=before)
    return matching(found, conditions_in(wish.given))


def _cells(one: AuditEntry) -> Cells:
    return (
        *(one.number, one.at, one.actor_name, one.actor_kind, one.verb, one.object, one.reason, one.before_text),
        *(one.after_text, one.revision, one.result, one.code, one.channel, one.ip, one.request_id, one.hash),
    )

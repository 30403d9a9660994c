"""The queue as a file."""

from __future__ import annotations

from collections.abc import Iterator

from events.pages.narrowing import one_of
from recovery_ops.control.core.cursors import BadCursor, Place, place_of
from recovery_ops.control.escalations.selectors import queue as asking
from recovery_ops.control.escalations.selectors.queue import EscalationRow
from recovery_ops.control.exports.lists import Batch, Cells, FileList, Wish
from recovery_ops.control.notifications.filters import narrowed_down

_AT_ONCE = 1_000


class EscalationsFile(FileList):
    """What people are asked: one tab of the queue."""

    name = "escalations"
    page = "escalations"
    title = "Escalations"
    one, several = "escalation", "escalations"
    counts = "escalations"
    asks = ("tab", *asking.NARROWED)
    at_once_most = 10_000
    is_bound = False
    has_range = False
    columns = (
        *("escalation", "what", "severity", "question", "queue", "owner", "opened", "take by", "taken", "taken by"),
        *("resolve by", "resolved", "resolved by", "resolution", "is late", "times asked", "last asked", "labels"),
    )

    def needs(self, wish: Wish) -> tuple[str, str]:
        """To look."""
        return "see", wish.environment

    def total(self, wish: Wish, *, most: int | None = None) -> int:
        """How many stand in the tab. One query."""
        return asking.count_of(
            wish.environment, tab_of(wish), by=wish.user_id, now=wish.now, narrowed=narrowed_of(wish)
        )

    def batches(self, wish: Wish) -> Iterator[Batch]:
        """Page after page, in the order of the queue as it stands now."""
        tab, narrowed = tab_of(wish), narrowed_of(wish)
        after = _after(wish)
        while True:
            rows, cursor = asking.page_of(
                wish.environment,
                tab,
                by=wish.user_id,
                now=wish.now,
                narrowed=narrowed,
                after=after,
                most=_AT_ONCE,
                is_bare=True,
            )
            yield Batch([_cells(row) for row in rows], len(rows))
            if not cursor:
                return
            after = place_of(cursor, asking.PLACE)


def _after(wish: Wish) -> Place | None:
    """Behind which place the file begins; what is no place of this list is its beginning."""
    try:
        return place_of(str(wish.given["cursor"]), asking.PLACE) if "cursor" in wish.given else None
    except BadCursor:
        return None


def tab_of(wish: Wish) -> str:
    """Which tab of the queue."""
    return one_of(wish.given, "tab", asking.TABS, "open")


def narrowed_of(wish: Wish) -> asking.Narrowed:
    """What narrows the tab; a severity that there is none of narrows nothing, as on the page."""
    return narrowed_down(asked_of(wish), wish.environment, wish.now)


def asked_of(wish: Wish) -> asking.Narrowed:
    """The same before other tables were asked."""
    return asking.Narrowed.of(wish.given).as_shown


def _cells(row: EscalationRow) -> Cells:
    one = row.one
    return (
        *(str(one), row.title, one.severity, row.asks, one.queue, one.assigned_to, one.opened_at),
        *(one.acknowledge_by, one.first_acknowledged_at, one.acknowledged_by, one.resolve_by, one.resolved_at),
        *(one.resolved_by, one.resolution, row.is_breached or one.is_defaulted, one.occurrences, one.seen_at),
        ", ".join(one.label_names),
    )

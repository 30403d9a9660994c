"""Which dimensions sums keep over which spans of time."""

from __future__ import annotations

from enum import StrEnum


class View(StrEnum):
    """Which dimensions a sum keeps."""

    EACH = "each"
    """All."""
    CATEGORY = "category"
    """The category alone; it has all counters."""
    BACKEND = "backend"
    """Provider, model and category; the operation where neither of the first two is known, and then only the counters
    of capacity errors. What failed without a category is `unknown`: failures that have none were counted by a server
    that did not know the category here."""
    OPERATION = "operation"
    """Operation and breaker, and of the counters `fallbacks` and `rejections`."""
    EFFORT = "effort"
    """Operation and source, of the counters `calls`, `attempts`, `failures`, `retries`, `inner_retries`; in
    `overloaded` those retries after a capacity failure for which nobody waited."""
    MOVE = "move"
    """The breaker, and in `category` which state was left for which, as `closed>open`; `facts` counts the moves."""


VIEWS: dict[View, tuple[int, ...]] = {
    View.EACH: (5, 120),  # single minutes are `MinuteSum`
    View.CATEGORY: (1, 5, 15, 120),
    View.BACKEND: (1, 5, 15, 120),
    View.OPERATION: (1, 5, 15, 120),
    View.EFFORT: (5, 15, 120),
    View.MOVE: (5, 15, 120),
}
"""The spans over which each view is summed up, in minutes: what the widths of bins are multiples of."""

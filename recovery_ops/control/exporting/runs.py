"""Runs as a file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from events.failures.grouping import AS_SENT
from events.moments import from_us, to_us
from events.runs.asking import Show, count_naming, runs
from events.runs.narrowing import ASKS, Narrow
from events.runs.rows import RunStory
from recovery_ops.control.exporting.lists import Batch, Cells, FileList, Wish
from recovery_ops.control.failures import grouping_of
from recovery_ops.control.standings import reporting_in, standing_of

_AT_ONCE = 200
OF_FAILURES = ("operation", "breaker", "fingerprint")
"""What narrows the runs that met a failure, and no others."""


class RunsFile(FileList):
    """Runs of a range, the newest first. How many there are is not known before each was looked at: the facts that
    name them are counted.
    """

    name = "runs"
    page = "runs"
    title = "runs"
    one, several = "run", "runs"
    counts = "facts that name runs"
    asks = ("show", *OF_FAILURES, *ASKS)
    at_once_most = 5_000
    is_bound = True
    has_range = True
    columns = (
        *("run", "name", "service", "instance", "version", "source", "stands", "rung", "failed attempts", "retries"),
        *("waited s", "started", "ended", "took s", "cost USD", "policy", "derived steps"),
    )

    def needs(self, wish: Wish) -> tuple[str, str]:
        """To look."""
        return "see", wish.environment

    def total(self, wish: Wish, *, most: int | None = None) -> int:
        """How many facts name runs of this kind in the range: so many runs there are at most. One query."""
        start_us, end_us = _span(wish)
        return count_naming(wish.environment, show_of(wish.given), start_us, end_us, most=most)

    def batches(self, wish: Wish) -> Iterator[Batch]:
        """Page after page of the list, each with how many facts lie between it and the next."""
        show, asked = show_of(wish.given), asked_of(wish.environment, wish.given)
        start_us, end_us = _span(wish)
        before_us = before_of(wish.given)
        while True:
            until_us = end_us if before_us is None else before_us
            found = runs(
                wish.environment,
                start=from_us(start_us),
                end=from_us(end_us),
                before_us=before_us,
                most=_AT_ONCE,
                **asked,
            )
            reporting = reporting_in(wish.environment, found.rows, wish.now)
            rest_us = start_us if found.older_us is None else found.older_us
            looked = count_naming(wish.environment, show, rest_us, until_us)
            yield Batch([_cells(story, wish.now, reporting) for story in found.rows], looked)
            if found.older_us is None:
                return
            before_us = found.older_us


def show_of(given: Any) -> Show:
    """Which runs an address asks for."""
    asked = given.get("show", "")
    return Show(asked) if asked in set(Show) else Show.TROUBLED


def asked_of(environment: str, given: Any) -> dict[str, Any]:
    """What `runs` is asked beside its range: the kind, what narrows it, and how causes are grouped where one does."""
    show = show_of(given)
    narrowed = {name: given.get(name, "")[:200] if show is Show.TROUBLED else "" for name in OF_FAILURES}
    grouping = grouping_of(environment) if narrowed["fingerprint"] else AS_SENT
    return {"show": show, "grouping": grouping, "narrow": Narrow.of(given), **narrowed}


def before_of(given: Any) -> int | None:
    """Below which moment an address asks for runs."""
    before = given.get("before", "")
    return int(before) if before.isascii() and before.isdigit() and len(before) < 18 else None


def _span(wish: Wish) -> tuple[int, int]:
    if wish.start is None or wish.end is None:
        raise ValueError("runs are those of a range")
    return to_us(wish.start), to_us(wish.end)


def _cells(story: RunStory, now: datetime, reporting: set[tuple[str, str]]) -> Cells:
    return (
        *(story.run, story.name, story.service, story.instance, story.version, story.source),
        *(standing_of(story, now, reporting).word, story.rung, story.failed_attempts, story.retries, story.waited_s),
        *(story.started, story.ended, story.took, story.numbers.get("cost_usd"), story.policy),
        story.derived_steps,
    )

"""Runs as a file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.utils import timezone

from events.capacity.asking import parts_struck, wholes_by_number
from events.failures.grouping import AS_SENT
from events.pages.narrowing import one_of
from events.runs.going import Reporting
from events.runs.narrowing import ASKS, Narrow
from events.runs.rows import RunStory
from events.runs.selectors import Place, RunFilters, RunList, Show
from events.runs.struck import Struck
from recovery_ops.control.core.numbers import parse_number
from recovery_ops.control.exports.lists import Batch, Cells, FileList, Wish
from recovery_ops.control.issues.selectors import grouping_of
from recovery_ops.control.runs.status import reporting_in, standing_of

_AT_ONCE = 4_000
PLACE = (int, int)
"""Of what a place in the list is made."""
_WORD_CHARS = 401
"""The name of a cause that was split is that long at most."""
OF_FAILURES = ("operation", "breaker", "fingerprint", "outage")
"""What narrows the runs that met a failure, and no others; `outage` is a capacity event, as "CE-12"."""


class RunsFile(FileList):
    """Runs of a range, the newest first."""

    name = "runs"
    page = "runs"
    title = "runs"
    one, several = "run", "runs"
    counts = "runs"
    asks = ("show", *OF_FAILURES, *ASKS)
    at_once_most = 5_000
    is_bound = False
    has_range = True
    columns = (
        *("run", "name", "service", "instance", "version", "source", "stands", "rung", "failed attempts", "retries"),
        *("waited s", "started", "ended", "took s", "cost USD", "policy", "derived steps", "causes"),
    )

    def needs(self, wish: Wish) -> tuple[str, str]:
        """To look."""
        return "see", wish.environment

    def total(self, wish: Wish, *, most: int | None = None) -> int:
        """How many runs there are; counting may stop behind `most`. At most seven queries."""
        number = _run_list_of(wish).count(most)
        return number.value + number.is_least

    def batches(self, wish: Wish) -> Iterator[Batch]:
        """Page after page of the list."""
        listed = _run_list_of(wish)
        reporting: Reporting | None = None
        after: Place | None = None
        while True:
            page = listed.page(after, _AT_ONCE)
            if reporting is None and any(one.ended is None for one in page.rows):
                reporting = reporting_in(wish.environment, page.rows, wish.now)
            yield Batch([_cells(story, wish.now, reporting or ()) for story in page.rows], len(page.rows))
            if page.further is None:
                return
            after = page.further


def _run_list_of(wish: Wish) -> RunList:
    if wish.start is None or wish.end is None:
        raise ValueError("needs a time range")
    return run_list_of(wish.environment, wish.given, start=wish.start, end=wish.end, now=wish.now)


def run_list_of(environment: str, given: Any, *, start: datetime, end: datetime, now: datetime) -> RunList:
    """The runs that an address asks for. At most five queries, none where it asks for a tab alone."""
    return RunList.of(environment, filters_of(environment, given), start=start, end=end, now=now)


def show_of(given: Any) -> Show:
    """Which runs an address asks for."""
    return Show(one_of(given, "show", tuple(Show), Show.TROUBLED))


def of_failures(given: Any) -> dict[str, str]:
    """What of an address narrows the runs that met a failure, by name; empty where nothing does."""
    is_troubled = show_of(given) is Show.TROUBLED
    return {name: given.get(name, "")[:_WORD_CHARS] if is_troubled else "" for name in OF_FAILURES}


def filters_of(environment: str, given: Any) -> RunFilters:
    """The filters that an address names; issues are grouped where one is named."""
    named = of_failures(given)
    outage = named.pop("outage")
    grouping = grouping_of(environment) if named["fingerprint"] else AS_SENT
    struck = struck_in(environment, outage) if outage else None
    return RunFilters(show=show_of(given), grouping=grouping, struck=struck, narrow=Narrow.of(given), **named)


def struck_in(environment: str, outage: str) -> list[Struck]:
    """The parts of a capacity event, by its number or its name; none of one that is not known. Three queries."""
    number = parse_number(outage.strip().upper().removeprefix("CE-"))
    if number is None:
        return []
    found = wholes_by_number(environment, [number], now=timezone.now())
    return [part for row in found.values() for part in parts_struck(row)]


def _cells(story: RunStory, now: datetime, reporting: Reporting) -> Cells:
    return (
        *(story.run, story.name, story.service, story.instance, story.version, story.source),
        *(standing_of(story, now, reporting).word, story.rung, story.failed_attempts, story.retries),
        *(story.waited_by(now),),
        *(story.started, story.ended, story.took, story.numbers.get("cost_usd"), story.policy),
        *(story.derived_steps, " ".join(story.fingerprints)),
    )

"""Runs as a file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.utils import timezone

from events.capacity.asking import parts_struck, wholes_by_number
from events.failures.grouping import AS_SENT
from events.moments import from_us, to_us
from events.narrowing import one_of, set_aside
from events.runs.asking import READ, Show, count_naming, runs
from events.runs.going import Reporting
from events.runs.narrowing import ASKS, Narrow
from events.runs.rows import RunStory
from events.runs.struck import Struck
from recovery_ops.control.exporting.lists import Batch, Cells, FileList, Wish
from recovery_ops.control.failures import grouping_of
from recovery_ops.control.numbers import number_in
from recovery_ops.control.standings import reporting_in, standing_of

_AT_ONCE = 4_000
_FAILURES_READ = 20_000
"""Of fewer, most of the runs that they name would be named again by the next."""
_REMEMBERED = 20_000
"""So many runs at least are known to stand in the file without being told again; others are told, and left out."""
_WORD_CHARS = 401
"""The name of a cause that was split is that long at most."""
OF_FAILURES = ("operation", "breaker", "fingerprint", "outage")
"""What narrows the runs that met a failure, and no others; `outage` is a capacity event, as "CE-12"."""


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
        *("waited s", "started", "ended", "took s", "cost USD", "policy", "derived steps", "causes"),
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
        reporting: Reporting | None = None
        told, told_before = set[str](), set[str]()
        while True:
            until_us = end_us if before_us is None else before_us
            found = runs(
                wish.environment,
                start=from_us(start_us),
                end=from_us(end_us),
                before_us=before_us,
                most=_AT_ONCE,
                read=_FAILURES_READ if show is Show.TROUBLED else READ,
                now=wish.now,
                in_words=False,
                besides=told | told_before,
                **asked,
            )
            if reporting is None and any(one.ended is None for one in found.rows):
                reporting = reporting_in(wish.environment, found.rows, wish.now)
            told.update(one.run for one in found.rows)
            if len(told) >= _REMEMBERED:
                told, told_before = set(), told
            rest_us = start_us if found.older_us is None else found.older_us
            looked = count_naming(wish.environment, show, rest_us, until_us)
            yield Batch([_cells(story, wish.now, reporting or ()) for story in found.rows], looked)
            if found.older_us is None:
                return
            before_us = found.older_us


def show_of(given: Any) -> Show:
    """Which runs an address asks for."""
    return Show(one_of(given, "show", tuple(Show), Show.TROUBLED))


def of_failures(given: Any) -> dict[str, str]:
    """What of an address narrows the runs that met a failure, by name; empty where nothing does."""
    is_troubled = show_of(given) is Show.TROUBLED
    return {name: given.get(name, "")[:_WORD_CHARS] if is_troubled else "" for name in OF_FAILURES}


def asked_of(environment: str, given: Any) -> dict[str, Any]:
    """What `runs` is asked beside its range: the kind, what narrows it, and how causes are grouped where one does."""
    narrowed = of_failures(given)
    outage = narrowed.pop("outage")
    grouping = grouping_of(environment) if narrowed["fingerprint"] else AS_SENT
    struck = struck_in(environment, outage) if outage else None
    return {"show": show_of(given), "grouping": grouping, "struck": struck, "narrow": Narrow.of(given), **narrowed}


def struck_in(environment: str, outage: str) -> list[Struck]:
    """The parts of a capacity event, by its number or its name; none of one that is not known. Three queries."""
    number = number_in(outage.strip().upper().removeprefix("CE-"))
    if number is None:
        return []
    found = wholes_by_number(environment, [number], now=timezone.now())
    return [part for row in found.values() for part in parts_struck(row)]


def before_of(given: Any) -> int | None:
    """Below which moment an address asks for runs."""
    before = given.get("before", "")
    number = number_in(before)
    if number is None:
        set_aside(given, "before", before)
    return number


def _span(wish: Wish) -> tuple[int, int]:
    if wish.start is None or wish.end is None:
        raise ValueError("runs are those of a range")
    return to_us(wish.start), to_us(wish.end)


def _cells(story: RunStory, now: datetime, reporting: Reporting) -> Cells:
    return (
        *(story.run, story.name, story.service, story.instance, story.version, story.source),
        *(standing_of(story, now, reporting).word, story.rung, story.failed_attempts, story.retries),
        *(story.waited_by(now),),
        *(story.started, story.ended, story.took, story.numbers.get("cost_usd"), story.policy),
        *(story.derived_steps, " ".join(story.fingerprints)),
    )

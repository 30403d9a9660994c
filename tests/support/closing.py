"""The closing lines of a run: how many tests of each tier there were, and whether the run outgrew its budget."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.tiers import BUDGET_S, TIERS


def lines(stats: Mapping[str, Sequence[Any]], chosen: str, took_s: float) -> Iterator[tuple[str, bool]]:
    """A line for each tier, then one for the run; each with whether it is bad news.

    `stats` are pytest's reports by outcome; `chosen` is the tier that was asked for, empty for a path or a slice.
    """
    counts: Counter[str] = Counter()
    seconds: defaultdict[str, float] = defaultdict(float)
    for report in (one for reports in stats.values() for one in reports if hasattr(one, "when")):
        tier = dict(getattr(report, "user_properties", ())).get("tier", "")  # a report of a failed collection has none
        counts[tier] += report.when == "call" and not hasattr(report, "context")  # a subtest has one
        seconds[tier] += getattr(report, "duration", 0.0)
    for tier in TIERS:
        if counts[tier]:
            yield f"tier {tier}: {counts[tier]} tests, {seconds[tier]:.0f} s of all processes together", False
    budget = BUDGET_S.get("full" if chosen == "all" else chosen)
    if budget is not None:
        is_over = took_s > budget
        word = "more than" if is_over else "within"
        yield f"the {chosen} run took {took_s:.0f} s, {word} its budget of {budget} s on two cores", is_over

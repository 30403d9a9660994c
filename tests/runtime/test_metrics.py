"""Counts of calls against a recount of the events and of the calls themselves."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery_ops.rules import events
from recovery_ops.rules.enums import State
from recovery_ops.rules.policy.model import Settings
from recovery_ops.runtime import Fallback
from recovery_ops.runtime.calls.metrics import LATENCY_BOUNDS_S, Rejections
from recovery_ops.runtime.testing import HttpError, Lab
from tests.support.examples import examples

SOURCES = ("main_agent", "nightly")
SCRIPTS: dict[str, tuple[Any, ...]] = {
    "fine": ("ok",),
    "retried": (TimeoutError(), HttpError(500), "ok"),
    "exhausted": (HttpError(500),),
    "refused": (HttpError(404),),
}
Told = dict[tuple[str, str], Counter[str]]
_NAMES: dict[type[events.Event], str] = {
    events.RetryScheduled: "retries",
    events.FallbackActivated: "fallbacks",
    events.Exhausted: "exhausted",
    events.DegradationStarted: "degraded",
    events.FailureClassified: "failed",
}


class Recount:
    """Two operations of two sources: `plain` and `rich`, which has a fallback and is optional."""

    def __init__(self) -> None:
        self.lab = Lab(reraise=False)
        self.expected: Told = {}
        self.places = {name: self._guarded(name) for name in ("plain", "rich")}

    def _guarded(self, name: str) -> Any:
        more: dict[str, Any] = {"fallback": self._fall_back, "optional": True} if name == "rich" else {}
        patient = Settings(consecutive_failures=1000, consecutive_failures_with_fallback=0, failure_rate_threshold=0.0)
        return self.lab.recovery.guard(name, idempotent=True, settings=patient, attempt_timeout=5.0, **more)(self._play)

    def _fall_back(self, script: Any, counts: Counter[str], succeeds: bool) -> str:
        if not succeeds:
            raise HttpError(404)
        counts["successes"] += 1  # the call's; the attempt is one of the fallback's own operation
        return "later"

    def _play(self, script: Any, counts: Counter[str], succeeds: bool) -> Any:
        counts["attempts"] += 1
        value = script()
        counts["successes"] += 1
        counts[f"latency.{bisect_left(LATENCY_BOUNDS_S, 0.3)}"] += 1
        return value

    def call(self, name: str, source: str, script: str, *, succeeds: bool) -> None:
        counts = self.expected.setdefault((name, source), Counter())
        counts["calls"] += 1
        played = self.lab.script(*SCRIPTS[script], takes_s=0.3)
        with self.lab.recovery.run(source=source):
            try:
                self.places[name](played, counts, succeeds)
            except Exception:
                self.lab.clock.push(0.1)

    def compare(self) -> None:
        """What was counted since the last time is what happened; then begin anew."""
        self.lab.clock.push(10.0)
        self.lab.recovery.housekeep()
        told = list(zip(self.lab.read.all, self.lab.read.sources, strict=True))
        for fact, source in told:
            if (kind := _NAMES.get(type(fact))) is not None and fact.operation in self.places:
                self.expected[fact.operation, source][kind] += 1
        found: Told = {}
        for fact, source in told:
            if isinstance(fact, events.CallsCounted) and fact.operation in self.places:
                found[fact.operation, source] = self._counts(fact)
        assert found == {place: +counts for place, counts in self.expected.items()}
        self.expected.clear()
        self.lab.read.all.clear()
        self.lab.read.sources.clear()

    def _counts(self, fact: events.CallsCounted) -> Counter[str]:
        assert (fact.in_flight, fact.waiting, fact.rejected) == (0, 0, 0)
        names = ("calls", "attempts", "successes", "retries", "fallbacks", "exhausted", "degraded")
        latency = {f"latency.{index}": count for index, count in enumerate(fact.latency_counts)}
        counts = {name: getattr(fact, name) for name in names} | {"failed": sum(fact.failures.values())} | latency
        return +Counter(counts)


CALLS = st.tuples(st.sampled_from(["plain", "rich"]), st.sampled_from(SOURCES), st.sampled_from(sorted(SCRIPTS)))


@given(st.lists(st.lists(st.tuples(CALLS, st.booleans()), max_size=6), min_size=1, max_size=3))
@settings(max_examples=examples(40, 500), deadline=None)
def test_every_count_is_what_happened(rounds: list[list[Any]]) -> None:
    recount = Recount()
    for calls in rounds:
        for (name, source, script), succeeds in calls:
            recount.call(name, source, script, succeeds=succeeds)
        recount.compare()


def test_failures_are_counted_by_category() -> None:
    lab = Lab(reraise=False)
    guarded = lab.recovery.guard("search", idempotent=True)(lab.script(TimeoutError(), HttpError(500), 500, "ok"))
    with lab.recovery.run(source="main_agent"):
        guarded()
    lab.clock.push(10.0)
    lab.recovery.housekeep()
    (counted,) = lab.events_of(events.CallsCounted)
    assert counted.failures == {"timeout": 1, "server_error": 2}


def rejected(operation: str, reason: str, count: int = 1) -> events.BreakerRejected:
    return events.BreakerRejected(
        operation=operation, breaker=operation, state=State.OPEN, count=count, window_s=0.0, reason=reason
    )


def test_rejections_are_summed_since_the_first() -> None:
    rejections = Rejections()
    for begin in (100.0, 200.0):
        rejections.add(rejected("a", "breaker_open"), begin)
        rejections.add(rejected("a", "breaker_open", 3), begin + 2.0)
        rejections.add(rejected("b", "breaker_open"), begin + 3.0)
        rejections.add(rejected("a", "forced"), begin + 4.0)
        found = rejections.taken(begin + 5.0)
        assert {(one.operation, one.reason): one.count for one in found} == {
            ("a", "breaker_open"): 4,
            ("b", "breaker_open"): 1,
            ("a", "forced"): 1,
        }
        assert {one.window_s for one in found} == {5.0}
    assert rejections.taken(300.0) == ()


@pytest.mark.parametrize("count", [1, 3])
def test_rejected_calls_are_counted_for_their_operation(count: int) -> None:
    lab = Lab()
    guarded = lab.recovery.guard("search")(lab.script("ok"))
    lab.trip("search")
    with lab.recovery.run(source="main_agent"):
        for _ in range(count):
            with pytest.raises(Exception, match="search"):
                guarded()
    lab.clock.push(10.0)
    lab.recovery.housekeep()
    (counted,) = lab.events_of(events.CallsCounted)
    assert (counted.calls, counted.rejected, counted.attempts) == (count, count, 0)
    assert sum(fact.count for fact in lab.events_of(events.BreakerRejected)) == count


def test_fallback_latency_counts_for_fallback() -> None:
    lab = Lab(reraise=False)
    slow, quick = lab.script(HttpError(503), takes_s=4.0), lab.script("old", takes_s=0.002)
    said: dict[str, Any] = {"max_retries": 0, "attempt_timeout": 5.0, "idempotent": True}
    lab.recovery.guard("live", fallback=Fallback(quick, name="stored"), **said)(slow)()
    lab.recovery.flush()
    counted = {one.operation: sum(one.latency_counts) for one in lab.events_of(events.CallsCounted)}
    assert counted == {"live": 0, "stored": 1}

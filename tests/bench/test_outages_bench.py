"""The measurement of outages: it counts right, and a rule that finds nothing or everything shows."""

from __future__ import annotations

from recovery_ops.bench.outages import Score, Traffic, judge, measure
from recovery_ops.rules.outages import Hit, Interval, OutageBounds


def storm(at: float, runs: int = 2) -> list[Hit]:
    return [Hit(at + n, f"run-{n % runs}", "agent") for n in range(20)]


def test_what_is_there_what_is_found_and_what_is_false_is_counted() -> None:
    traffic = Traffic(hits=[*storm(100), *storm(2000)], known=[Interval(100, 119), Interval(5000, 5100)])
    score = Score()
    judge(traffic, score)
    assert (score.known, score.found, score.right, score.met, score.pieces) == (2, 2, 1, 1, 1)
    assert (score.precision, score.recall) == (0.5, 0.5)
    assert 0 <= score.delays_s[0] <= 5


def test_one_run_that_hammers_is_not_found() -> None:
    score = Score()
    judge(Traffic(hits=storm(100, runs=1)), score)
    assert score.found == 0


def test_the_rule_finds_every_outage_soon_and_a_deaf_one_none() -> None:
    figures = {figure.what: figure.value for figure in measure(1).figures}
    assert figures["recall"] == 100
    assert figures["events per outage"] == 1
    assert (figures["found after, p99"] or 99) <= 10
    deaf = {figure.what: figure.value for figure in measure(1, OutageBounds(least_failures=10_000)).figures}
    assert deaf["recall"] == 0

"""The measurement of outages: it counts right, and a rule that finds nothing or everything shows."""

from __future__ import annotations

from recovery_ops.bench.outages import Score, Traffic, fallen_together, judge, measure
from recovery_ops.rules.incidents.detection import Hit, Interval, OutageBounds


def storm(at: float, runs: int = 2) -> list[Hit]:
    return [Hit(at + n, f"run-{n % runs}", "agent") for n in range(20)]


def test_what_is_there_what_is_found_and_what_is_false_is_counted() -> None:
    traffic = Traffic(hits=[*storm(100), *storm(2000)], known=[Interval(100, 119), Interval(5000, 5100)])
    score = Score()
    judge(traffic, score)
    assert (score.known, score.found, score.right, score.met, score.pieces) == (2, 2, 1, 1, 1)
    assert (score.precision, score.recall) == (0.5, 0.5)
    assert 0 <= score.delays_s[0] <= 5


def test_what_falls_together_by_chance_is_an_outage_by_its_definition_and_what_one_run_does_is_none() -> None:
    together = [Hit(at, f"run-{at}", f"agent-{at}") for at in (0, 5, 10, 15, 20)]
    assert fallen_together(together) == [Interval(0, 20)]
    assert fallen_together(together[:4]) == []
    assert fallen_together([*storm(0, runs=1), Hit(2, "other", "agent-2"), Hit(3, "third", "agent-3")]) == []
    score = Score()
    judge(Traffic(hits=together, by_chance=[Interval(0, 20)]), score)
    assert (score.found, score.right, score.made, score.precision, score.made_share) == (1, 1, 0, 1.0, 0.0)


def test_on_the_seeded_traffic_nothing_is_missed_and_nothing_is_found_that_is_no_outage() -> None:
    """All seeds, as `manage.py bench outages` measures: chance is seeded, so these are the figures and no sample."""
    figures = {figure.what: figure.value for figure in measure().figures}
    assert figures["precision"] == 100
    assert figures["recall"] == 100
    assert figures["false events"] == 0
    assert figures["events that were made as outages"] == 95.65
    assert figures["events per outage"] == 1
    loose = {figure.what: figure.value for figure in measure(1, OutageBounds(least_failures=2)).figures}
    assert (loose["events that were made as outages"] or 100) < 60, "a rule that is too eager shows"


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

"""What the measurement of queries says of its figures: what is too slow, what grows, and what is only noise."""

from __future__ import annotations

from recovery_ops.bench.figures import Figure
from recovery_ops.bench.queries import Asked, figures_of
from recovery_ops.bench.yardstick import REFERENCE_PER_S, Yardstick

TOLD = {
    "quick": [Asked(3.0, 1.0, 1.4, 0.5), Asked(30.0, 1.0, 9.0, 0.5)],
    "slow": [Asked(40.0, 40.0, 39.0, 39.0)],
    "growing": [Asked(20.0, 5.0, 19.0, 4.9)],
}


def told_on(share: float) -> dict[str, Figure]:
    return {one.what: one for one in figures_of(TOLD, Yardstick(REFERENCE_PER_S * share))}


def test_each_aim_is_judged_by_the_quietest_turn() -> None:
    found = told_on(1.0)
    assert (found["questions within their time"].value, found["questions that do not grow"].value) == (2, 2)
    assert (found["the slowest"].value, found["the slowest"].note, found["the slowest"].aim) == (40.0, "slow", 25.0)
    assert [name for name in TOLD if "SLOW" in found[name].note] == ["slow"]
    assert [name for name in TOLD if "GROWS" in found[name].note] == ["growing"]
    assert found["quick"].value == 3.0


def test_aims_are_those_of_the_machine() -> None:
    found = told_on(0.5)
    assert found["slow"].aim == 50.0
    assert found["questions within their time"].value == len(TOLD)
    assert found["questions that do not grow"].value == 2, "growth is a ratio on any machine"

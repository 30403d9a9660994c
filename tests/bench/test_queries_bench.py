"""What the measurement of queries says of its figures: what is too slow, what grows, and what is only noise."""

from __future__ import annotations

from recovery_ops.bench.figures import Figure
from recovery_ops.bench.queries import Asked, figures_of
from recovery_ops.bench.yardstick import REFERENCE_PER_S, Yardstick

TOLD = {
    "quick": [Asked(1.0, 3.0, 2.0, 0.5, 1.4, 1.4), Asked(1.0, 30.0, 2.0, 0.5, 9.0, 9.0)],
    "slow": [Asked(40.0, 40.0, 40.0, 39.0, 39.0, 39.0)],
    "slow in a denser week": [Asked(4.0, 4.0, 40.0, 3.9, 3.9, 39.0)],
    "growing": [Asked(5.0, 20.0, 5.0, 4.9, 19.0, 4.9)],
}


def told_on(share: float) -> dict[str, Figure]:
    return {one.what: one for one in figures_of(TOLD, Yardstick(REFERENCE_PER_S * share))}


def test_each_aim_is_judged_by_the_quietest_turn() -> None:
    found = told_on(1.0)
    assert (found["questions within their time"].value, found["questions that do not grow with history"].value) == (
        2,
        3,
    )
    assert found["nor with a denser week"].value == 3
    assert (found["the slowest"].value, found["the slowest"].note, found["the slowest"].aim) == (40.0, "slow", 25.0)
    assert [name for name in TOLD if "SLOW" in found[name].note] == ["slow", "slow in a denser week"]
    assert [name for name in TOLD if "GROWS" in found[name].note] == ["growing"]
    assert found["quick"].value == 3.0


def test_aims_are_those_of_the_machine() -> None:
    found = told_on(0.5)
    assert found["slow"].aim == 50.0
    assert found["questions within their time"].value == len(TOLD)
    assert found["questions that do not grow with history"].value == 3, "growth is a ratio on any machine"

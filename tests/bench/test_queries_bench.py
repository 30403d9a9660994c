"""What the measurement of queries says of its figures: what is too slow, what grows, and what is only noise."""

from __future__ import annotations

from dataclasses import replace

from recovery_ops.bench.figures import Figure
from recovery_ops.bench.queries import Asked, figures_of
from recovery_ops.bench.yardstick import REFERENCE_PER_S, Yardstick


def asked(whole_ms: list[float], query_ms: list[float], cpu_ms: list[float]) -> Asked:
    """Each with few facts, in a longer history and in a denser week."""
    return Asked(*whole_ms, *query_ms, *cpu_ms)


TOLD = {
    "quick": [asked([9, 9, 9], [1, 3, 2], [0.5, 1.4, 1.4]), asked([9, 30, 9], [1, 30, 2], [0.5, 9, 9])],
    "slow": [asked([44, 44, 44], [40, 40, 40], [39, 39, 39])],
    "slow in a denser week": [asked([4, 4, 41], [4, 4, 40], [3.9, 3.9, 39])],
    "slow as a whole": [asked([30, 30, 30], [5, 5, 5], [29, 29, 29])],
    "growing": [asked([5, 20, 5], [5, 20, 5], [4.9, 19, 4.9])],
    "of a longer time": [replace(asked([5, 20, 5], [5, 20, 5], [4.9, 19, 4.9]), is_within_a_week=False)],
    "of a longer time, at no price": [replace(asked([5] * 3, [5] * 3, [5] * 3), is_within_a_week=False)],
}


def told_on(share: float) -> dict[str, Figure]:
    return {one.what: one for one in figures_of(TOLD, Yardstick(REFERENCE_PER_S * share))}


def test_each_aim_is_judged_by_the_quietest_turn() -> None:
    found = told_on(1.0)
    quick, flat = found["questions whose queries keep their time"], found["questions that do not grow with history"]
    assert (quick.value, quick.aim, flat.value) == (5, len(TOLD), 4)
    assert flat.aim == len(TOLD) - 2
    apart = found["not asked that"]
    assert (apart.value, apart.note.rpartition("; ")[2]) == (2, "1 take no longer")
    assert found["nor with a denser week"].value == 6
    slowest = found["the slowest query"]
    assert (slowest.value, slowest.note, slowest.aim) == (40.0, "slow", 25.0)
    assert found["whole answers within that time"].value == 4
    assert [name for name in TOLD if "SLOW" in found[name].note] == ["slow", "slow in a denser week"]
    assert [name for name in TOLD if "GROWS" in found[name].note] == ["growing"]
    assert [name for name in TOLD if "LOOKS FURTHER" in found[name].note] == ["of a longer time"]
    assert (found["quick"].value, found["quick"].beside) == (3, 1)


def test_aims_are_those_of_the_machine() -> None:
    found = told_on(0.5)
    assert found["slow"].aim == 50.0
    assert found["questions whose queries keep their time"].value == len(TOLD)
    assert found["questions that do not grow with history"].value == 4, "growth is a ratio on any machine"

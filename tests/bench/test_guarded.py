"""The measurement of guards at its smallest: it runs, tells what it was asked for, and names what it could not have."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from rich.console import Console

from recovery_ops.bench import __main__ as bench
from recovery_ops.bench import guarded, peers
from recovery_ops.bench.figures import Figure, Report
from recovery_ops.bench.rounds import Cost, cost_of_awaits, cost_of_calls

OURS = {"guarded call", "guarded call in a run", "guarded call with a deadline", "guarded await"}


@pytest.fixture(scope="module")
def report() -> Report:
    return guarded.measure_here(rounds=2)


def figures(report: Report) -> dict[str, Figure]:
    return {figure.what: figure for figure in report.figures}


def test_ours_are_measured_beside_a_bare_call_and_a_floor(report: Report) -> None:
    found = figures(report)
    assert found.keys() >= OURS | {"hand-written floor", "bare call", "fact emitted, caller's thread"}
    for name in OURS:
        assert found[name].beside
        assert found[name].of_floor is not None


def test_the_aim_is_a_share_of_what_the_peer_costs_and_none_without_it(report: Report) -> None:
    found = figures(report)
    peer, guard = found[guarded.PEER], found["guarded call"]
    assert (guard.aim is None) == (peer.value is None)
    if peer.value is not None:
        assert guard.aim == pytest.approx(peer.value * 250 / 367)


def test_each_library_is_measured_or_said_to_be_skipped(report: Report) -> None:
    found = figures(report)
    names = {f"{one.name}, async" for one in peers.PEERS if one.wrap_async}
    names |= {one.name for one in peers.PEERS if one.wrap}
    assert names <= found.keys()
    for name in names:
        assert (found[name].value is None) == found[name].note.startswith("skipped: "), name


def test_a_report_survives_the_way_between_processes(report: Report) -> None:
    assert Report.read(json.loads(json.dumps(report.document()))) == report


def test_what_was_skipped_is_printed() -> None:
    report = Report("x", [Figure("pybreaker", None, "ns", note="skipped: no such package")])
    screen = Console(file=StringIO(), width=120)
    bench._print(report, screen)
    assert "skipped: no such package" in screen.file.getvalue()  # type: ignore[attr-defined]  # it is a StringIO


def test_the_floor_counts_failures_and_lets_them_through() -> None:
    def fail(value: int) -> int:
        raise ValueError(value)

    with pytest.raises(ValueError, match="7"):
        peers.floor(fail)(7)
    assert peers.floor(lambda value: value + 1)(7) == 8


def test_a_dearer_call_costs_more() -> None:
    async def cheap(value: int) -> int:
        return value

    async def dear(value: int) -> int:
        return sum(range(2_000)) + value

    calls = cost_of_calls({"cheap": abs, "dear": lambda value: sum(range(2_000)) + value}, 3)
    awaits = cost_of_awaits({"cheap": cheap, "dear": dear}, 3)
    for costs in (calls, awaits):
        assert isinstance(costs["cheap"], Cost)
        assert 0 < costs["cheap"].least < costs["dear"].least

"""What a guard costs a call that goes well, beside a bare call, a hand-written floor and other libraries.

The other libraries live in an environment of their own, so the measuring is done by a process of that environment
(`python -m recovery_ops.bench.guarded`), which has the runtime's few needs and none of the server's.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from statistics import median
from time import perf_counter_ns

from recovery_ops.bench import peers
from recovery_ops.bench.figures import Figure, Report
from recovery_ops.bench.rounds import Cost, cost_of_awaits, cost_of_calls
from recovery_ops.rules.enums import Category, Evidence
from recovery_ops.rules.events import FailureClassified, Instance
from recovery_ops.runtime import Recovery
from recovery_ops.runtime.process.clock import Clock
from recovery_ops.runtime.telemetry.outbox import Outbox
from recovery_ops.runtime.telemetry.pipeline import Telemetry
from recovery_ops.server import bootstrap

ROUNDS = 1200
INSTANCE = Instance(service="bench", instance="bench-1")
WHOLE = "breaker, retry, fallback, counts"
PEER = "circuitbreaker"
"""Whose cost the aims are shares of: the cheapest library that has nothing but a breaker (docs/decisions/0023)."""
TIMED = f"{WHOLE}, deadline, latency histogram"
_IMPORT = """
import time; began = time.perf_counter()
import recovery_ops.runtime
print(1000 * (time.perf_counter() - began))
"""


def measure() -> Report:
    """Measured in the environment with the other libraries; without it here, and then most of them are skipped."""
    with contextlib.redirect_stdout(sys.stderr):  # what pip says belongs to no table
        has_peers = bootstrap.has_beside("bench", bootstrap.BENCH)
    if not has_peers:
        return measure_here()
    python = str(bootstrap.BENCH / "bin" / "python")
    command = [python, "-m", "recovery_ops.bench.guarded"]
    told = subprocess.run(command, cwd=bootstrap.ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return Report.read(json.loads(told.stdout))


def measure_here(rounds: int = ROUNDS) -> Report:
    """The same in this process, with the libraries that are installed here."""
    report = Report("guarded call, over a bare one")
    telemetry = Telemetry(INSTANCE, outbox=Outbox(None, clock=Clock()), clock=Clock(), send=None)
    recovery = Recovery("bench", url="", sink=telemetry, is_background_work_wanted=False)
    try:
        _measure_threads(report, recovery, rounds)
        _measure_tasks(report, recovery, rounds)
        _measure_emit(report, telemetry, max(2, rounds // 30))
        _measure_import(report, max(1, rounds // 150))
    finally:
        telemetry.close(2.0)
    return report


def _measure_threads(report: Report, recovery: Recovery, rounds: int) -> None:
    def bare(value: int) -> int:
        return value

    def other(value: int) -> int:
        return value

    guarded = recovery.guard("guarded", idempotent=True, fallback=other)(bare)
    timed = recovery.guard("timed", idempotent=True, fallback=other, attempt_timeout=10.0)(bare)

    others = peers.found(bare, is_async=False)
    cases: dict[str, Callable[[int], object]] = {"bare": bare, "floor": peers.floor(bare)}
    cases |= {"guarded": guarded, "timed": timed, **others.calls}
    costs = cost_of_calls(cases, rounds)
    with recovery.run(source="main_agent"):
        in_run = cost_of_calls({name: cases[name] for name in ("bare", "floor", "guarded")}, rounds)
    add = _Adder(report, costs["bare"], costs["floor"], costs.get(PEER))
    report.add("bare call", costs["bare"].least, "ns")
    add("hand-written floor", costs["floor"], "breaker only: state, ring of outcomes, lock")
    add("guarded call", costs["guarded"], WHOLE, of_peer=250 / 367)
    _Adder(report, in_run["bare"], in_run["floor"])("guarded call in a run", in_run["guarded"], WHOLE)
    add("guarded call with a deadline", costs["timed"], TIMED, of_peer=450 / 367)
    _add_peers(report, add, costs, others)


def _measure_tasks(report: Report, recovery: Recovery, rounds: int) -> None:
    async def bare(value: int) -> int:
        return value

    async def other(value: int) -> int:
        return value

    guarded = recovery.guard("guarded_async", idempotent=True, fallback=other)(bare)
    timed = recovery.guard("timed_async", idempotent=True, fallback=other, attempt_timeout=10.0)(bare)
    others = peers.found(bare, is_async=True)
    cases: dict[str, Callable[[int], Awaitable[object]]] = {"bare": bare, "floor": peers.floor_async(bare)}
    cases |= {"guarded": guarded, "timed": timed, **others.calls}
    costs = cost_of_awaits(cases, rounds)
    add = _Adder(report, costs["bare"], costs["floor"], costs.get(PEER))
    report.add("bare await", costs["bare"].least, "ns")
    add("hand-written floor, async", costs["floor"], "breaker only: state, ring of outcomes")
    add("guarded await", costs["guarded"], WHOLE, of_peer=350 / 449)
    add("guarded await with a deadline", costs["timed"], TIMED, of_peer=700 / 449)
    _add_peers(report, add, costs, others, ", async")


class _Adder:
    """Adds what a case costs over the bare call, as a multiple of the bare call and of the floor.

    An aim is a share of what the peer costs in the same run: nanoseconds would be an aim for one machine.
    """

    def __init__(self, report: Report, bare: Cost, floor: Cost, peer: Cost | None = None) -> None:
        self._report, self._bare = report, bare
        self._floor_ns = max(1.0, floor.least - bare.least)
        self._peer_ns = None if peer is None else peer.least - bare.least

    def __call__(self, what: str, cost: Cost, does: str, of_peer: float | None = None) -> None:
        over = cost.least - self._bare.least
        aim = None if of_peer is None or self._peer_ns is None else of_peer * self._peer_ns
        self._report.add(
            what,
            over,
            "ns",
            beside=self._bare.least,
            aim=aim,
            of_floor=over / self._floor_ns,
            middle=cost.middle - self._bare.middle,
            note=does,
        )


def _add_peers(report: Report, add: _Adder, costs: dict[str, Cost], others: peers.Found, kind: str = "") -> None:
    for name, does in others.does.items():
        add(f"{name}{kind}", costs[name], does)
    for name, why in others.skipped.items():
        report.figures.append(Figure(f"{name}{kind}", None, "ns", note=f"skipped: {why}"))


def _measure_emit(report: Report, telemetry: Telemetry, rounds: int) -> None:
    fact = FailureClassified(
        operation="search",
        category=Category.TIMEOUT,
        evidence=Evidence.EXCEPTION_TYPE,
        retryable=True,
        attempt=1,
    )
    found = []
    for _ in range(rounds):
        telemetry.flush(5.0)
        began = perf_counter_ns()
        for _ in range(200):
            telemetry.emit(fact, "main_agent", True, "run", "1")
        found.append((perf_counter_ns() - began) / 200)
    report.add(
        "fact emitted, caller's thread", min(found), "ns", aim=2000.0, middle=median(found), note="encoded elsewhere"
    )


def _measure_import(report: Report, times: int) -> None:
    """In a fresh process, from compiled code."""
    found = []
    for _ in range(times + 1):  # the first one compiles
        command = [sys.executable, "-c", _IMPORT]
        told = subprocess.run(
            command, cwd=bootstrap.ROOT, stdout=subprocess.PIPE, text=True, check=True, env=_compiling()
        )
        found.append(float(told.stdout))
    report.add("import of recovery_ops.runtime", min(found), "ms", aim=150.0, middle=median(found), note="cold process")


def _compiling() -> dict[str, str]:
    """The environment without what keeps Python from storing the code that it compiled."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


if __name__ == "__main__":
    print(json.dumps(measure_here().document()))

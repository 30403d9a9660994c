"""What a guard costs a call that goes well, and what a fact costs a call that does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

from recovery_ops.bench.figures import Report, ns_per_call
from recovery_ops.rules.facts import FailureClassified, Instance
from recovery_ops.rules.words import Category, Evidence
from recovery_ops.runtime import Recovery
from recovery_ops.runtime.clock import Clock
from recovery_ops.runtime.telemetry import Telemetry

INSTANCE = Instance(service="bench", instance="bench-1")


def measure() -> Report:
    """Guarded calls beside bare ones, threads and tasks, and the cost of emitting a fact."""
    report = Report("guarded call")
    telemetry = Telemetry(INSTANCE, outbox=None, clock=Clock(), send=None)
    recovery = Recovery("bench", url="", sink=telemetry, is_background_work_wanted=False)

    def bare(value: int) -> int:
        return value

    guarded = recovery.guard("guarded", is_destructive=False, fallback=lambda value: value)(bare)
    plain = ns_per_call(lambda: bare(1))
    report.add("bare call", plain, "ns")
    report.add("guarded call, over bare", ns_per_call(lambda: guarded(1)) - plain, "ns", aim=250.0)
    with recovery.run(source="main_agent"):
        report.add("guarded call in a run, over bare", ns_per_call(lambda: guarded(1)) - plain, "ns", aim=250.0)
    _measure_tasks(report, recovery)
    _measure_emit(report, telemetry)
    telemetry.close(2.0)
    return report


def _measure_tasks(report: Report, recovery: Recovery) -> None:
    async def bare(value: int) -> int:
        return value

    guarded = recovery.guard("guarded_async", is_destructive=False)(bare)
    plain = asyncio.run(_ns_per_await(bare))
    report.add("bare await", plain, "ns")
    report.add("guarded await, over bare", asyncio.run(_ns_per_await(guarded)) - plain, "ns", aim=350.0)
    timed = recovery.guard("timed_async", is_destructive=False, deadline_s=10.0)(bare)
    report.add("with a call deadline, over bare", asyncio.run(_ns_per_await(timed)) - plain, "ns", aim=700.0)


async def _ns_per_await(call: Callable[[int], Awaitable[Any]], times: int = 50_000, rounds: int = 9) -> float:
    found = []
    for _ in range(rounds):
        began = time.perf_counter_ns()
        for _ in range(times):
            await call(1)
        found.append((time.perf_counter_ns() - began) / times)
    return median(found)


def _measure_emit(report: Report, telemetry: Telemetry) -> None:
    fact = FailureClassified(
        operation="search",
        category=Category.TIMEOUT,
        evidence=Evidence.EXCEPTION_TYPE,
        retryable=True,
        attempt=1,
    )
    found = []
    for _ in range(30):
        telemetry.flush(5.0)
        began = time.perf_counter_ns()
        for _ in range(200):
            telemetry.emit(fact, "main_agent", True, "run", "1")
        found.append((time.perf_counter_ns() - began) / 200)
    report.add("fact emitted, caller's thread", median(found), "ns", aim=2000.0)

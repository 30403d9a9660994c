"""Timing that survives a busy machine: many short rounds, all cases in turn within each, and the least of each case.

What else runs on the machine can only add to a round. The least of some hundred rounds is what the work itself takes;
because the cases take turns, a machine that is slower for a second is slower for all of them.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Mapping
from itertools import repeat
from statistics import median
from time import perf_counter_ns
from types import FunctionType
from typing import Any, NamedTuple

ROUND_NS = 100_000
_LEAST_CALLS, _MOST_CALLS = 10, 2_000


class Cost(NamedTuple):
    """Nanoseconds of one call: the least of all rounds, and the median, which tells how busy the machine was."""

    least: float
    middle: float


def cost_of_calls(cases: Mapping[str, Callable[[int], object]], rounds: int) -> dict[str, Cost]:
    """What a call of each case costs, the loop included."""
    loops = {name: _own(_loop) for name in cases}
    times = {name: _times(loops[name](call, _LEAST_CALLS)) for name, call in cases.items()}
    found: dict[str, list[float]] = {name: [] for name in cases}
    gc.collect()
    for _ in range(rounds):
        for name, call in cases.items():
            found[name].append(loops[name](call, times[name]))
    return {name: Cost(min(each), median(each)) for name, each in found.items()}


def cost_of_awaits(cases: Mapping[str, Callable[[int], Awaitable[object]]], rounds: int) -> dict[str, Cost]:
    """The same in one task of one event loop."""

    async def main() -> dict[str, list[float]]:
        loops = {name: _own(_loop_async) for name in cases}
        times = {name: _times(await loops[name](call, _LEAST_CALLS)) for name, call in cases.items()}
        found: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(rounds):
            for name, call in cases.items():
                found[name].append(await loops[name](call, times[name]))
        return found

    return {name: Cost(min(each), median(each)) for name, each in asyncio.run(main()).items()}


def _times(ns: float) -> int:
    return max(_LEAST_CALLS, min(_MOST_CALLS, int(ROUND_NS / max(ns, 1.0))))


def _loop(call: Callable[[int], object], times: int) -> float:
    began = perf_counter_ns()
    for _ in repeat(None, times):
        call(1)
    return (perf_counter_ns() - began) / times


async def _loop_async(call: Callable[[int], Awaitable[object]], times: int) -> float:
    began = perf_counter_ns()
    for _ in repeat(None, times):
        await call(1)
    return (perf_counter_ns() - began) / times


def _own(loop: Any) -> Any:
    """A copy of the loop with code of its own: the interpreter adapts code to what it calls, and may not mix cases."""
    return FunctionType(loop.__code__.replace(), loop.__globals__)

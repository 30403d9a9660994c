"""The state of a client as plain data, for the program itself and for the status file of its process."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

from recovery_ops.runtime.calls.operation import Operation
from recovery_ops.runtime.engine import Engine


def snapshot(recovery: Engine, undelivered: int) -> dict[str, Any]:
    """Operations with their counts, breakers, runs, revision and undelivered events of a client. Times are UTC."""
    instance = recovery.instance
    with recovery.lock:
        operations = {name: _operation(one) for name, one in recovery.operations.items()}
        breakers = {
            operation.place.breaker: {
                "state": operation.standing.breaker.state.value,
                "since": _time(recovery.moved_at.get(operation.place.breaker)),
            }
            for operation in recovery.operations.values()
        }
        runs = sum(len(scopes) for scopes in recovery.runs_in_flight.values())
    return {
        "service": instance.service,
        "instance": instance.instance,
        "environment": instance.environment,
        "pid": os.getpid(),
        "at": _time(recovery.clock.wall()),
        "revision": recovery.desired.revision,
        "runs_in_flight": runs,
        "undelivered": undelivered,
        "operations": operations,
        "breakers": breakers,
    }


def _operation(operation: Operation) -> dict[str, Any]:
    totals: dict[str, int] = {}
    failures: dict[str, int] = {}
    for cell in operation.cells.values():
        for name, count in cell.totals().items():
            kind, _, category = name.partition(".")
            if kind == "failure":
                failures[category] = failures.get(category, 0) + count
            elif kind != "latency":
                totals[name] = totals.get(name, 0) + count
    return {**totals, "failures": failures, "breaker": operation.place.breaker}


def _time(wall: float | None) -> str | None:
    return None if wall is None else datetime.fromtimestamp(wall, UTC).isoformat(timespec="seconds")

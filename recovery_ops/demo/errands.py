"""What the demonstration's agents do now and then, and what ends with a person: a spent budget, a refused reversal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from recovery_ops.demo.client import Client
from recovery_ops.rules.verdicts import BUILT_IN_PLAYBOOK, playbook_document
from recovery_ops.rules.words import Compensation, Verdict
from recovery_ops.runtime import (
    Recovery,
    RecoveryError,
    RunStopped,
    ToolRegistry,
    build_tool,
    dispatch_failure_async,
    run_tool,
)

RECORDS = 30
"""In a bibliography; the archive has lost every other one."""

UNDO = playbook_document(BUILT_IN_PLAYBOOK) | {
    Verdict.IDEMPOTENCY_CONFLICT.value: {"compensation": Compensation.ISSUE_REVERSAL.value}
}
"""A shop that would rather undo a payment than keep one of which it does not know how often it was made."""


def bibliography(recovery: Recovery, client: Client) -> Callable[[], None]:
    """Check the sources of a report, one by one: so many are gone that the run's error budget ends it."""

    def read_archive(record: int) -> Any:
        """Reads one record of the archive."""
        return client.post("archive", record=record)

    tool = build_tool("read_archive", read_archive, is_destructive=False, require_permission=False)
    registry = ToolRegistry(recovery, tools=[tool])

    def check() -> None:
        with recovery.run("check a bibliography", source="main_agent", deadline_s=90.0):
            for record in range(RECORDS):
                use = {"type": "tool_use", "id": f"call-{record}", "name": tool.name, "input": {"record": record}}
                run_tool(registry, use)

    def given_up() -> None:
        try:
            check()
        except RunStopped:
            return

    return given_up


def payment(recovery: Recovery, client: Client) -> Callable[[str], Coroutine[Any, Any, None]]:
    """Take a payment whose answer is lost: asked again, it was made already; to undo it, nobody was given a token."""

    @recovery.guard("payment.capture", kind="tool", tool="payment.capture", idempotency_key=lambda order: order)
    async def capture(order: str) -> Any:
        return await asyncio.to_thread(client.post, "payments", order=order)

    async def take(order: str) -> None:
        async with recovery.run("take a payment", source="user_request", deadline_s=60.0):
            try:
                await capture(order)
            except RecoveryError as error:
                await dispatch_failure_async(error, operation="payment.capture", playbook=UNDO, recovery=recovery)

    return take

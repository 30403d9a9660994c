"""What the demonstration's agents do now and then: what ends with a person, what retries too much, what flaps."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from typing import Any

from recovery_ops.demo.client import Client
from recovery_ops.rules.enums import Compensation, Verdict
from recovery_ops.rules.playbook.verdicts import BUILT_IN_PLAYBOOK, playbook_document
from recovery_ops.rules.policy.model import Settings
from recovery_ops.runtime import Recovery, RecoveryError, RunsPaused, StopRun, ToolRegistry, Workflow, build_tool

BIBLIOGRAPHY = "check a bibliography"
RECORDS = 30
"""In a bibliography; the archive has lost every other one."""

UNDO = playbook_document(BUILT_IN_PLAYBOOK) | {
    Verdict.IDEMPOTENCY_CONFLICT.value: {"compensation": Compensation.ISSUE_REVERSAL.value}
}
"""A shop that would rather undo a payment than keep one of which it does not know how often it was made."""


CLOSING_RUNS = range(8, 104, 8)
"""After which of its runs a support agent closes a book: long enough for an alert, early enough that it ends."""
TRANSLATES_EVERY_S = 1.0


def closing(recovery: Recovery, client: Client) -> Callable[[str], Coroutine[Any, Any, Any]]:
    """Close a book that others still write to: it works the third time it is asked, so two of three calls are retries.

    That spends its retry budget twenty times as fast as it may.
    """

    @recovery.guard(
        "ledger.close",
        kind="tool",
        tool="ledger.close",
        idempotency_key=lambda book: f"close-{book}",
        base_delay=0.2,
    )
    async def close(book: str) -> Any:
        return await asyncio.to_thread(client.post, "closing", book=book)

    return close


def translation(recovery: Recovery, client: Client) -> Callable[[str], Any]:
    """Translate over a wire that gets loose: the breaker, which looks at two calls, opens and closes again."""

    @recovery.guard(
        "translate",
        kind="tool",
        tool="translate",
        idempotent=True,
        max_retries=0,
        settings=Settings(
            sliding_window_size=2,
            minimum_number_of_calls=2,
            wait_duration_in_open_s=2.0,
            permitted_calls_in_half_open=1,
        ),
    )
    def translate(text: str) -> Any:
        return client.post("translate", text=text)

    return translate


def translate_on(translate: Callable[[str], Any]) -> None:
    """One page after the other, without end."""
    while True:
        time.sleep(TRANSLATES_EVERY_S)
        with contextlib.suppress(RecoveryError):
            translate("a page")


def bibliography(recovery: Recovery, client: Client) -> Callable[..., None]:
    """Check the sources of a report, one by one: so many are gone that the run's error budget ends it.

    Each record is a step: begun again, the run goes on where it was stopped, with a new budget.
    """

    def read_archive(record: int) -> Any:
        """Reads one record of the archive."""
        return client.post("archive", record=record)

    tool = build_tool("read_archive", read_archive, read_only=True, require_permission=False)
    registry = ToolRegistry(recovery, tools=[tool])

    def is_lost(record: int) -> bool:
        use = {"type": "tool_use", "id": f"call-{record}", "name": tool.name, "input": {"record": record}}
        return registry.run_tool(use).is_error

    def check(run_id: str) -> None:
        with (
            recovery.run(BIBLIOGRAPHY, source="main_agent", run_id=run_id, timeout=90.0) as run,
            Workflow(BIBLIOGRAPHY, run.id, recovery=recovery) as flow,
        ):
            for record in range(RECORDS):
                flow.step(f"record {record}", is_lost, record)
            flow.forget()

    def given_up(run_id: str = "", _: str = "") -> None:
        try:
            check(run_id)
        except (StopRun, RunsPaused):
            return

    return given_up


def payment(recovery: Recovery, client: Client) -> Callable[[str], Coroutine[Any, Any, None]]:
    """Take a payment whose answer is lost: asked again, it was made already; to undo it, nobody was given a token."""

    @recovery.guard("payment.capture", kind="tool", tool="payment.capture", idempotency_key=lambda order: order)
    async def capture(order: str) -> Any:
        return await asyncio.to_thread(client.post, "payments", order=order)

    async def take(order: str) -> None:
        async with recovery.run("take a payment", source="user_request", timeout=60.0):
            try:
                await capture(order)
            except RecoveryError as error:
                await recovery.dispatch_failure_async(error, operation="payment.capture", playbook=UNDO)

    return take

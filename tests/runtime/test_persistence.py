"""Unattended runs: waits of any length in chunks, each with a heartbeat, up to the cap, whatever the run's deadline."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from recovery_ops.rules import events
from recovery_ops.rules.enums import StopReason
from recovery_ops.runtime import RecoveryExhausted, Response, Settings
from recovery_ops.runtime.testing import Lab

PERSISTENT: dict[str, Any] = {"idempotent": True, "settings": Settings(persistent=True)}


@pytest.fixture
def lab() -> Lab:
    return Lab(reraise=False)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_callback_and_a_fact_for_every_chunk(lab: Lab, is_async: bool) -> None:
    beats: list[events.WaitHeartbeat] = []
    script = lab.script(Response(429, {"retry-after": "1800"}), "done")

    async def hear(beat: events.WaitHeartbeat) -> None:
        beats.append(beat)

    async def job() -> Any:
        async def answer() -> Any:
            return script()

        async with lab.recovery.run(source="main_agent"):
            return await lab.recovery.guard("job", on_heartbeat=hear, **PERSISTENT)(answer)()

    if is_async:
        assert asyncio.run(job()) == "done"
    else:
        with lab.recovery.run(source="main_agent"):
            assert lab.recovery.guard("job", on_heartbeat=beats.append, **PERSISTENT)(script)() == "done"
    assert lab.waits == [30.0] * 60
    assert [beat.waited_s for beat in beats] == [30.0 * number for number in range(1, 60)]
    assert lab.events_of(events.WaitHeartbeat) == beats


def test_a_heartbeat_hook_that_raises_is_told_and_the_wait_goes_on(lab: Lab) -> None:
    def broken(beat: events.WaitHeartbeat) -> None:
        raise OSError("nobody listens")

    script = lab.script(Response(503, {"retry-after": "90"}), "done")
    with lab.recovery.run(source="main_agent"):
        assert lab.recovery.guard("job", on_heartbeat=broken, **PERSISTENT)(script)() == "done"
    assert [fact.hook for fact in lab.events_of(events.HookFailed)] == ["on_heartbeat"] * 2


def test_the_time_it_takes_does_not_count_for_the_run(lab: Lab) -> None:
    script = lab.script(Response(503, {"retry-after": "1800"}), "done")
    after = lab.recovery.guard("after")(lab.script("well"))
    with lab.recovery.run(source="main_agent", timeout=60.0):
        assert lab.recovery.guard("job", **PERSISTENT)(script)() == "done"
        assert after.outcome().value == "well"


def test_the_cap_ends_it_at_once_and_says_so(lab: Lab) -> None:
    script = lab.script(Response(503, {"retry-after": "21601"}))
    with lab.recovery.run(source="main_agent"), pytest.raises(RecoveryExhausted) as exhausted:
        lab.recovery.guard("job", **PERSISTENT)(script)()
    assert (exhausted.value.reason, lab.waits) == (StopReason.DEADLINE, [])


def test_retries_have_no_limit_below_the_cap(lab: Lab) -> None:
    script = lab.script(*[409] * 500, "done")
    with lab.recovery.run(source="main_agent"):
        assert lab.recovery.guard("job", **PERSISTENT)(script)() == "done"
    assert script.calls == 501


def test_background_work_fails_fast_on_capacity_even_so(lab: Lab) -> None:
    script = lab.script(429)
    with lab.recovery.run(source="nightly"), pytest.raises(RecoveryExhausted):
        lab.recovery.guard("job", **PERSISTENT)(script)()
    assert script.calls == 1

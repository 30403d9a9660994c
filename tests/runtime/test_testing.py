"""The laboratory itself: what stands in for the world must behave like it where that matters."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import trio

from recovery_ops.rules.enums import State
from recovery_ops.rules.events import BreakerStateChanged, CheckpointRestored, WaitHeartbeat
from recovery_ops.runtime import CircuitOpen, ConfigurationError, Deadline, Part, Response, Settings, Workflow
from recovery_ops.runtime.testing import Lab, transcript_faults

TOO_MANY = Response(429, {"retry-after": "1800"})


def waiting(lab: Lab) -> object:
    async def ask() -> object:
        return script()

    script = lab.script(TOO_MANY, "answer")
    return lab.recovery.guard("ask", idempotent=True, source="main_agent", settings=Settings(persistent=True))(ask)


def test_a_cancel_in_the_middle_of_a_pushed_wait_ends_it_there() -> None:
    lab = Lab()
    began = lab.clock.now()
    ask = waiting(lab)

    async def cancelled() -> None:
        task = asyncio.ensure_future(ask())  # type: ignore[operator]  # it is the guarded coroutine
        lab.waker.at(100.0, task.cancel)
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert lab.clock.now() - began == 100.0
    assert [fact.waited_s for fact in lab.events_of(WaitHeartbeat)] == [30.0, 60.0, 90.0]


def test_so_does_one_under_trio() -> None:
    lab = Lab()
    ask = waiting(lab)

    async def cancelled() -> None:
        with trio.CancelScope() as scope:
            lab.waker.at(100.0, scope.cancel)
            await ask()  # type: ignore[operator]  # it is the guarded coroutine
        assert scope.cancelled_caught

    trio.run(cancelled)
    assert len(lab.events_of(WaitHeartbeat)) == 3


def test_what_one_laboratory_keeps_no_other_finds() -> None:
    done: list[str] = []
    for name in ("first", "second"):
        Workflow("send", "order-7", recovery=Lab().recovery).step("mail", done.append, name, identity="order-7")
    assert done == ["first", "second"]


def test_two_laboratories_on_one_directory_are_a_process_that_came_back(tmp_path: Path) -> None:
    done: list[str] = []
    for lab in (before := Lab(directory=tmp_path), after := Lab(directory=tmp_path)):
        Workflow("send", "order-7", recovery=lab.recovery).step("mail", done.append, "mail")
    assert done == ["mail"]
    assert (before.events_of(CheckpointRestored), len(after.events_of(CheckpointRestored))) == ([], 1)


def test_an_operator_trips_and_the_trip_ends() -> None:
    lab = Lab()
    search = lab.recovery.guard("search", idempotent=True)(lab.script("found"))
    lab.trip("search", seconds=600.0, reason="the vendor asked us to stop")
    with pytest.raises(CircuitOpen, match="the vendor asked us to stop") as caught:
        search()
    assert caught.value.state is State.FORCED_OPEN
    lab.clock.push(600.0)
    assert search() == "found"
    assert [fact.state for fact in lab.events_of(BreakerStateChanged)] == [
        State.FORCED_OPEN,
        State.HALF_OPEN,
        State.CLOSED,
    ]


def test_a_trip_is_taken_back() -> None:
    lab = Lab()
    search = lab.recovery.guard("search", idempotent=True)(lab.script("found"))
    lab.trip("search", seconds=600.0)
    lab.trip("other", seconds=600.0)
    lab.clear_override("search")
    assert search() == "found"
    other = lab.recovery.guard("other")(lab.script("found"))
    with pytest.raises(CircuitOpen):
        other()


def test_it_says_what_keeps_a_transcript_from_being_whole() -> None:
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "search", "input": {}}]}
    answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "found"}]}
    assert transcript_faults([call]) == ["a has no result"]
    assert transcript_faults([call, answer]) == []


def test_what_is_timed_inside_a_run_goes_by_the_clock_of_the_run() -> None:
    """A laboratory's clock and the machine's tell times that have nothing to do with each other."""
    lab = Lab()
    with lab.recovery.run(timeout=20.0), Deadline(10.0) as deadline:
        lab.clock.push(4.0)
        assert deadline.remaining_s == 6.0
        assert lab.recovery.gather({"profile": lambda: "known"}).complete
        found = lab.recovery.gather(
            {"slow": Part.supplementary(lab.clock.push, 7.0), "late": Part.supplementary(print)}
        )
        assert list(found.unavailable) == ["late"]
        assert deadline.has_passed


def test_a_script_is_awaited_and_its_guard_knows() -> None:
    lab = Lab()
    script = lab.script_async(503, "found")
    search = lab.recovery.guard("search", idempotent=True)(script)
    assert asyncio.run(search("breakers")) == "found"
    assert (script.calls, script.arguments[0], lab.waits) == (2, (("breakers",), {}), [0.5])


def test_so_do_all_who_cannot_await_it() -> None:
    lab = Lab()
    script = lab.script_async("found")
    with pytest.raises(ConfigurationError, match="step_async"):
        _ = Workflow("send", "7", recovery=lab.recovery).step("mail", script)
    with pytest.raises(ConfigurationError, match="gather_async"):
        lab.recovery.gather({"mail": script})
    with pytest.raises(ConfigurationError, match="must not be async"):
        lab.recovery.guard("mail", fallback=script)(lab.script("found"))
    assert script.calls == 0

"""Functions that are not async and return an awaitable: a guard counts what came of it, not that it was made."""

from __future__ import annotations

import asyncio
import functools
import gc
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from recovery_ops.rules import events
from recovery_ops.rules.policy.model import Settings
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.runtime import CircuitOpen, Degraded, Outcome, RecoveryExhausted, attempt
from recovery_ops.runtime.testing import AsyncScript, Lab
from tests.support.recovery import NO_RETRY, state, tripped


@pytest.fixture
def lab() -> Lab:
    return Lab(reraise=False)


def as_coroutine(script: AsyncScript) -> Callable[..., Any]:
    def plain(*args: Any) -> Any:
        return script(*args)

    return plain


def as_task(script: AsyncScript) -> Callable[..., Any]:
    def plain(*args: Any) -> Any:
        return asyncio.ensure_future(script(*args))

    return plain


def as_wrapped(script: AsyncScript) -> Callable[..., Any]:
    async def call(*args: Any) -> Any:
        return await script(*args)

    @functools.wraps(call)
    def plain(*args: Any) -> Any:
        return call(*args)

    return plain


class Later:
    """An object that is awaited."""

    def __init__(self, script: AsyncScript, args: tuple[Any, ...]) -> None:
        self._awaitable = script(*args)

    def __await__(self) -> Any:
        return self._awaitable.__await__()


def as_object(script: AsyncScript) -> Callable[..., Any]:
    return lambda *args: Later(script, args)


SHAPES = [as_coroutine, as_task, as_wrapped, as_object]
TRANSIENT = 503
every_shape = pytest.mark.parametrize("shape", SHAPES)
every_guard = pytest.mark.parametrize("said", [{}, {"kind": "model"}, {"idempotency_key": lambda *_: "k-1"}])
"""Without and with a deadline of its own, and by way of the ladder alone."""


def run(guarded: Callable[[], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        return await guarded()

    return asyncio.run(main())


def counts(lab: Lab) -> list[tuple[int, int, int, int]]:
    lab.clock.push(10.0)
    lab.recovery.housekeep()
    return [(one.calls, one.attempts, one.successes, one.in_flight) for one in lab.events_of(events.CallsCounted)]


@every_shape
@every_guard
class TestAwaitables:
    def guarded(self, lab: Lab, shape: Any, said: dict[str, Any], *outcomes: Any, **more: Any) -> Any:
        script = lab.script_async(*outcomes)
        return lab.recovery.guard("search", idempotent=True, **said | more)(shape(script))

    def test_awaited_failures_open_the_breaker(self, lab: Lab, shape: Any, said: dict[str, Any]) -> None:
        guarded = self.guarded(lab, shape, said, TimeoutError(), settings=NO_RETRY)
        for _ in range(5):
            with pytest.raises(RecoveryExhausted):
                run(guarded)
        assert state(lab) == "open"
        with pytest.raises(CircuitOpen):
            run(guarded)

    def test_awaited_failure_is_retried(self, lab: Lab, shape: Any, said: dict[str, Any]) -> None:
        guarded = self.guarded(lab, shape, said, ConnectionResetError(), TimeoutError(), "ok")
        with lab.recovery.run(source="main_agent"):
            assert run(guarded) == "ok"
        assert lab.waits == [0.5, 1.0]
        assert [fact.attempts for fact in lab.events_of(events.RunFinished)] == [3]

    def test_success_is_counted_once_it_was_awaited(self, lab: Lab, shape: Any, said: dict[str, Any]) -> None:
        guarded = self.guarded(lab, shape, said, "ok", "ok", TimeoutError(), "ok")
        for _ in range(3):
            assert run(guarded) == "ok"
        assert counts(lab) == [(3, 4, 3, 0)]

    def test_outcome_is_awaited(self, lab: Lab, shape: Any, said: dict[str, Any]) -> None:
        guarded = self.guarded(lab, shape, said, TimeoutError(), "ok")
        assert run(guarded.outcome) == Outcome("ok", 2)

    def test_half_open_probe_is_decided_when_awaited(self, lab: Lab, shape: Any, said: dict[str, Any]) -> None:
        guarded = self.guarded(lab, shape, said, *[TimeoutError()] * 6, "ok", settings=NO_RETRY)
        for _ in range(5):
            with pytest.raises(RecoveryExhausted):
                run(guarded)
        for expected in ("open", "closed"):
            lab.clock.push(60.0)

            async def main() -> None:
                probe = guarded()
                assert state(lab) == "half_open"
                with pytest.raises(CircuitOpen):
                    await guarded()
                await probe

            if expected == "open":
                with pytest.raises(RecoveryExhausted):
                    asyncio.run(main())
            else:
                asyncio.run(main())
            assert state(lab) == expected

    def test_cancel_passes(self, lab: Lab, shape: Any, said: dict[str, Any]) -> None:
        guarded = self.guarded(lab, shape, said, asyncio.CancelledError())
        with pytest.raises(asyncio.CancelledError):
            run(guarded)
        assert state(lab) == "closed"

    def test_optional_operation_is_left_out(self, lab: Lab, shape: Any, said: dict[str, Any]) -> None:
        guarded = self.guarded(lab, shape, said, TimeoutError(), settings=NO_RETRY, optional=True)
        assert isinstance(run(guarded), Degraded)

    def test_fallback_is_awaited(self, lab: Lab, shape: Any, said: dict[str, Any]) -> None:
        stale = shape(lab.script_async(TimeoutError(), "stale"))
        guarded = self.guarded(lab, shape, said, TimeoutError(), settings=NO_RETRY, fallback=stale)
        with pytest.raises(RecoveryExhausted):
            run(guarded)
        assert run(guarded) == "stale"


@every_guard
def test_attempt_is_known_while_it_is_awaited(lab: Lab, said: dict[str, Any]) -> None:
    seen = []

    async def ask() -> None:
        await asyncio.sleep(0)
        seen.append(attempt().operation)

    def plain() -> Any:
        return ask()

    guarded = lab.recovery.guard("search", **said)(plain)
    run(guarded)
    assert seen == ["search"]


def test_deadline_ends_what_is_awaited() -> None:
    lab = Lab(reraise=False)

    async def hang() -> None:
        await asyncio.Event().wait()

    def plain() -> Any:
        return hang()

    guarded = lab.recovery.guard("search", settings=NO_RETRY, attempt_timeout=0.01)(plain)
    with pytest.raises(RecoveryExhausted) as failed:
        run(guarded)
    assert failed.value.category is not None
    assert failed.value.category.value == "timeout"


def test_dispatcher_of_both_kinds_counts_each(lab: Lab) -> None:
    """Some of its calls return an awaitable, others do not."""
    failing, well = lab.script_async(TimeoutError()), lab.script("ok")

    def dispatch(name: str) -> Any:
        return failing() if name == "search_async" else well()

    guarded = lab.recovery.guard("dispatch", idempotent=True, settings=Settings(consecutive_failures=2).over(NO_RETRY))
    call = guarded(dispatch)
    assert [call("search") for _ in range(5)] == ["ok"] * 5
    for _ in range(2):
        with pytest.raises(RecoveryExhausted):
            run(lambda: call("search_async"))
    assert state(lab, "dispatch") == "open"


def test_trip_between_making_and_awaiting_discards(lab: Lab) -> None:
    script = lab.script_async("ok")

    def plain() -> Any:
        lab.recovery.apply(tripped(lab, Scope(operation="search")))
        return script()

    guarded = lab.recovery.guard("search")(plain)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(CircuitOpen):
            run(guarded)
        gc.collect()
    assert script.calls == 0


def test_switched_off_guard_awaits_the_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_OPS_OFF", "1")
    lab = Lab(reraise=False)
    guarded: Any = lab.recovery.guard("search")(as_coroutine(lab.script_async("ok", "ok")))
    assert run(guarded.outcome) == Outcome("ok")
    assert run(guarded) == "ok"

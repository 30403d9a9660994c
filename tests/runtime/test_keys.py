"""The idempotency key of a call: the same for each attempt, and its own for each guarded call inside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

import attrs
import pytest

from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import CallsCounted
from recovery_ops.runtime import (
    ConfigurationError,
    Fallback,
    RecoveryExhausted,
    ToolRegistry,
    Workflow,
    attempt,
    build_tool,
)
from recovery_ops.runtime.testing import Lab


@pytest.fixture
def lab() -> Lab:
    return Lab(reraise=False)


class Calls:
    """A callable that notes the key it was given, and fails at first."""

    __name__ = "pay"

    def __init__(self, failures: int) -> None:
        self.keys: list[str | None] = []
        self._failures = failures

    def __call__(self, order: str) -> str:
        self.keys.append(attempt().idempotency_key)
        if len(self.keys) <= self._failures:
            raise TimeoutError
        return order


def test_a_key_travels_with_the_first_attempt_and_with_every_other(lab: Lab) -> None:
    calls = Calls(failures=2)
    pay = lab.recovery.guard("pay", idempotency_key=lambda order: f"pay-{order}")(calls)
    with lab.recovery.run(source="main_agent"):
        pay("7")
        pay("8")
    assert calls.keys == ["pay-7"] * 3 + ["pay-8"]


def test_a_key_travels_with_a_task(lab: Lab) -> None:
    calls = Calls(failures=1)

    @lab.recovery.guard("pay", idempotency_key=lambda order: f"pay-{order}")
    async def pay(order: str) -> str:
        return calls(order)

    asyncio.run(pay("7"))
    assert calls.keys == ["pay-7"] * 2


def test_without_a_key_a_destructive_call_is_not_repeated(lab: Lab) -> None:
    calls = Calls(failures=1)
    with pytest.raises(RecoveryExhausted):
        lab.recovery.guard("pay")(calls)("7")
    assert calls.keys == [None]


def keyed(lab: Lab, function: Callable[..., Any], name: str = "transfer") -> Any:
    return lab.recovery.guard(name, idempotency_key=lambda *given: f"{name}-{given!r}")(function)


def telling(lab: Lab, name: str, **said: Any) -> Any:
    """A guarded write that returns its key."""
    return lab.recovery.guard(name, **said)(lambda *_, **__: attempt().idempotency_key)


def test_writes_of_a_keyed_call_have_keys_of_their_own(lab: Lab) -> None:
    debit, credit = telling(lab, "debit"), telling(lab, "credit")
    keys = keyed(lab, lambda: [debit(5), credit(5), debit(5), debit(6)])()
    assert len({*keys, "transfer-()"}) == 5
    assert keyed(lab, lambda: [debit(6), debit(5), debit(5), credit(5)])() == [keys[n] for n in (3, 0, 2, 1)]


def test_retried_parent_repeats_the_keys(lab: Lab) -> None:
    keys: list[str | None] = []
    debit = telling(lab, "debit")

    def transfer() -> None:
        keys.extend((debit(5), debit(5)))
        if len(keys) < 4:
            raise TimeoutError

    with lab.recovery.run(source="main_agent"):
        keyed(lab, transfer)()
    assert keys[:2] == keys[2:]
    assert len(set(keys)) == 2


def test_attempts_of_an_inner_call_share_its_key(lab: Lab) -> None:
    inner = Calls(failures=2)
    post = lab.recovery.guard("post", idempotent=True)(inner)
    with lab.recovery.run(source="main_agent"):
        keyed(lab, post)("7")
    assert len(inner.keys) == 3
    assert len({*inner.keys, None}) == 2


def test_explicit_inner_key_wins(lab: Lab) -> None:
    debit = telling(lab, "debit", idempotency_key=lambda amount: f"debit-{amount}")
    assert keyed(lab, lambda: (debit(5), debit(5)))() == ("debit-5", "debit-5")


def test_inner_call_without_a_key_has_none(lab: Lab) -> None:
    debit = telling(lab, "debit", idempotency_key=lambda amount: None)
    assert keyed(lab, lambda: debit(5))() is None
    assert lab.recovery.guard("plain")(lambda: telling(lab, "credit")(5))() is None


def test_plain_fallback_has_its_own_key(lab: Lab) -> None:
    def pay(order: str) -> None:
        raise LookupError(order)

    first, second = Calls(failures=1), Calls(failures=0)
    others = [Fallback(first, name="first"), Fallback(second, name="second")]
    guarded: Any = lab.recovery.guard("pay", idempotency_key=lambda order: f"pay-{order}", fallback=others)(pay)
    for order in ("7", "7", "8"):
        guarded(order)
    assert len({*first.keys, *second.keys, "pay-7", "pay-8", None}) == 6
    assert first.keys[0] == first.keys[1]


def test_plain_fallback_of_keyless_call_has_none(lab: Lab) -> None:
    other: Any = Fallback(lambda: attempt().idempotency_key, name="other")
    assert lab.recovery.guard("pay", fallback=other)(lab.script(LookupError()))() is None


def test_guarded_fallback_derives_its_key(lab: Lab) -> None:
    other, keys = telling(lab, "other"), set()
    for _ in range(2):
        guard: Any = lab.recovery.guard("pay", idempotency_key=lambda order: f"pay-{order}", fallback=other)
        keys.add(guard(lab.script(LookupError()))("7"))
    assert len({*keys, "pay-7", None}) == 3


@dataclass(frozen=True)
class Money:
    """An amount, as programs pass it."""

    cents: int
    currency: str = "EUR"


class Model:
    """As pydantic makes them, in its newer versions and in its older ones."""

    __pydantic_fields__: ClassVar[dict[str, object]] = {"cents": object()}

    def __init__(self, cents: int) -> None:
        self.cents = cents


class OldModel(Model):
    __pydantic_fields__ = None  # type: ignore[assignment]
    model_fields: ClassVar[dict[str, object]] = {"cents": object()}


EQUAL: list[tuple[Any, Any]] = [
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({"x", "y", "z"}, {"z", "y", "x"}),
    ([1, [2]], (1, (2,))),
    (Money(5), Money(5)),
    (Model(5), Model(5)),
    (OldModel(5), OldModel(5)),
    (attrs.make_class("Sum", ["cents"])(5), attrs.make_class("Sum", ["cents"])(5)),
    (Decimal("1.10"), Decimal("1.10")),
    (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
    (UUID(int=7), UUID(int=7)),
    (Path("a/b"), Path("a") / "b"),
    (Category.TIMEOUT, Category.TIMEOUT),
    (b"x", b"x"),
    (partial(max, 1), partial(max, 1)),
]
DIFFERENT: list[tuple[Any, Any]] = [
    (1, True),
    (1, 1.0),
    (1, "1"),
    ("x", b"x"),
    (None, ""),
    ([], {}),
    (["ab", "c"], ["a", "bc"]),
    ({"a": 1}, {"a": 2}),
    (Money(5), Money(5, "USD")),
    (Model(5), Model(6)),
    (OldModel(5), OldModel(6)),
    (Decimal("1.1"), Decimal("1.10")),
    (Category.TIMEOUT, "timeout"),
    (max, min),
    ([[1], 2], [1, [2]]),
]


@pytest.mark.parametrize(("one", "other", "are_equal"), [(*p, True) for p in EQUAL] + [(*p, False) for p in DIFFERENT])
def test_arguments_are_digested_by_value(lab: Lab, one: Any, other: Any, are_equal: bool) -> None:
    debit = telling(lab, "debit")
    first, second = (keyed(lab, lambda given=given: debit(given, to=[given]))() for given in (one, other))
    assert (first == second) is are_equal


class Account:
    """An object that says nothing of itself."""

    async def debit(self, amount: int) -> str | None:
        return attempt().idempotency_key


def test_undigestable_arguments_in_a_row_keep_their_order(lab: Lab) -> None:
    debit = telling(lab, "debit")

    def transfer() -> list[str | None]:
        return [debit(Account(), 5) for _ in range(3)]

    first = keyed(lab, transfer)()
    assert len(set(first)) == 3
    assert keyed(lab, transfer)() == first


@pytest.mark.parametrize("in_threads", [False, True])
def test_concurrent_undigestable_calls_need_a_key(lab: Lab, in_threads: bool) -> None:
    debit: Any = lab.recovery.guard("debit")(Account.debit)
    blocking = telling(lab, "debit_in_thread")

    async def both(one: Account, other: Account) -> list[Any]:
        calls: Any
        if in_threads:
            calls = (asyncio.to_thread(blocking, account, 5) for account in (one, other))
        else:
            calls = (asyncio.create_task(debit(account, 5)) for account in (one, other))
        return await asyncio.gather(*calls)

    transfer = keyed(lab, both)
    same = Account()
    assert len(set(asyncio.run(transfer(same, same)))) == 2
    with pytest.raises(RecoveryExhausted) as caught:
        asyncio.run(transfer(Account(), Account()))
    assert isinstance(caught.value.last_error, ConfigurationError)
    assert "debit" in str(caught.value.last_error)


def test_concurrent_methods_with_other_arguments_need_no_key(lab: Lab) -> None:
    debit: Any = lab.recovery.guard("debit")(Account.debit)

    async def both() -> list[Any]:
        return await asyncio.gather(*(debit(Account(), amount) for amount in range(5)))

    transfer = keyed(lab, both)
    first = asyncio.run(transfer())
    assert len(set(first)) == 5
    assert asyncio.run(transfer()) == first


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "task"])
def test_step_gives_its_writes_keys_of_their_own(lab: Lab, is_async: bool) -> None:
    keys: list[str | None] = []
    debit, credit, find = telling(lab, "debit"), telling(lab, "credit"), telling(lab, "find")

    def transfer(amount: int) -> str:
        keys.extend((debit(amount), credit(amount), find(amount)))
        if len(keys) == 3:
            raise ConnectionResetError
        return "done"

    def found(amount: int) -> None:
        find(amount)
        if len(keys) == 3:
            find(amount)

    def run() -> None:
        workflow = Workflow("transfer", "1", recovery=lab.recovery)
        if is_async:
            asyncio.run(workflow.step_async("move", transfer, 5, already_done=found))
        else:
            workflow.step("move", transfer, 5, already_done=found)

    with pytest.raises(ConnectionResetError):
        run()
    run()
    assert keys[:3] == keys[3:]
    assert len({*keys, None}) == 4


def test_gathered_writes_have_keys_of_their_own(lab: Lab) -> None:
    debit, credit = telling(lab, "debit"), telling(lab, "credit")

    def transfer() -> dict[str, Any]:
        return dict(
            lab.recovery.gather({"one": lambda: debit(5), "other": lambda: debit(5), "third": lambda: credit(5)}).data
        )

    first = keyed(lab, transfer)()
    assert len({*first.values(), None}) == 4
    assert set(keyed(lab, transfer)().values()) == set(first.values())


def test_tool_without_a_key_derives_one(lab: Lab) -> None:
    registry = ToolRegistry(
        lab.recovery,
        tools=[build_tool("debit", lambda amount: attempt().idempotency_key, require_permission=False)],
    )

    def transfer() -> list[Any]:
        uses = [{"type": "tool_use", "id": str(n), "name": "debit", "input": {"amount": n % 2}} for n in range(4)]
        return [result.value for result in registry.run_tools(uses)]

    first = keyed(lab, transfer)()
    assert len({*first, None}) == 5
    assert keyed(lab, transfer)() == first


def test_dispatched_retry_meets_the_key_of_the_failed_call(lab: Lab) -> None:
    keys: list[str | None] = []
    outcomes = iter(["ok", ConnectionResetError(), ConnectionResetError(), "ok", "ok"])

    @lab.recovery.guard("debit")
    def debit(amount: int) -> object:
        keys.append(attempt().idempotency_key)
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def transfer() -> None:
        debit(5)
        try:
            debit(5)
        except RecoveryExhausted as error:
            assert error.idempotency_key == keys[1]  # noqa: PT017
            lab.recovery.dispatch_failure(error, retry=lambda: debit(5), idempotent=True)
        debit(5)

    keyed(lab, transfer)()
    assert keys[1] == keys[2] == keys[3]
    assert len({keys[0], keys[1], keys[4], None}) == 4


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "task"])
def test_writes_have_keys_of_their_own_when_switched_off(
    monkeypatch: pytest.MonkeyPatch, lab: Lab, is_async: bool
) -> None:
    def keys() -> list[str | None]:
        lab = Lab(reraise=False)
        debit, credit = telling(lab, "debit"), telling(lab, "credit")

        def transfer() -> list[str | None]:
            return [debit(5), debit(5), credit(5)]

        async def transfer_async() -> list[str | None]:
            return transfer()

        found: list[str | None] = asyncio.run(keyed(lab, transfer_async)()) if is_async else keyed(lab, transfer)()
        return found

    switched_on = keys()
    monkeypatch.setenv("RECOVERY_OPS_OFF", "1")
    assert keys() == switched_on
    assert len({*switched_on, None, "transfer-()"}) == 5


@pytest.mark.parametrize("none", [None, ""])
def test_a_call_without_a_key_is_not_repeated_because_others_have_one(lab: Lab, none: str | None) -> None:
    pay = lab.recovery.guard("pay", idempotency_key=lambda key: key)(
        lab.script(TimeoutError(), "paid", TimeoutError(), "paid")
    )
    with lab.recovery.run(source="main_agent"):
        with pytest.raises(RecoveryExhausted):
            pay(none)
        assert pay("order-2") == "paid"


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "task"])
@pytest.mark.parametrize("hook", ["idempotency_key", "needs"])
@pytest.mark.parametrize("outcome", ["ok", 503])
def test_raising_key_leaves_no_call_in_flight(lab: Lab, hook: str, outcome: object, is_async: bool) -> None:
    said: Any = {hook: lambda: 1 / 0}
    script = lab.script_async(outcome) if is_async else lab.script(outcome)
    guarded: Any = lab.recovery.guard("pay", **said)(script)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(guarded.outcome()) if is_async else guarded.outcome()
    if hook == "idempotency_key" or outcome == 503:
        with pytest.raises(ZeroDivisionError):
            asyncio.run(guarded()) if is_async else guarded()
    lab.clock.push(10.0)
    lab.recovery.housekeep()
    counted = lab.events_of(CallsCounted)[-1]
    assert counted.in_flight == 0
    assert counted.attempts == script.calls

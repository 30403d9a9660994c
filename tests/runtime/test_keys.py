"""The idempotency key of a call: the same for each attempt, the first included, and inherited from what calls it."""

from __future__ import annotations

import asyncio

import pytest

from recovery_ops.runtime import Fallback, RecoveryExhausted, attempt
from recovery_ops.runtime.testing import Lab


@pytest.fixture
def lab() -> Lab:
    return Lab()


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


def test_what_a_keyed_call_calls_has_its_key(lab: Lab) -> None:
    inner = Calls(failures=1)
    post = lab.recovery.guard("post", is_destructive=False, fallback=Fallback(inner, name="other"))(inner)

    @lab.recovery.guard("pay", idempotency_key=lambda order: f"pay-{order}")
    def pay(order: str) -> object:
        return post(order)

    pay("7")
    assert inner.keys == ["pay-7"] * 2


@pytest.mark.parametrize("none", [None, ""])
def test_a_call_without_a_key_is_not_repeated_because_others_have_one(lab: Lab, none: str | None) -> None:
    pay = lab.recovery.guard("pay", idempotency_key=lambda key: key)(
        lab.script(TimeoutError(), "paid", TimeoutError(), "paid")
    )
    with lab.recovery.run(source="main_agent"):
        with pytest.raises(RecoveryExhausted):
            pay(none)
        assert pay("order-2") == "paid"

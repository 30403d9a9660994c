"""Keys of guarded calls in a forked child: its writes are its own, and a repetition meets the keys of before."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from recovery_ops.rules.resilience.steps import Cause
from recovery_ops.runtime import Settings, attempt
from recovery_ops.runtime.testing import Lab
from tests.support.forked import Child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

NEVER_OPENS = Settings(consecutive_failures=0, failure_rate_threshold=0.0)


@dataclass
class Write:
    """One attempt of a write: which one it is to its process, its key, and whether it was begun before the fork."""

    name: tuple[int, str, int]
    key: str | None


@dataclass
class Forking:
    """A keyed call that is made twice, with equal and nested writes that fail at first; it forks at one step."""

    fork_at: int
    steps: int = 0
    child: Child | None = None
    writes: list[Write] = field(default_factory=list)
    before: int = 0
    rounds: int = 0

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.fork_at:
            self.before = len(self.writes)
            self.child = Child()

    def play(self) -> list[Write]:
        lab = Lab()
        wait = lab.waker.wait

        def waited(delay_s: float, since: int) -> Cause:
            self.step()
            return wait(delay_s, since)

        lab.waker.wait = waited  # type: ignore[method-assign]  # a fork may come while a call waits, too
        said: dict[str, Any] = {"max_retries": 1, "settings": NEVER_OPENS, "idempotent": True}
        made: dict[str, int] = {}

        def write(name: str) -> None:
            self.step()
            self.writes.append(Write((self.rounds, name, made.get(name, 0)), attempt().idempotency_key))
            made[name] = made.get(name, 0) + 1
            self.step()
            if made[name] == 1:
                raise TimeoutError

        inner = lab.recovery.guard("inner", **said)(write)

        def outer(name: str) -> None:
            inner(f"{name}-first")
            self.step()
            inner(f"{name}-second")

        nested = lab.recovery.guard("outer", **said)(outer)

        def order(number: int) -> None:
            self.rounds += 1
            made.clear()
            for name in ("a", "a", "b"):
                nested(name)
                self.step()
            if self.rounds == 1:
                raise TimeoutError

        keyed = lab.recovery.guard("order", idempotency_key=lambda number: f"order-{number}", **said)(order)
        with lab.recovery.run(source="main_agent"):
            keyed(7)
        return self.writes


def steps() -> int:
    world = Forking(0)
    world.play()
    return world.steps


def keys(writes: list[Write], rounds: int) -> list[str | None]:
    """The keys of one attempt of the order, each once and in order."""
    return list(dict.fromkeys(one.key for one in writes if one.name[0] == rounds))


@pytest.mark.parametrize("fork_at", range(1, steps() + 1))
def test_fork_at_any_step_separates_later_writes(fork_at: int) -> None:
    world = Forking(fork_at)
    try:
        found = world.play()
    except BaseException as error:
        if world.child is not None and world.child.is_here:
            world.child.ends(error)
        raise
    assert world.child is not None
    if world.child.is_here:
        world.child.ends((found, world.before))
    theirs, before = world.child.said()
    alone = Forking(0).play()
    assert found == alone  # the parent goes on as if nothing was
    assert [one.name for one in theirs] == [one.name for one in alone]
    assert theirs[:before] == found[:before]
    if max(one.name[0] for one in found[: before + 1]) == 1:
        assert keys(theirs, 1) == keys(theirs, 2)
    # The write under way at the fork is one call in both; a repetition of an earlier one is that one in the parent.
    known = {one.key for one in found[: before + 1]}
    mine, its = ({one.key for one in writes[before:]} - known for writes in (found, theirs))
    assert not mine & its


def test_forks_of_one_attempt_differ() -> None:
    lab = Lab()
    send = lab.recovery.guard("send", idempotent=True)(lambda: attempt().idempotency_key)

    def order(number: int) -> list[Any]:
        children: list[Child] = []
        for _ in range(3):
            child = Child()
            if child.is_here:
                child.ends([send(), send()])
            children.append(child)
        return [send(), *(key for child in children for key in child.said())]

    decorate: Callable[..., Any] = lab.recovery.guard("order", idempotency_key=lambda number: f"order-{number}")
    found, again = decorate(order)(7), decorate(order)(7)
    assert len(set(found)) == len(found) == 7
    assert found == again

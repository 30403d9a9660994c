"""Keys of guarded calls inside keyed calls: a repetition meets the same keys, and two writes never share one.

The model is a program: what each operation calls, side by side or one after the other, and how often each of its calls
fails at first. It runs in a thread, in many threads and in tasks of asyncio and trio, each time in another order.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery_ops.runtime import Settings, attempt
from recovery_ops.runtime.testing import Lab
from tests.support.examples import examples

ARGUMENTS = st.sampled_from([1, True, "1", 1.0, None, (1, 2), {"b": 1, "a": [2]}, {"a": [2], "b": 1}])
NEVER_OPENS = Settings(consecutive_failures=0, failure_rate_threshold=0.0, slow_call_rate_threshold=0.0)
Meant = tuple[int, str]
"""An operation and its argument: what a write is."""


@dataclass(frozen=True)
class Body:
    """What an operation does: its calls of later operations, and how often each call of it fails before it succeeds."""

    calls: tuple[tuple[int, Any], ...]
    is_concurrent: bool
    failures: int
    is_explicit: bool


@st.composite
def programs(draw: st.DrawFn) -> tuple[Body, ...]:
    """Operations that call only later ones, so that every program ends. The first is called from outside."""
    most = draw(st.integers(2, 4))
    bodies = []
    for number in range(most):
        later = st.lists(st.tuples(st.integers(number + 1, most - 1), ARGUMENTS), max_size=3)
        calls = tuple(draw(later)) if number + 1 < most else ()
        is_explicit = number == 0 or draw(st.integers(0, 4)) == 0
        bodies.append(Body(calls, draw(st.booleans()), draw(st.integers(0, 1)), is_explicit))
    return tuple(bodies)


def said(argument: Any) -> str:
    """The same for equal arguments."""
    return repr(sorted(argument.items())) if isinstance(argument, dict) else repr(argument)


@dataclass(frozen=True)
class Write:
    """One attempt of one call: its own number, and the attempt that made it."""

    own: int
    caller: int
    parent: str | None
    meant: Meant
    key: str


@dataclass
class World:
    """One run of a program in one thread."""

    program: tuple[Body, ...]
    chance: random.Random
    lab: Lab = field(default_factory=Lab)
    writes: list[Write] = field(default_factory=list)
    tried: Counter[str] = field(default_factory=Counter)
    attempts: Any = field(default_factory=count)
    guards: list[Callable[[Any], Any]] = field(default_factory=list)
    caller: Any = field(default_factory=lambda: contextvars.ContextVar("caller", default=(-1, None)))

    def play(self) -> World:
        for number, body in enumerate(self.program):
            self.guards.append(self.lab.recovery.guard(f"op{number}", **self.said(number, body))(self.function(number)))
        with self.lab.recovery.run(source="main_agent"):
            self.start()
        return self

    def said(self, number: int, body: Body) -> Any:
        key = (lambda argument: f"{number}-{said(argument)}") if body.is_explicit else None
        settings = {"idempotent": True, "max_retries": 2, "base_delay": 0.001, "settings": NEVER_OPENS}
        return {**settings, "idempotency_key": key}

    def begin(self, number: int, argument: Any) -> str:
        key = attempt().idempotency_key
        assert key
        own = next(self.attempts)
        caller, parent = self.caller.get()
        self.writes.append(Write(own, caller, parent, (number, said(argument)), key))
        self.caller.set((own, key))
        return key

    def end(self, number: int, key: str) -> None:
        self.tried[key] += 1
        if self.tried[key] <= self.program[number].failures:
            raise TimeoutError

    def calls(self, number: int) -> list[tuple[int, Any]]:
        """The calls of an operation, in an order that chance gives."""
        found = list(self.program[number].calls)
        self.chance.shuffle(found)
        return found

    def function(self, number: int) -> Callable[[Any], Any]:
        def do(argument: Any) -> None:
            contextvars.copy_context().run(self.body, number, argument)

        return do

    def body(self, number: int, argument: Any) -> None:
        key = self.begin(number, argument)
        for other, given_to in self.calls(number):
            self.guards[other](given_to)
        self.end(number, key)

    def start(self) -> None:
        self.guards[0]("root")


class Threads(World):
    """Calls side by side are made in threads."""

    def body(self, number: int, argument: Any) -> None:
        calls = self.calls(number)
        if not (self.program[number].is_concurrent and calls):
            super().body(number, argument)
            return
        key = self.begin(number, argument)
        with ThreadPoolExecutor(len(calls)) as pool:
            made = [pool.submit(contextvars.copy_context().run, self.guards[other], arg) for other, arg in calls]
        for one in made:
            one.result()
        self.end(number, key)


class Tasks(World):
    """Calls side by side are made in tasks."""

    def function(self, number: int) -> Callable[[Any], Any]:
        async def do(argument: Any) -> None:
            await asyncio.create_task(self.body_async(number, argument))

        return do

    async def body_async(self, number: int, argument: Any) -> None:
        key = self.begin(number, argument)
        made = [self.call(other, given_to) for other, given_to in self.calls(number)]
        if self.program[number].is_concurrent:
            await asyncio.gather(*made)
        else:
            for one in made:
                await one
        self.end(number, key)

    async def call(self, other: int, given_to: Any) -> None:
        for _ in range(self.chance.randrange(3)):
            await asyncio.sleep(0)
        await self.guards[other](given_to)

    def start(self) -> None:
        asyncio.run(self.guards[0]("root"))


class Nurseries(Tasks):
    """The same under trio, where what fails in a nursery is a group."""

    def function(self, number: int) -> Callable[[Any], Any]:
        async def do(argument: Any) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.body_async, number, argument)

        return do

    async def body_async(self, number: int, argument: Any) -> None:
        key = self.begin(number, argument)
        async with trio.open_nursery() as nursery:
            for other, given_to in self.calls(number):
                if self.program[number].is_concurrent:
                    nursery.start_soon(self.call, other, given_to)
                else:
                    await self.call(other, given_to)
        self.end(number, key)

    async def call(self, other: int, given_to: Any) -> None:
        for _ in range(self.chance.randrange(3)):
            await trio.lowlevel.checkpoint()
        await self.guards[other](given_to)

    def start(self) -> None:
        trio.run(self.guards[0], "root")


KINDS = [World, Threads, Tasks, Nurseries]
WORLDS = pytest.mark.parametrize("kind", KINDS, ids=["thread", "threads", "tasks", "nurseries"])


@WORLDS
@settings(max_examples=examples(20, 500))
@given(program=programs(), seed=st.integers(0, 2**32))
def test_repetition_meets_same_keys(kind: type[World], program: tuple[Body, ...], seed: int) -> None:
    """Of an attempt, and of the whole program in another process and another order."""
    world, other = kind(program, random.Random(seed)).play(), World(program, random.Random(seed + 1)).play()
    assert {(one.key, one.meant) for one in world.writes} == {(one.key, one.meant) for one in other.writes}
    made: dict[int, Counter[tuple[str, Meant]]] = {one.own: Counter() for one in world.writes}
    for one in world.writes:
        if one.caller >= 0:
            made[one.caller][one.key, one.meant] = 1
    by_parent: dict[str, list[Counter[tuple[str, Meant]]]] = defaultdict(list)
    for one in world.writes:
        by_parent[one.key].append(made[one.own])
    assert all(attempts.count(attempts[0]) == len(attempts) for attempts in by_parent.values())


@WORLDS
@settings(max_examples=examples(20, 500))
@given(program=programs(), seed=st.integers(0, 2**32))
def test_different_writes_share_no_key(kind: type[World], program: tuple[Body, ...], seed: int) -> None:
    world = kind(program, random.Random(seed)).play()
    of_key: dict[str, tuple[str | None, Meant]] = {}
    keys: dict[int, dict[Meant, set[str]]] = {one.own: defaultdict(set) for one in world.writes}
    for one in world.writes:
        if program[one.meant[0]].is_explicit:
            assert one.key == f"{one.meant[0]}-{one.meant[1]}"
            continue
        assert of_key.setdefault(one.key, (one.parent, one.meant)) == (one.parent, one.meant)
        keys[one.caller][one.meant].add(one.key)
    for one in world.writes:
        wanted = Counter((other, said(argument)) for other, argument in program[one.meant[0]].calls)
        derived = {meant: times for meant, times in wanted.items() if not program[meant[0]].is_explicit}
        assert {meant: len(found) for meant, found in keys[one.own].items()} == derived

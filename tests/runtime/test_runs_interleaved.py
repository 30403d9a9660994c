"""Runs and deadlines that tasks and threads enter, inherit and leave in any order, held against a simple model."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from recovery_ops.rules import events
from recovery_ops.runtime import Deadline, DeadlineExceeded, Recovery, RunCancelled
from recovery_ops.runtime.process.clock import Clock
from recovery_ops.runtime.runs.context import current_scope
from recovery_ops.runtime.runs.run import Run
from recovery_ops.runtime.testing import RecordedEvents
from tests.support.examples import examples
from tests.support.virtual_time import VirtualLoop


@dataclass(eq=False)
class Entered:
    """A run or deadline, as the model knows it."""

    real: Run | Deadline
    home: Actor
    outer: Entered | None
    deadline_at: float
    run: Entered | None = None
    """The run that a deadline was opened in."""
    is_over: bool = False
    is_called_off: bool = False
    calls: int = 0

    @property
    def is_run(self) -> bool:
        return isinstance(self.real, Run)

    def around(self) -> Iterator[Entered]:
        """It and what was around it when it was entered."""
        one: Entered | None = self
        while one is not None:
            yield one
            one = one.outer


def lasting(one: Entered | None) -> Entered | None:
    """The innermost that has not ended."""
    while one is not None and one.is_over:
        one = one.outer
    return one


def run_of(one: Entered | None) -> Entered | None:
    """The run that counts what is done in it."""
    if one is None or (one.is_run and not one.is_over):
        return one
    run = one.run if not one.is_run else one
    return run_of(lasting(run.outer)) if run is not None and run.is_over else run


class Actor:
    """A task or thread with a context of its own, which does one thing after the other."""

    def __init__(self, machine: Machine, parent: Actor | None, *, is_task: bool) -> None:
        self.machine = machine
        self.top: Entered | None = parent.top if parent is not None else None
        self.cancels: list[asyncio.CancelledError] = []
        self.is_ending = False
        self.task: asyncio.Task[None] | None = None
        self._context = contextvars.Context()
        if is_task:
            self._inbox: asyncio.Queue[Callable[[], Any]] = asyncio.Queue()
            self.task = self._begin() if parent is None else parent.do(self._begin)
        elif parent is not None:
            self._context = parent.do(contextvars.copy_context)

    def _begin(self) -> asyncio.Task[None]:
        return self.machine.loop.create_task(self._live())

    def end(self) -> None:
        """The last that it does."""
        self.is_ending = True

    def do(self, what: Callable[[], Any]) -> Any:
        """Do something in its context; what that returns or raises."""
        found: list[Any] = []

        def run() -> None:
            try:
                found.append((True, what()))
            except BaseException as error:
                found.append((False, error))

        if self.task is None:
            thread = threading.Thread(target=self._context.run, args=(run,))
            thread.start()
            thread.join()
        else:
            self._inbox.put_nowait(run)
            self.machine.turn()
        ((is_value, value),) = found
        if is_value:
            return value
        raise value

    async def _live(self) -> None:
        while not self.is_ending:
            try:
                command = await self._inbox.get()
            except asyncio.CancelledError as error:
                self.cancels.append(error)
                # It may only come from a deadline that this task entered, and that has not ended.
                assert [one for one in self.machine.live() if one.home is self and one.deadline_at <= self.machine.now]
            else:
                command()


class Machine(RuleBasedStateMachine):
    """Whatever is entered, inherited and left, and wherever: calls are in what lasts, and each run ends once."""

    actors = Bundle("actors")
    scopes = Bundle("scopes")

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.read = RecordedEvents()
        self.entered: list[Entered] = []

        class Time(Clock):
            def now(_) -> float:  # noqa: N805
                return self.loop.at

        self.recovery = Recovery(
            "machine", url="", clock=Time(), sink=self.read, chance=lambda: 0.0, is_background_work_wanted=False
        )
        self.call = self.recovery.guard("search")(current_scope)
        self.people: list[Actor] = []

    @property
    def now(self) -> float:
        return self.loop.at

    def live(self) -> list[Entered]:
        return [one for one in self.entered if not one.is_over]

    def turn(self, seconds: float = 0.0) -> None:
        """Let the loop do what is due, and so much time pass."""
        self.loop.run_until_complete(asyncio.sleep(seconds) if seconds else _turns())

    def _actor(self, parent: Actor | None, *, is_task: bool) -> Actor:
        made = Actor(self, parent, is_task=is_task)
        self.people.append(made)
        self.turn()
        return made

    @initialize(target=actors)
    def begin(self) -> Actor:
        return self._actor(None, is_task=True)

    @rule(target=actors, parent=actors, is_task=st.booleans())
    def spawn(self, parent: Actor, is_task: bool) -> Actor:
        return self._actor(parent, is_task=is_task)

    @rule(target=scopes, actor=actors, seconds=st.sampled_from([5.0, 50.0, inf]))
    def enter_run(self, actor: Actor, seconds: float) -> Entered:
        name = f"r{len(self.entered)}"
        run = self.recovery.run(name, source=name, run_id=name, timeout=seconds)
        return self._enter(actor, run, seconds)

    @rule(target=scopes, actor=actors, seconds=st.sampled_from([3.0, 30.0]))
    def enter_deadline(self, actor: Actor, seconds: float) -> Entered:
        return self._enter(actor, Deadline(seconds, clock=self.recovery.clock), seconds)

    def _enter(self, actor: Actor, real: Any, seconds: float) -> Entered:
        outer = lasting(actor.top)
        at = min(self.now + seconds, outer.deadline_at if outer else inf)
        made = Entered(real, actor, outer, at)
        if not made.is_run:
            made.run = run_of(outer)
        self.entered.append(made)
        actor.do(real.__enter__)
        actor.top = made
        return made

    @rule(actor=actors, scope=consumes(scopes), again=actors)
    def leave(self, actor: Actor, scope: Entered, again: Actor) -> None:
        self._leave(actor, scope)
        self._leave(again, scope)

    def _leave(self, actor: Actor, scope: Entered) -> None:
        error = actor.cancels[-1] if actor.cancels else None
        try:
            actor.do(lambda: scope.real.__exit__(type(error) if error else None, error, None))
        except DeadlineExceeded:
            assert scope.home is actor
            assert scope.deadline_at <= self.now
        self.turn()
        scope.is_over = True
        if actor.top is scope:
            actor.top = scope.outer

    @rule(scope=scopes)
    def cancel(self, scope: Entered) -> None:
        if isinstance(scope.real, Run):
            scope.real.cancel()
            scope.is_called_off = True

    @rule(actor=actors)
    def calls(self, actor: Actor) -> None:
        inside = lasting(actor.top)
        if inside is not None and inside.deadline_at <= self.now:
            wanted: Any = DeadlineExceeded
        elif inside is not None and any(one.is_called_off for one in inside.around()):
            wanted = RunCancelled
        else:
            wanted = None
        run = run_of(inside)
        if wanted is not None:
            with pytest.raises(wanted):
                actor.do(self.call)
            return
        found = actor.do(self.call)
        assert (found is None) == (inside is None)
        assert (found.source if found else "") == (run.real.name if run and isinstance(run.real, Run) else "")
        if run is not None:
            run.calls += 1

    @rule(seconds=st.sampled_from([0.5, 4.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.turn(seconds)

    @invariant()
    def runs_are_known_while_they_last(self) -> None:
        live = sorted(one.real.id for one in self.live() if isinstance(one.real, Run))
        assert sorted(self.recovery.runs_in_flight) == live
        ended = [run for fact, run in self._told() if isinstance(fact, events.RunFinished)]
        assert sorted(ended) == sorted(one.real.id for one in self.entered if one.is_over and isinstance(one.real, Run))

    def _told(self) -> list[tuple[Any, str]]:
        return list(zip(self.read.all, self.read.runs, strict=True))

    def teardown(self) -> None:
        if not self.people:
            return
        for scope in reversed(self.live()):
            self._leave(scope.home, scope)
        before = [len(one.cancels) for one in self.people]
        self.turn(1000.0)
        assert [len(one.cancels) for one in self.people] == before
        assert [one.task.cancelling() for one in self.people if one.task] == [0 for one in self.people if one.task]
        for one in self.people:
            one.top = lasting(one.top)
            assert one.top is None
            assert one.do(current_scope) is None
        attempts = {run: fact.attempts or 0 for fact, run in self._told() if isinstance(fact, events.RunFinished)}
        assert attempts == {one.real.id: one.calls for one in self.entered if isinstance(one.real, Run)}
        self.recovery.flush()
        assert {fact.in_flight for fact, _ in self._told() if isinstance(fact, events.CallsCounted)} <= {0}
        for one in self.people:
            if one.task is not None:
                one.do(one.end)
                assert one.task.done()
                one.task.result()
        self.loop.close()


async def _turns() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


Machine.TestCase.settings = settings(max_examples=examples(60, 600), stateful_step_count=30, deadline=None)
TestRunsInterleaved = Machine.TestCase

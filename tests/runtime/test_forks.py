"""Each process reports its own: a fork at any step of a call or run leaves both processes with true numbers."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from recovery_ops.rules import events as facts
from recovery_ops.rules.events import Event
from recovery_ops.rules.resilience.steps import Cause
from recovery_ops.runtime import Deadline, Recovery
from recovery_ops.runtime.process.forks import Halt
from recovery_ops.runtime.testing import Lab, PushedClock, PushedWaker, RecordedEvents
from tests.support.forked import Child, in_child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


class Forking:
    """A client that comes to a point at each fact, wait and call; at one of them the process forks, and both go on."""

    def __init__(self, fork_at: int) -> None:
        self.clock = PushedClock()
        self.read = _Facts(self)
        self.recovery = Recovery(
            "forking",
            instance="parent",
            url="",
            clock=self.clock,
            waker=_Waker(self),
            sink=self.read,
            chance=lambda: 0.0,
            is_background_work_wanted=False,
        )
        self.points = 0
        self.begun = 0
        self.begun_before = 0
        self.told_before = 0
        self.child: Child | None = None
        self._fork_at = fork_at

    @property
    def is_child(self) -> bool:
        """Whether this is the forked child."""
        return self.child is not None and self.child.is_here

    def point(self) -> None:
        """Where a fork may happen."""
        self.points += 1
        if self.points == self._fork_at:
            self.begun_before, self.told_before = self.begun, len(self.read.all)
            self.child = Child()

    def guard(self, name: str, *outcomes: Any, **said: Any) -> Callable[..., Any]:
        """A guarded call that plays the outcomes."""
        left = list(outcomes)

        def work() -> Any:
            self.point()
            outcome = left.pop(0)
            self.point()
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        guarded = self.recovery.guard(name, idempotent=True, **said)(work)

        def call() -> Any:
            self.begun += 1
            return guarded()

        return call

    def report(self) -> dict[str, Any]:
        """What this process has told since the fork, or in all."""
        self.recovery.flush()
        told = self.read.all[self.told_before if self.is_child else 0 :]
        runs = self.read.runs[self.told_before if self.is_child else 0 :]
        counted = [one for one in told if isinstance(one, facts.CallsCounted)]
        return {
            "calls": sum(one.calls for one in counted),
            "attempts": sum(one.attempts for one in counted),
            "successes": sum(one.successes for one in counted),
            "failures": sum(sum(one.failures.values()) for one in counted),
            "retries": sum(one.retries for one in counted),
            "rejected": sum(one.count for one in told if isinstance(one, facts.BreakerRejected)),
            "busy": [one.operation for one in counted if one.in_flight or one.waiting],
            "begun": [run for one, run in zip(told, runs, strict=True) if isinstance(one, facts.RunStarted)],
            "ended": [run for one, run in zip(told, runs, strict=True) if isinstance(one, facts.RunFinished)],
            "runs": len(self.recovery.runs_in_flight),
            "instance": self.recovery.instance.instance,
        }


class _Facts(RecordedEvents):
    def __init__(self, world: Forking) -> None:
        super().__init__()
        self._world = world

    def emit(
        self, fact: Event, source: str = "", is_foreground: bool = False, run: str = "", policy_version: str = ""
    ) -> None:
        """Keep it, and come to a point."""
        super().emit(fact, source, is_foreground, run, policy_version)
        if not isinstance(fact, facts.CallsCounted):
            self._world.point()


class _Waker(PushedWaker):
    def __init__(self, world: Forking) -> None:
        super().__init__(world.clock)
        self._world = world

    def wait(self, delay_s: float, since: int) -> Cause:
        """Come to a point, then wait."""
        self._world.point()
        return super().wait(delay_s, since)


def work(world: Forking) -> list[Any]:
    """Calls that go well, are retried, fail, fall back and nest, in and out of runs."""
    plain = world.guard("plain", 1, 2)
    retried = world.guard("retried", TimeoutError(), TimeoutError(), 3)
    fallen = world.guard("fallen", TimeoutError(), max_retries=0, fallback=lambda: 4)
    inner = world.guard("inner", TimeoutError(), 5)
    outer = world.guard("outer", 6)
    found = [plain()]
    with world.recovery.run("one", source="main_agent", run_id="r-1"):
        found += [plain(), retried()]
        with world.recovery.run("two", source="user_request", run_id="r-2"), Deadline(60.0, clock=world.clock):
            found += [fallen(), inner()]
        with world.recovery.run("three", source="main_agent", run_id="r-3"):
            found += [outer()]
    return found


def alone() -> tuple[dict[str, Any], int]:
    """What is told without a fork, and how many points there are."""
    world = Forking(0)
    assert work(world) == [1, 2, 3, 4, 5, 6]
    return world.report(), world.points


@pytest.mark.parametrize("fork_at", range(1, alone()[1] + 1))
def test_fork_at_any_step_leaves_each_its_own(fork_at: int) -> None:
    undisturbed = alone()[0]
    world = Forking(fork_at)
    try:
        found = work(world)
        own = world.report()
    except BaseException:
        if world.is_child and world.child is not None:
            world.child.ends((traceback.format_exc(), {}))
        raise
    assert world.child is not None
    if world.is_child:
        world.child.ends((found, own))
    found_in_child, childs = world.child.said()
    assert found_in_child == found == [1, 2, 3, 4, 5, 6]
    assert own == undisturbed
    assert childs["busy"] == []
    assert sorted(childs["begun"]) == sorted(childs["ended"])
    assert childs["runs"] == 0
    assert childs["instance"].startswith("parent~")
    # A call that the parent began and the child goes on with counts as the child's from its first failure on.
    assert 0 <= childs["calls"] - (world.begun - world.begun_before) <= 1
    for name in ("attempts", "successes", "failures", "retries"):
        assert childs[name] <= own[name]


def test_calls_of_other_threads_are_not_the_childs() -> None:
    lab, inside, go = Lab(), threading.Event(), threading.Event()

    def hang() -> None:
        inside.set()
        assert go.wait(60.0)

    call = lab.recovery.guard("search", timeout=None)(hang)
    threads = [threading.Thread(target=call), threading.Thread(target=lambda: in_run(lab, call))]
    for thread in threads:
        inside.clear()
        thread.start()
        assert inside.wait(60.0)

    def told() -> list[int]:
        lab.recovery.flush()
        quick = lab.recovery.guard("search")(lambda: "found")
        quick()
        lab.recovery.flush()
        return [one.in_flight for one in lab.events_of(facts.CallsCounted)]

    assert in_child(told) == [0]
    go.set()
    for thread in threads:
        thread.join()
    lab.recovery.flush()
    assert [(one.calls, one.in_flight) for one in lab.events_of(facts.CallsCounted)] == [(1, 0), (1, 0)]


def in_run(lab: Lab, call: Callable[[], object]) -> None:
    with lab.recovery.run(source="main_agent"):
        call()


def test_rejections_before_a_fork_are_the_parents() -> None:
    lab = Lab()
    call = lab.recovery.guard("search", optional=True)(lab.script("found"))
    lab.trip("search")
    call()
    call()

    def told() -> int:
        lab.recovery.flush()
        return sum(one.count for one in lab.events_of(facts.BreakerRejected))

    assert in_child(told) == 0
    assert told() == 2


def test_child_has_an_age_and_interval_of_its_own() -> None:
    lab = Lab()
    call = lab.recovery.guard("search")(lab.script("found"))
    lab.recovery.housekeep()
    lab.clock.push(100.0)

    def told() -> tuple[float, float]:
        before = len(lab.events)
        call()
        lab.clock.push(10.0)
        lab.recovery.housekeep()
        fresh = lab.events[before:]
        (beat,) = (one for one in fresh if isinstance(one, facts.InstanceHeartbeat))
        (counted,) = (one for one in fresh if isinstance(one, facts.CallsCounted))
        return beat.uptime_s, counted.interval_s

    assert in_child(told) == (10.0, 10.0)


def test_grandchild_is_named_after_the_first_process() -> None:
    lab = Lab()
    place = lab.recovery.guard("search")(lab.script("found")).operation

    def names() -> list[str]:
        return [lab.recovery.instance.instance, place.place.instance]

    child, grandchild = in_child(lambda: (names(), in_child(names)))
    assert child[0] == child[1] != "lab-1"
    assert grandchild[0] == grandchild[1] != child[0]
    assert [name.count("~") for name in (*child, *grandchild)] == [1, 1, 1, 1]


def test_closed_client_stays_silent_in_a_child() -> None:
    recovery = Recovery("closed", url="", sink=RecordedEvents())
    recovery.close()
    assert in_child(lambda: [one.name for one in threading.enumerate() if "housekeeper" in one.name]) == []


def test_open_client_keeps_house_in_a_child() -> None:
    recovery = Recovery("open", url="", sink=RecordedEvents())
    try:
        found = in_child(lambda: sum(one.name == "recovery-ops-housekeeper" for one in threading.enumerate()))
    finally:
        recovery.close()
    assert found >= 1


def test_run_that_a_child_leaves_goes_on_in_its_parent() -> None:
    lab = Lab()
    with lab.recovery.run("task", run_id="r-1", source="main_agent") as run:

        def leave() -> tuple[int, str, int]:
            scope_source = run.scope.source
            run.__exit__(None, None, None)
            return len(lab.events_of(facts.RunFinished)), scope_source, len(lab.recovery.runs_in_flight)

        assert in_child(leave) == (0, "main_agent", 0)
        assert lab.events_of(facts.RunFinished) == []
        assert list(lab.recovery.runs_in_flight) == ["r-1"]
    assert len(lab.events_of(facts.RunFinished)) == 1


def test_two_threads_that_fork_at_once_free_the_lock() -> None:
    lock, halt = threading.RLock(), Halt(0.0)
    found: list[bool] = []

    def fork() -> None:
        found.append(halt.begin(lock))
        halt.end(lock)

    assert halt.begin(lock)
    in_thread(fork)
    halt.end(lock)
    in_thread(lambda: found.append(lock.acquire(blocking=False)))
    assert found == [False, True]


def in_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

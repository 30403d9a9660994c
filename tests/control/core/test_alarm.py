"""A deadline that is put off with every message rings once nobody puts it off any more."""

from __future__ import annotations

import asyncio

from recovery_ops.control.core.resettable_timer import ResettableTimer


class Clock:
    """As much of an event loop as an alarm needs, with a clock that is pushed."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, object, Handle]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, at: float, call: object) -> Handle:
        handle = Handle()
        self.timers.append((at, call, handle))
        return handle

    def push(self, to: float) -> None:
        self.now = to
        due, self.timers = [one for one in self.timers if one[0] <= to], [one for one in self.timers if one[0] > to]
        for _, call, handle in due:
            if not handle.is_cancelled:
                call()  # type: ignore[operator]


class Handle:
    is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


def alarm(clock: Clock, rung: list[float]) -> ResettableTimer:
    loop: asyncio.AbstractEventLoop = clock  # type: ignore[assignment]
    return ResettableTimer(loop, lambda: rung.append(clock.now))


def test_it_is_put_off_with_one_timer_and_rings_in_the_end() -> None:
    clock, rung = Clock(), list[float]()
    one = alarm(clock, rung)
    for at in range(1, 10):
        one.set(at + 10.0)
        assert len(clock.timers) == 1
        clock.push(float(at))
    clock.push(12.0)  # the first moment that was asked for is over, the last is not
    assert not rung
    clock.push(19.0)
    assert rung == [19.0]


def test_what_is_taken_back_or_closed_never_rings() -> None:
    clock, rung = Clock(), list[float]()
    off, closed = alarm(clock, rung), alarm(clock, rung)
    off.set(5.0)
    off.off()
    closed.set(5.0)
    closed.close()
    clock.push(100.0)
    assert not rung
    off.set(200.0)
    clock.push(200.0)
    assert rung == [200.0]

"""One poller, many followers, several event loops and threads; no test waits for time to pass."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from events.live.pulse import Pulse

T = TypeVar("T")

NEVER_S = 3600.0
"""The interval of a pulse that only reads when it is woken."""


class Number:
    """What the database would hold; counts how often it was read."""

    def __init__(self, value: int = 0) -> None:
        self.value = value
        self.reads = 0
        self.trouble: Exception | None = None

    def read(self) -> dict[str, int]:
        self.reads += 1
        if self.trouble is not None:
            raise self.trouble
        return {"fact": self.value}


async def soon(awaitable: Awaitable[T]) -> T:
    return await asyncio.wait_for(awaitable, 10)


async def until(claim: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not claim():
            await asyncio.sleep(0.002)


async def nothing_more(changes: Any) -> bool:
    """Whether the iteration is over."""
    return await soon(anext(changes, None)) is None


def test_the_first_snapshot_comes_at_once_and_the_next_when_a_number_changed() -> None:
    number = Number(7)

    async def follow() -> list[int]:
        pulse = Pulse(number.read, NEVER_S)
        async with pulse.follow() as changes:
            seen = [(await soon(anext(changes)))["fact"]]
            reads = number.reads
            pulse.wake()
            await until(lambda: number.reads > reads)  # read, and nothing had changed
            number.value = 8
            pulse.wake()
            seen.append((await soon(anext(changes)))["fact"])
        return seen

    assert asyncio.run(follow()) == [7, 8]


def test_it_reads_by_itself_in_its_interval() -> None:
    number = Number()

    async def follow() -> int:
        async with Pulse(number.read, 0.001).follow() as changes:
            await soon(anext(changes))
            number.value = 5
            return (await soon(anext(changes)))["fact"]

    assert asyncio.run(follow()) == 5


def test_a_slow_follower_gets_the_newest_snapshot_only() -> None:
    number = Number()

    async def follow() -> int:
        pulse = Pulse(number.read, NEVER_S)
        async with pulse.follow() as slow, pulse.follow() as quick:
            await soon(anext(slow))
            await soon(anext(quick))
            for number.value in range(1, 50):
                pulse.wake()
                await soon(anext(quick))
            return (await soon(anext(slow)))["fact"]

    assert asyncio.run(follow()) == 49


def test_who_comes_later_gets_what_is_known_without_another_read() -> None:
    number = Number(3)

    async def follow() -> tuple[int, int]:
        pulse = Pulse(number.read, NEVER_S)
        async with pulse.follow() as first:
            await soon(anext(first))
            async with pulse.follow() as second:
                return (await soon(anext(second)))["fact"], number.reads

    assert asyncio.run(follow()) == (3, 1)


def test_a_read_that_fails_is_logged_once_and_the_followers_stay(caplog: pytest.LogCaptureFixture) -> None:
    number = Number(1)

    async def follow() -> int:
        pulse = Pulse(number.read, 0.001)
        async with pulse.follow() as changes:
            await soon(anext(changes))
            number.trouble = OSError("the disk is away")
            failed_from = number.reads
            await until(lambda: number.reads > failed_from + 3)
            number.value, number.trouble = 2, None
            return (await soon(anext(changes)))["fact"]

    with caplog.at_level(logging.INFO, "events.live.pulse"):
        assert asyncio.run(follow()) == 2
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "the disk is away" in caplog.text


def test_the_poller_ends_after_the_last_follower_and_starts_again_with_a_fresh_read() -> None:
    number = Number(1)

    async def follow() -> list[int]:
        pulse = Pulse(number.read, NEVER_S)
        seen = []
        for number.value in (1, 2):
            async with pulse.follow() as changes:
                seen.append((await soon(anext(changes)))["fact"])
                assert pulse.is_polling
            await until(lambda: not pulse.is_polling)
        return seen

    assert asyncio.run(follow()) == [1, 2]


def test_close_ends_every_follower_and_those_who_come_later_to_the_same_loop() -> None:
    number = Number(1)
    pulse = Pulse(number.read, NEVER_S)

    async def follow_and_close() -> None:
        async with pulse.follow() as one, pulse.follow() as other:
            await soon(anext(one))
            await soon(anext(other))
            waiting = asyncio.ensure_future(anext(one, None))
            await asyncio.sleep(0)
            pulse.close()
            assert await soon(waiting) is None
            assert await nothing_more(other)
        async with pulse.follow() as late:
            assert pulse.is_closed
            assert await nothing_more(late)
        await until(lambda: not pulse.is_polling)

    async def follow() -> int:
        async with pulse.follow() as changes:
            return (await soon(anext(changes)))["fact"]

    asyncio.run(follow_and_close())
    assert asyncio.run(follow()) == 1  # another loop is another server


def test_close_may_be_called_from_any_thread_and_twice() -> None:
    number = Number(1)

    async def follow() -> None:
        pulse = Pulse(number.read, NEVER_S)
        async with pulse.follow() as changes:
            await soon(anext(changes))
            await asyncio.to_thread(pulse.close)
            await asyncio.to_thread(pulse.close)
            assert await nothing_more(changes)

    asyncio.run(follow())


def test_a_follower_can_be_ended_alone() -> None:
    async def follow() -> None:
        pulse = Pulse(Number().read, NEVER_S)
        async with pulse.follow() as gone, pulse.follow() as stays:
            await soon(anext(gone))
            gone.end()
            assert await nothing_more(gone)
            assert await soon(anext(stays)) == {"fact": 0}

    asyncio.run(follow())


def test_a_wait_that_timed_out_loses_nothing() -> None:
    number = Number()

    async def follow() -> int:
        pulse = Pulse(number.read, NEVER_S)
        async with pulse.follow() as changes:
            await soon(anext(changes))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(changes), 0.001)
            number.value = 4
            pulse.wake()
            return (await soon(anext(changes)))["fact"]

    assert asyncio.run(follow()) == 4


def test_threads_that_wake_and_loops_that_follow_agree_on_the_last_number() -> None:
    number = Number()
    lock = threading.Lock()
    pulse = Pulse(number.read, NEVER_S)
    following = threading.Barrier(4)
    seen: list[list[int]] = []

    def change() -> None:
        following.wait(10)
        for _ in range(100):
            with lock:
                number.value += 1
            pulse.wake()

    async def follow() -> list[int]:
        async with pulse.follow() as changes:
            values = [(await soon(anext(changes)))["fact"]]
            following.wait(10)
            while values[-1] < 200:
                values.append((await soon(anext(changes)))["fact"])
            return values

    changers = [threading.Thread(target=change) for _ in range(2)]
    followers = [threading.Thread(target=lambda: seen.append(asyncio.run(follow()))) for _ in range(2)]
    for thread in changers + followers:
        thread.start()
    for thread in changers + followers:
        thread.join(30)
    assert [values[-1] for values in seen] == [200, 200]
    assert all(values == sorted(set(values)) for values in seen)


def test_a_loop_that_was_closed_without_leaving_disturbs_nobody() -> None:
    number = Number()
    pulse = Pulse(number.read, NEVER_S)
    loop = asyncio.new_event_loop()
    changes = loop.run_until_complete(_enter(pulse))
    loop.run_until_complete(soon(anext(changes)))
    loop.close()

    async def follow() -> int:
        async with pulse.follow() as mine:
            await soon(anext(mine))
            number.value = 9
            pulse.wake()
            return (await soon(anext(mine)))["fact"]

    assert asyncio.run(follow()) == 9


async def _enter(pulse: Pulse) -> Any:
    return await pulse.follow().__aenter__()

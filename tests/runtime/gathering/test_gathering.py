"""`gather`: what may be missing, what may not, and who has to be asked again; one by one, in threads and in tasks."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.enums import Category, RunStatus, State
from recovery_ops.runtime import CircuitOpen, ConfigurationError, Part, Recovery, RunCancelled, StopRun
from recovery_ops.runtime.errors import GatherBlocked
from recovery_ops.runtime.partial_results.parts import Gathered
from recovery_ops.runtime.testing import HttpError, Lab

Gather = Callable[..., Gathered]
PATIENCE_S = 20.0


def one_by_one(parts: Mapping[str, Any], **said: Any) -> Gathered:
    return Lab().recovery.gather(parts, **said)


def in_threads(parts: Mapping[str, Any], **said: Any) -> Gathered:
    return Lab().recovery.gather(parts, at_once=4, **said)


def in_tasks(parts: Mapping[str, Any], **said: Any) -> Gathered:
    return asyncio.run(Lab().recovery.gather_async(parts, **said))


def in_trio(parts: Mapping[str, Any], **said: Any) -> Gathered:
    async def whole() -> Gathered:
        return await Lab().recovery.gather_async(parts, **said)

    found: Gathered = trio.run(whole)
    return found


def on_real_time() -> Recovery:
    """A client whose deadlines are those of the machine."""
    return Recovery("gathering", url="", is_background_work_wanted=False)


WAYS = [one_by_one, in_threads, in_tasks, in_trio]


@pytest.fixture(params=WAYS, ids=["one by one", "threads", "asyncio", "trio"])
def any_gather(request: pytest.FixtureRequest) -> Gather:
    way: Gather = request.param
    return way


def fails(error: BaseException) -> Callable[[], Any]:
    def failing() -> Any:
        raise error

    return failing


def test_all_that_is_there_is_complete_and_in_order(any_gather: Gather) -> None:
    found = any_gather({name: Part.supplementary(str.upper, name) for name in "cab"})
    assert list(found.data.items()) == [("c", "C"), ("a", "A"), ("b", "B")]
    assert found.complete


def test_parts_are_called_as_they_were_given(any_gather: Gather) -> None:
    def part(first: int, *, second: int) -> tuple[int, int]:
        return first, second

    parts = {"a": Part.foundational(part, 1, second=2), "b": Part.supplementary(part, 3, second=4), "c": lambda: 5}
    assert any_gather(parts).data == {"a": (1, 2), "b": (3, 4), "c": 5}


def test_a_supplementary_part_may_be_missing(any_gather: Gather) -> None:
    found = any_gather({"main": Part.foundational(lambda: 1), "extra": Part.supplementary(fails(TimeoutError()))})
    missing = found.unavailable["extra"]
    assert (dict(found.data), found.complete) == ({"main": 1}, False)
    assert (missing.category, missing.can_retry, missing.is_foundational) == (Category.TIMEOUT, True, False)
    assert missing.why == "A service took too long to answer."


def test_a_foundational_part_blocks_and_says_what_was_done(any_gather: Gather) -> None:
    error = HttpError(404)
    with pytest.raises(GatherBlocked) as blocked:
        any_gather({"done": Part.supplementary(lambda: 1), "base": Part.foundational(fails(error))})
    assert (blocked.value.done, blocked.value.not_done) == ({"done": 1}, ("base",))
    assert (blocked.value.can_retry, blocked.value.__cause__) == (False, error)
    assert blocked.value.unavailable["base"].category is Category.NOT_FOUND


def test_only_what_is_not_done_is_asked_for_again(any_gather: Gather) -> None:
    lab = Lab()
    once, twice = lab.script("once"), lab.script(TimeoutError(), "twice")
    parts = {"a": Part.foundational(once), "b": Part.foundational(twice)}
    with pytest.raises(GatherBlocked) as blocked:
        any_gather(parts)
    found = any_gather(parts, done=blocked.value.done)
    assert (dict(found.data), once.calls, twice.calls) == ({"a": "once", "b": "twice"}, 1, 2)


def test_without_a_tag_a_part_is_foundational(any_gather: Gather) -> None:
    with pytest.raises(GatherBlocked):
        any_gather({"base": fails(ValueError())})


def test_a_refused_call_says_when_it_may_be_made(any_gather: Gather) -> None:
    lab = Lab()
    guarded = lab.recovery.guard("search", optional=True)(lab.script(TimeoutError()))
    refused = CircuitOpen("search", breaker="search", state=State.OPEN)
    found = any_gather({"left out": Part.supplementary(guarded), "refused": Part.supplementary(fails(refused))})
    left_out = found.unavailable["left out"]
    assert (left_out.category, left_out.why) == (Category.TIMEOUT, "A service took too long to answer.")
    assert found.unavailable["refused"].category is None
    assert found.unavailable["refused"].can_retry


@pytest.mark.parametrize("error", [StopRun(Category.PERMISSION, "no"), RunCancelled("search"), KeyboardInterrupt()])
def test_what_ends_the_run_passes_through(any_gather: Gather, error: BaseException) -> None:
    with pytest.raises(type(error)) as raised:
        any_gather({"extra": Part.supplementary(fails(error))})
    assert raised.value is error or isinstance(error, KeyboardInterrupt)


@pytest.mark.parametrize("error", [HttpError(403), StopRun(Category.PERMISSION, "no")])
@pytest.mark.parametrize("way", ["one by one", "asyncio", "trio"])
def test_missing_foundation_begins_nothing_more(way: str, error: Exception) -> None:
    lab = Lab()
    later = lab.script("later")
    parts = {"base": Part.foundational(fails(error)), "later": Part.supplementary(later)}
    play = (
        one_by_one if way == "one by one" else functools.partial(in_tasks if way == "asyncio" else in_trio, at_once=1)
    )
    with pytest.raises((GatherBlocked, StopRun)) as raised:
        play(parts)
    assert later.calls == 0
    assert not isinstance(raised.value, GatherBlocked) or raised.value.not_done == ("base", "later")


def test_nothing_is_begun_after_the_deadline_which_all_share() -> None:
    lab = Lab()
    slow, late = lab.script("slow", takes_s=6.0), lab.script("late")
    parts = {"slow": Part.supplementary(slow), "late": Part.supplementary(late)}
    with lab.recovery.run(source="main_agent") as run:
        found = lab.recovery.gather(parts, timeout=5.0)
    assert (dict(found.data), late.calls) == ({"slow": "slow"}, 0)
    assert found.unavailable["late"].category is Category.TIMEOUT
    assert run.scope.warnings == ["late is missing: There was no time left for this."]
    assert run._status(None) is RunStatus.DEGRADED


def test_guarded_parts_are_given_no_more_time_than_there_is() -> None:
    lab = Lab()
    guarded = lab.recovery.guard("search", idempotent=True, max_retries=9)(lab.script(TimeoutError()))
    lab.recovery.gather({"extra": Part.supplementary(guarded)}, timeout=2.0)
    assert sum(lab.waits) <= 2.0


def test_a_thread_that_hangs_is_left_behind() -> None:
    release = threading.Event()
    parts = {"quick": Part.supplementary(lambda: 1), "hangs": Part.supplementary(release.wait, PATIENCE_S)}
    try:
        found = on_real_time().gather(parts, at_once=2, timeout=0.05)
    finally:
        release.set()
    assert (dict(found.data), found.unavailable["hangs"].category) == ({"quick": 1}, Category.TIMEOUT)


def test_what_was_begun_is_waited_for_before_it_is_called_not_done() -> None:
    begun, release = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        assert release.wait(PATIENCE_S)
        return "there"

    def base() -> None:
        assert begun.wait(PATIENCE_S)
        release.set()
        raise HttpError(404)

    never = Lab().script("never")
    with pytest.raises(GatherBlocked) as blocked:
        Lab().recovery.gather(
            {"slow": Part.supplementary(slow), "base": Part.foundational(base), "never": Part.supplementary(never)},
            at_once=2,
        )
    assert blocked.value.done["slow"] == "there"


def test_a_task_that_hangs_is_cancelled_at_the_deadline() -> None:
    ended: list[str] = []

    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")

    found = asyncio.run(on_real_time().gather_async({"hangs": Part.supplementary(hangs)}, timeout=0.01))
    assert (found.unavailable["hangs"].category, ended) == (Category.TIMEOUT, ["cleaned up"])


@pytest.mark.parametrize("is_trio", [False, True])
def test_a_missing_foundation_cancels_the_other_tasks(is_trio: bool) -> None:
    ended: list[str] = []

    async def hangs() -> None:
        try:
            await (trio.sleep_forever() if is_trio else asyncio.Event().wait())
        finally:
            ended.append("cleaned up")

    parts = {"hangs": Part.supplementary(hangs), "base": Part.foundational(fails(ValueError()))}
    with pytest.raises(GatherBlocked) as blocked:
        (in_trio if is_trio else in_tasks)(parts)
    assert (ended, blocked.value.not_done) == (["cleaned up"], ("hangs", "base"))


def test_a_cancel_from_outside_cancels_every_part_and_passes_through() -> None:
    begun, ended = [], []

    async def hangs(name: str) -> None:
        begun.append(name)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async def whole() -> None:
        task = asyncio.create_task(
            Lab().recovery.gather_async({name: Part.foundational(hangs, name) for name in "abc"})
        )
        while len(begun) < 3:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sorted(ended) == ["a", "b", "c"]

    asyncio.run(whole())


def test_at_most_so_many_tasks_at_once() -> None:
    now, most = 0, 0

    async def part() -> None:
        nonlocal now, most
        now, most = now + 1, max(most, now + 1)
        await asyncio.sleep(0)
        now -= 1

    found = asyncio.run(Lab().recovery.gather_async({str(n): Part.foundational(part) for n in range(7)}, at_once=2))
    assert (most, len(found.data)) == (2, 7)


def test_the_form_for_threads_says_what_to_do_about_a_coroutine() -> None:
    async def part() -> None: ...

    with pytest.raises(ConfigurationError, match="gather_async"):
        Lab().recovery.gather({"a": Part.foundational(part)})


ERRORS = st.sampled_from([None, TimeoutError(), HttpError(500), HttpError(404), ValueError(), Exception("?")])
NAMES = st.text("abcdef", min_size=1, max_size=2)
PARTS = st.dictionaries(NAMES, st.tuples(ERRORS, st.booleans()), max_size=6)


@given(PARTS, st.sampled_from(WAYS))
def test_every_part_is_there_or_is_missing_and_only_foundations_block(
    drawn: dict[str, tuple[Exception | None, bool]], way: Gather
) -> None:
    parts = {
        name: (Part.foundational if is_base else Part.supplementary)(fails(error) if error else lambda: 1)
        for name, (error, is_base) in drawn.items()
    }
    if any(error and is_base for error, is_base in drawn.values()):
        with pytest.raises(GatherBlocked) as blocked:
            way(parts)
        done, not_done = set(blocked.value.done), set(blocked.value.not_done)
        assert (done | not_done, done & not_done) == (set(parts), set())
        assert set(blocked.value.unavailable) <= not_done
        return
    found = way(parts)
    assert set(found.data) == {name for name, (error, _) in drawn.items() if error is None}
    assert set(found.unavailable) == set(parts) - set(found.data)


def test_the_deadline_of_a_run_is_told_by_its_own_clock() -> None:
    lab = Lab()
    with lab.recovery.run(source="main_agent", timeout=10.0):
        assert lab.recovery.gather({"now": lambda: "here"}).data == {"now": "here"}
        lab.clock.push(11.0)
        with pytest.raises(GatherBlocked):
            lab.recovery.gather({"late": lambda: "too late"})

"""Streams of guarded models: silence, breaks before and after the first token, whole streams, threads and tasks."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import (
    AttemptSucceeded,
    CallsCounted,
    FailureClassified,
    FallbackActivated,
    ModelFallback,
)
from recovery_ops.rules.resilience.steps import Call, SilenceLimits
from recovery_ops.runtime import ConfigurationError, Model, ModelChain, attempt
from recovery_ops.runtime.calls.streams import Reading
from recovery_ops.runtime.guards.streams import _LEFT
from recovery_ops.runtime.testing import Lab
from tests.support.processes import eventually

SHORT = {"response_timeout": 0.15, "first_token_timeout": 0.15, "stall_timeout": 0.15}
SILENT = "silent"
CUT = ConnectionResetError(104, "Connection reset by peer")


@pytest.fixture
def lab() -> Lab:
    return Lab(default_source="main_agent")


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opened at the end, so that no thread is left behind."""
    made = threading.Event()
    yield made
    made.set()


class Models:
    """Models whose streams play parts in order: a text, an error, or silence."""

    def __init__(self, gate: threading.Event, **streams: list[list[Any]]) -> None:
        self.gate, self.streams = gate, streams
        self.asked: list[str] = []
        self.parts: list[str | None] = []

    def _next(self) -> list[Any]:
        model = attempt().model or "large"
        self.asked.append(model)
        self.parts.append(attempt().part)
        left = self.streams[model]
        return left.pop(0) if len(left) > 1 else left[0]

    def ask(self) -> Iterator[str]:
        parts = self._next()

        def played() -> Iterator[str]:
            for part in parts:
                if part == SILENT:
                    self.gate.wait(5)
                elif isinstance(part, Exception):
                    raise part
                else:
                    yield part

        return played()

    async def ask_async(self) -> AsyncIterator[str]:
        parts = self._next()

        async def played() -> AsyncIterator[str]:
            for part in parts:
                if part == SILENT:
                    while not self.gate.is_set():
                        await asyncio.sleep(0.01)
                elif isinstance(part, Exception):
                    raise part
                else:
                    yield part

        return played()


@pytest.fixture(params=["thread", "task"])
def read(request: pytest.FixtureRequest, lab: Lab) -> Callable[..., Any]:
    """Ask a chain of two models, and read the stream: the texts, and how often it began anew."""

    def asked(models: Models, **options: Any) -> tuple[list[str], int]:
        options = {"chain": ModelChain("large", "small"), **SHORT, **options}
        guard = lab.recovery.guard("model", kind="model", **options)
        texts: list[str] = []
        if request.param == "thread":
            stream = guard(models.ask)()
            texts.extend(stream)
            return texts, getattr(stream, "restarts", 0)

        async def go() -> int:
            stream = await guard(models.ask_async)()
            texts.extend([text async for text in stream])
            return getattr(stream, "restarts", 0)

        restarts = asyncio.run(go())
        return texts, restarts

    return asked


def kinds(lab: Lab) -> list[tuple[Category, str | None]]:
    return [(event.category, event.error_code) for event in lab.events_of(FailureClassified)]


def test_whole_stream_is_one_success(lab: Lab, gate: threading.Event, read: Callable[..., Any]) -> None:
    assert read(Models(gate, large=[["fi", "ne"]])) == (["fi", "ne"], 0)
    assert lab.events == []
    assert counted(lab) == (1, 0)


def counted(lab: Lab) -> tuple[int, int]:
    """Successes of the model, and its calls in flight."""
    lab.clock.push(10.0)
    lab.recovery.housekeep()
    (found,) = [event for event in lab.events_of(CallsCounted) if event.operation == "model"]
    return found.successes, found.in_flight


def test_break_before_first_token_is_retried(lab: Lab, gate: threading.Event, read: Callable[..., Any]) -> None:
    models = Models(gate, large=[[CUT], ["fi", "ne"]])
    assert read(models) == (["fi", "ne"], 0)
    assert models.asked == ["large", "large"]
    assert lab.waits == [0.5]


def test_slow_first_token_asks_the_next(lab: Lab, gate: threading.Event, read: Callable[..., Any]) -> None:
    models = Models(gate, large=[[SILENT, "late"]], small=[["fine"]])
    assert read(models) == (["fine"], 0)
    assert models.asked == ["large", "small"]
    assert kinds(lab) == [(Category.TIMEOUT, "first_token_timeout")]
    assert [(event.from_model, event.to_model) for event in lab.events_of(ModelFallback)] == [("large", "small")]


def test_last_model_may_be_slow(gate: threading.Event, read: Callable[..., Any]) -> None:
    threading.Timer(0.2, gate.set).start()
    models = Models(gate, large=[[SILENT, "late"]])
    assert read(models, chain=ModelChain("large"), first_token_timeout=0.05)[0] in (["late"],)


@pytest.mark.parametrize(("broken", "code"), [(CUT, None), (SILENT, "stall_timeout")])
def test_break_after_tokens_is_raised(
    lab: Lab, gate: threading.Event, read: Callable[..., Any], broken: Any, code: str | None
) -> None:
    models = Models(gate, large=[["fi", broken]], small=[["fine"]])
    with pytest.raises((ConnectionResetError, TimeoutError)):
        read(models)
    assert models.asked == ["large"]
    assert [found for _, found in kinds(lab)] == [code]
    assert lab.events_of(AttemptSucceeded) == []
    assert counted(lab) == (0, 0)


@pytest.mark.parametrize("broken", [CUT, SILENT], ids=str)
def test_broken_stream_restarts_on_the_next(gate: threading.Event, read: Callable[..., Any], broken: Any) -> None:
    models = Models(gate, large=[["fi", broken]], small=[["fi", "ne"]])
    assert read(models, on_broken_stream="restart") == (["fi", "fi", "ne"], 1)
    assert (models.asked, models.parts) == (["large", "small"], [None, None])


def test_broken_stream_is_continued_where_a_model_can(gate: threading.Event, read: Callable[..., Any]) -> None:
    chain = ModelChain("large", Model(name="small", can_continue=True))
    models = Models(gate, large=[["fi", CUT]], small=[["ne"]])
    assert read(models, on_broken_stream="continue", chain=chain) == (["fi", "ne"], 0)
    assert models.parts == [None, "fi"]


class Refused(Exception):
    kind = "invalid_request"


def test_refused_prefill_begins_anew(gate: threading.Event, read: Callable[..., Any]) -> None:
    chain = ModelChain("large", Model(name="small", can_continue=True))
    models = Models(gate, large=[["fi", CUT]], small=[[Refused("no prefill")], ["fine"]])
    assert read(models, on_broken_stream="continue", chain=chain) == (["fi", "fine"], 1)
    assert models.parts == [None, "fi", None]


@pytest.mark.parametrize(("broken", "asked"), [(CUT, ["large", "large"]), (SILENT, ["large", "small"])])
def test_whole_streams_are_retried_or_switched(
    gate: threading.Event, read: Callable[..., Any], broken: Any, asked: list[str]
) -> None:
    models = Models(gate, large=[["fi", broken], ["fine"]], small=[["fine"]])
    assert read(models, whole_streams=True) == (["fine"], 0)
    assert models.asked == asked


def test_repeated_breaks_open_the_breaker(lab: Lab, gate: threading.Event, read: Callable[..., Any]) -> None:
    models = Models(gate, large=[["fi", CUT]], small=[["fine"]])
    for _ in range(5):
        read(models, on_broken_stream="restart")
    assert models.asked.count("large") == 3


def test_fallback_takes_over_a_broken_stream(lab: Lab, gate: threading.Event) -> None:
    models = Models(gate, large=[["fi", CUT]])
    options: dict[str, Any] = {"on_broken_stream": "restart", "fallback": lambda: "whole"}
    stream = lab.recovery.guard("model", kind="model", **options)(models.ask)()
    assert [*stream] == ["fi", "whole"]
    assert stream.restarts == 1
    assert len(lab.events_of(FallbackActivated)) == 1


def test_silent_function_is_left_behind(lab: Lab, gate: threading.Event) -> None:
    asked = lab.recovery.guard("model", kind="model", fallback=lambda: "instead", response_timeout=0.1)(
        lambda: gate.wait(5)
    )
    assert asked() == "instead"
    assert kinds(lab) == [(Category.TIMEOUT, "response_timeout")]


class Closable:
    """A stream that records its close."""

    def __init__(self, *parts: Any) -> None:
        self.is_closed = False
        self._parts = iter(parts)

    def __iter__(self) -> Closable:
        return self

    def __next__(self) -> Any:
        if isinstance(part := next(self._parts), Exception):
            raise part
        return part

    def close(self) -> None:
        self.is_closed = True


def test_late_stream_is_closed(lab: Lab, gate: threading.Event) -> None:
    late = Closable("late")

    def ask() -> Closable:
        gate.wait(5)
        return late

    asked = lab.recovery.guard("model", kind="model", fallback=lambda: "instead", response_timeout=0.05)(ask)
    assert asked() == "instead"
    assert not late.is_closed
    gate.set()
    eventually(lambda: late.is_closed, what="the late stream was closed")


@pytest.mark.parametrize("parts", [("fi", "ne"), ("fi", CUT)], ids=["end", "error"])
def test_threaded_stream_is_closed_at_its_end(lab: Lab, parts: tuple[Any, ...]) -> None:
    stream = Closable(*parts)
    options: dict[str, Any] = {"chain": ModelChain("large", "small"), "stall_timeout": 5.0, "max_retries": 0}
    asked = lab.recovery.guard("model", kind="model", on_broken_stream="restart", **options)
    outcomes = iter([stream, iter(["whole"])])
    assert list(asked(lambda: next(outcomes))())[:1] == ["fi"]
    eventually(lambda: stream.is_closed, what="the stream was closed")


SILENCE = SilenceLimits(first_token_s=4.0, stall_s=3.0)


@pytest.mark.parametrize(
    ("silence", "deadline_s", "is_token", "is_handed_on", "limit"),
    [
        (SILENCE, None, False, False, ("first_token_timeout", 2.5, 4.0, False)),
        (SILENCE, None, True, False, ("stall_timeout", 3.0, 3.0, False)),
        (SILENCE, 4.0, False, False, ("first_token_timeout", 2.5, 4.0, False)),
        (SILENCE, 3.0, False, False, ("attempt_timeout", 1.5, 3.0, True)),
        (SILENCE, 2.0, True, True, ("stall_timeout", 3.0, 3.0, False)),
        (SilenceLimits(), 2.0, True, False, ("attempt_timeout", 0.5, 2.0, True)),
        (SilenceLimits(), 1.0, True, False, ("attempt_timeout", 0.0, 1.0, True)),
        (SilenceLimits(), 2.0, True, True, ("attempt_timeout", 2.0, 2.0, True)),
        (SilenceLimits(), None, True, True, ("", None, 0.0, False)),
    ],
)
def test_next_event_has_the_nearest_limit(
    silence: SilenceLimits, deadline_s: float | None, is_token: bool, is_handed_on: bool, limit: tuple[Any, ...]
) -> None:
    reading = Reading(Call("model", 1, deadline_s=deadline_s, silence=silence), began=10.0, now=lambda: 11.5)
    reading.has_token, reading.is_handed_on = is_token, is_handed_on
    assert tuple(reading.limit()) == limit


def test_silent_task_is_cancelled(lab: Lab) -> None:
    async def silent() -> str:
        await asyncio.sleep(5)
        return "late"

    async def instead() -> str:
        return "instead"

    asked = lab.recovery.guard("model", kind="model", fallback=instead, response_timeout=0.1)(silent)
    assert asyncio.run(asked()) == "instead"
    assert kinds(lab) == [(Category.TIMEOUT, "response_timeout")]


def test_left_stream_is_a_success(lab: Lab, gate: threading.Event) -> None:
    models = Models(gate, large=[["fi", "ne"]])
    asked: Any = lab.recovery.guard("model", kind="model")(models.ask)
    with asked() as stream:
        next(stream)
    assert next(asked()) == "fi"
    assert len(_LEFT) == 1
    assert [*asked()] == ["fi", "ne"]
    assert counted(lab) == (3, 0)


def test_generator_function_of_a_model_is_a_stream(lab: Lab) -> None:
    outcomes = iter([CUT, None])

    def ask() -> Iterator[str]:
        if (error := next(outcomes)) is not None:
            raise error
        yield "fine"

    assert inspect.isgeneratorfunction(ask)
    assert [*lab.recovery.guard("model", kind="model")(ask)()] == ["fine"]
    assert len(lab.events_of(AttemptSucceeded)) == 1


def test_unknown_word_for_broken_streams_is_refused(lab: Lab) -> None:
    with pytest.raises(ConfigurationError):
        lab.recovery.guard("model", kind="model", on_broken_stream="begin again")  # type: ignore[call-overload]

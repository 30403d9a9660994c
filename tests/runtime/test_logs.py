"""What a process without a console sees: log lines, with the fields of the events; and who waits by default."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from recovery_ops.runtime import ConfigurationError, Deadline, Fallback, Recovery, StopRun
from recovery_ops.runtime.calls import log_lines as logs
from recovery_ops.runtime.process.log_messages import TroubleLog
from recovery_ops.runtime.testing import HttpError, Lab


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_notices", TroubleLog(logs.LOGGER))


def lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "recovery_ops"]


@pytest.mark.parametrize("way", ["thread", "task"])
def test_retry_logs_its_fields(caplog: pytest.LogCaptureFixture, way: str) -> None:
    lab = Lab()
    guarded: Any
    if way == "thread":
        guarded = lab.recovery.guard("search", idempotent=True)(lab.script(TimeoutError(), "ok"))
        guarded()
    else:
        guarded = lab.recovery.guard("search", idempotent=True)(lab.script_async(TimeoutError(), "ok"))
        asyncio.run(guarded())
    (line,) = lines(caplog)
    fields = line.__dict__
    assert line.levelno == logging.WARNING
    assert (fields["operation"], fields["category"], fields["attempt"], fields["wait_s"]) == (
        "search",
        "timeout",
        2,
        0.5,
    )
    assert all(word in line.getMessage() for word in ("search", "timeout", "2", "0.5"))


def test_open_breaker_fallback_and_end_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "recovery_ops")
    lab = Lab()
    script = lab.script(*[TimeoutError()] * 4, "ok")
    cache = Fallback(lambda: "cached", name="cache")
    guarded = lab.recovery.guard("search", idempotent=True, max_retries=0, fallback=cache)(script)
    for _ in range(4):
        guarded()
    lab.clock.push(100.0)
    assert guarded() == "ok"
    seen = [(line.levelname, line.__dict__.get("state"), line.__dict__.get("fallback")) for line in lines(caplog)]
    assert seen.count(("WARNING", None, "cache")) == 4
    assert seen.count(("WARNING", "open", None)) == 1
    assert seen[-1] == ("INFO", None, None)


def test_undeclared_source_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        lab = Lab()
        guarded = lab.recovery.guard("search", idempotent=True)(lab.script(429, 429, "ok"))
        for _ in range(2):
            with pytest.raises(HttpError), Deadline(9.0, clock=lab.clock, cancels=False):
                guarded()
    (line,) = lines(caplog)
    assert "default_source" in line.getMessage()


@pytest.mark.parametrize("source", ["indexing", "main_agent"])
def test_declared_source_is_not_warned_of(caplog: pytest.LogCaptureFixture, source: str) -> None:
    lab = Lab()
    guarded = lab.recovery.guard("search", idempotent=True, max_retries=0)(lab.script(429))
    with pytest.raises(HttpError), lab.recovery.run(source=source):
        guarded()
    assert lines(caplog) == []


def test_handler_that_raises_reaches_nobody() -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise ZeroDivisionError

    broken, lab = Broken(), Lab()
    logs.LOGGER.addHandler(broken)
    try:
        assert lab.recovery.guard("search", idempotent=True)(lab.script(TimeoutError(), "ok"))() == "ok"
    finally:
        logs.LOGGER.removeHandler(broken)


class TestDefaultSource:
    @pytest.mark.parametrize("where", ["outside", "in a run", "in a deadline", "in a task"])
    def test_default_source_waits_for_capacity(self, where: str) -> None:
        lab = Lab(default_source="main_agent")
        guarded: Any = lab.recovery.guard("search", idempotent=True)(lab.script(429, "ok"))
        if where == "in a run":
            with lab.recovery.run():
                assert guarded() == "ok"
        elif where == "in a deadline":
            with Deadline(9.0, clock=lab.clock, cancels=False):
                assert guarded() == "ok"
        elif where == "in a task":
            later: Any = lab.recovery.guard("later", idempotent=True)(lab.script_async(429, "ok"))
            assert asyncio.run(later()) == "ok"
        else:
            assert guarded() == "ok"
        assert lab.waits == [0.5]

    @pytest.mark.parametrize("of", ["guard", "run"])
    def test_named_source_wins(self, of: str) -> None:
        lab = Lab(default_source="main_agent")
        options: Any = {"source": "indexing"} if of == "guard" else {}
        guarded = lab.recovery.guard("search", idempotent=True, **options)(lab.script(429))
        with pytest.raises(HttpError), lab.recovery.run(source="indexing" if of == "run" else ""):
            guarded()

    def test_misspelt_default_source_raises(self) -> None:
        with pytest.raises(ValueError, match="main_agent"):
            Recovery("x", url="", default_source="main-agent", is_background_work_wanted=False)


class TestTurns:
    @pytest.mark.parametrize(("most", "given"), [(None, 20), (3, 3), (50, 20)])
    def test_loop_ends_with_the_smaller_cap(self, most: int | None, given: int) -> None:
        seen: list[int] = []
        with pytest.raises(StopRun) as stopped, Lab().recovery.run() as run:
            seen.extend(run.turns(most))
        assert seen == list(range(1, given + 1))
        assert stopped.value.reason == "turns"

    def test_left_loop_ends_nothing(self) -> None:
        with Lab().recovery.run() as run:
            for turn in run.turns(3):
                if turn == 2:
                    break
            assert run.turn() == 3

    def test_turns_are_a_number(self) -> None:
        with Lab().recovery.run() as run, pytest.raises(ConfigurationError):
            next(run.turns(0))

"""Which exception a guarded call raises: the function's own where nothing was tried, with its history for everybody."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from recovery_ops.rules.enums import Category
from recovery_ops.runtime import CircuitOpen, Fallback, Recovery, RecoveryExhausted, StopRun
from recovery_ops.runtime.testing import HttpError, Lab

WAYS = ["thread", "task"]


@pytest.fixture
def lab() -> Lab:
    return Lab()


def raising(lab: Lab, way: str, *errors: BaseException, **options: Any) -> Callable[[], Any]:
    """A guarded function that raises these in order, and how it is called."""
    script = lab.script(*errors) if way == "thread" else lab.script_async(*errors)
    guarded: Any = lab.recovery.guard("q", **options)(script)
    return guarded if way == "thread" else lambda: asyncio.run(guarded())


def caught(call: Callable[[], Any]) -> BaseException:
    with pytest.raises(BaseException) as found:  # noqa: PT011  # its type is what the test is about
        call()
    return found.value


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("path", ["call", "outcome"])
class TestFirstAttempt:
    @pytest.mark.parametrize("error", [KeyError("x"), ValueError("x"), HttpError(404), TimeoutError(), RuntimeError()])
    def test_untried_error_passes_unchanged(self, lab: Lab, way: str, path: str, error: Exception) -> None:
        cause = error.__cause__ = OSError("below")
        script = lab.script(error) if way == "thread" else lab.script_async(error)
        guarded: Any = lab.recovery.guard("q")(script)
        called = guarded if path == "call" else guarded.outcome
        found = caught(called if way == "thread" else lambda: asyncio.run(called()))
        assert found is error
        assert found.__cause__ is cause
        assert found.__context__ is None
        assert len(found.__notes__) == 1
        report = lab.recovery.report(found)
        assert report is not None
        assert (report.operation, report.attempts, report.waits_s) == ("q", 1, ())

    def test_error_that_is_raised_again_has_one_note(self, lab: Lab, way: str, path: str) -> None:
        call = raising(lab, way, ValueError("x"))
        errors = [caught(call) for _ in range(3)]
        assert len(errors[0].__notes__) == 1


@pytest.mark.parametrize("way", WAYS)
class TestTried:
    def test_retried_error_is_the_cause_of_exhaustion(self, lab: Lab, way: str) -> None:
        last = ConnectionResetError("last")
        call = raising(lab, way, TimeoutError(), last, idempotent=True, max_retries=1)
        found = caught(call)
        assert isinstance(found, RecoveryExhausted)
        assert found.last_error is found.__cause__ is last
        for error in (found, last):
            report = lab.recovery.report(error)
            assert report is not None
            assert (report.attempts, report.category, report.waits_s) == (2, Category.NETWORK, (0.5,))

    def test_failed_fallback_is_exhaustion(self, lab: Lab, way: str) -> None:
        other = lab.script(ValueError()) if way == "thread" else lab.script_async(ValueError())
        found = caught(raising(lab, way, KeyError(), fallback=Fallback(other, name="other")))
        assert isinstance(found, RecoveryExhausted)

    @pytest.mark.parametrize("of", ["guard", "client"])
    def test_reraise_raises_the_last_original(self, way: str, of: str) -> None:
        lab = Lab(reraise=True if of == "client" else None)
        last = ConnectionResetError("last")
        cause = last.__cause__ = OSError("below")
        options: Any = {"reraise": True} if of == "guard" else {}
        found = caught(raising(lab, way, TimeoutError(), last, idempotent=True, max_retries=1, **options))
        assert found is last
        assert (found.__cause__, found.__context__) == (cause, None)
        report = lab.recovery.report(found)
        assert report is not None
        assert report.attempts == 2

    def test_reraise_raises_a_refused_permission_itself(self, lab: Lab, way: str) -> None:
        error = HttpError(403)
        assert caught(raising(lab, way, error, reraise=True)) is error
        assert isinstance(caught(raising(Lab(), way, HttpError(403))), StopRun)

    def test_no_reraise_is_always_exhaustion(self, lab: Lab, way: str) -> None:
        error = KeyError("x")
        found = caught(raising(lab, way, error, reraise=False))
        assert isinstance(found, RecoveryExhausted)
        assert found.__cause__ is error

    def test_rejected_call_has_a_report(self, lab: Lab, way: str) -> None:
        call = raising(lab, way, KeyError())
        lab.trip("q")
        found = caught(call)
        assert isinstance(found, CircuitOpen)
        report = lab.recovery.report(found)
        assert report is not None
        assert (report.attempts, report.retry_at) == (0, found.retry_at)


class TestReport:
    def test_other_error_has_none(self, lab: Lab) -> None:
        assert lab.recovery.report(ValueError()) is None
        assert lab.recovery.report(KeyboardInterrupt()) is None

    def test_report_survives_copies_and_pickles(self, lab: Lab) -> None:
        error = caught(raising(lab, "thread", ValueError("x")))
        for copied in (copy.copy(error), pickle.loads(pickle.dumps(error))):
            report = lab.recovery.report(copied)
            assert report is not None
            assert (report.operation, report.category) == ("q", Category.BUG)

    def test_error_without_attributes_passes_too(self, lab: Lab) -> None:
        class Closed(Exception):
            def __setattr__(self, name: str, value: object) -> None:
                raise AttributeError(name)

        error = Closed()
        assert caught(raising(lab, "thread", error)) is error
        assert lab.recovery.report(error) is None

    def test_playbook_goes_on_where_the_guard_ended(self, lab: Lab) -> None:
        error = caught(raising(lab, "thread", HttpError(404)))
        before = len(lab.events)
        settled = lab.recovery.dispatch_failure(error)
        assert settled.failure.category is not None
        assert not [fact for fact in lab.events[before:] if type(fact).__name__ == "FailureClassified"]


class TestNested:
    def test_untried_inner_error_is_the_outer_guards(self, lab: Lab) -> None:
        inner = lab.recovery.guard("inner")(lab.script(TimeoutError(), "ok"))
        outer = lab.recovery.guard("outer", idempotent=True)(inner)
        with lab.recovery.run(source="main_agent"):
            assert outer() == "ok"

    def test_exhausted_inner_error_passes_the_outer(self, lab: Lab) -> None:
        script = lab.script(TimeoutError())
        inner = lab.recovery.guard("inner", idempotent=True, max_retries=1, reraise=True)(script)
        outer = lab.recovery.guard("outer", idempotent=True)(inner)
        with lab.recovery.run(source="main_agent"):
            found = caught(outer)
        assert isinstance(found, TimeoutError)
        assert script.calls == 2
        report = lab.recovery.report(found)
        assert report is not None


def test_switched_off_client_reports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_OPS_OFF", "1")
    recovery = Recovery("off", url="", is_background_work_wanted=False)
    error = caught(recovery.guard("q")(Lab().script(ValueError())))
    assert recovery.report(error) is None

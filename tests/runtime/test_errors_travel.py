"""Every public error crosses to another process, and is copied, as it is."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from recovery_ops.rules.enums import Category, State, StopReason
from recovery_ops.runtime import classify, errors
from recovery_ops.runtime.partial_results.parts import Unavailable

AT = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)


class NeedsTwo(Exception):
    """Pickles, but cannot be read back: what most HTTP clients raise."""

    def __init__(self, what: str, *, response: str) -> None:
        super().__init__(f"{what} {response}")


class Slotted(errors.CheckpointError):
    """A caller's own."""

    __slots__ = ("page",)

    def __init__(self, page: int, *, shelf: str) -> None:
        self.page = page
        self.shelf = shelf
        super().__init__(f"page {page}", shelf)


def exhausted(last_error: BaseException | None) -> errors.RecoveryExhausted:
    return errors.RecoveryExhausted(
        "search",
        last_error=last_error,
        attempts=3,
        steps=("retry", "fallback"),
        reason=StopReason.NOT_RETRYABLE,
        category=Category.TIMEOUT,
        retry_at=AT,
        user_message="The search does not answer.",
        suggestion="Try later.",
        failure=classify(TimeoutError("slow")),
    )


def blocked(error: BaseException | None = None, found: object = (1, 2)) -> errors.GatherBlocked:
    lost = Unavailable("b", "it is down", Category.NETWORK, is_foundational=True, retry_at=AT, error=error)
    return errors.GatherBlocked(done={"a": found}, not_done=("b",), unavailable={"b": lost})


def stopped() -> errors.StopRun:
    error = errors.StopRun(Category.PERMISSION, "You may not.", operation="pay", reason="errors")
    error.resume_id = "wf-1"
    error.add_note("seen by the test")
    return error


MADE: list[errors.RecoveryError] = [
    errors.RecoveryError("root", 2),
    errors.CallRejected("search", reason="so", retry_at=AT),
    errors.CircuitOpen("search", breaker="web", state=State.FORCED_OPEN, retry_at=AT, note="Ana: down"),
    errors.RetryAfterActive("search", retry_at=AT),
    errors.RetryAfterActive("search", retry_at=AT, credentials=("team-a", "team-b")),
    errors.DeadlineExceeded("search", was_begun=True),
    errors.DeadlineExceeded("search"),
    errors.LoadShed("search"),
    errors.RunsPaused("refund", note="ana: the ledger moves"),
    exhausted(None),
    stopped(),
    errors.RunCancelled("search"),
    errors.SchemaMismatch("answer", ("a is missing",), is_model_output=True),
    blocked(),
    errors.WorkflowLocked("report", "wf-1", owner="host:1", until=AT),
    errors.StepChanged("report", "wf-1", "mail", was_done=True),
    errors.CheckpointError("the disk is full"),
    errors.ConfigurationError("give it a codec"),
    Slotted(7, shelf="b"),
]


def fields(error: BaseException) -> dict[str, Any]:
    slots = {"page": error.page} if isinstance(error, Slotted) else {}
    return {**vars(error), **slots}


def family(root: type[errors.RecoveryError]) -> Iterator[type[errors.RecoveryError]]:
    yield root
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from family(child)


def test_every_class_of_the_tree_is_tried() -> None:
    assert set(family(errors.RecoveryError)) <= {type(error) for error in MADE}


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
class TestEachError:
    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_pickled(self, error: errors.RecoveryError, protocol: int) -> None:
        back = pickle.loads(pickle.dumps(error, protocol))
        assert type(back) is type(error)
        assert (str(back), back.args, fields(back)) == (str(error), error.args, fields(error))

    @pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
    def test_copied(self, error: errors.RecoveryError, copied: Any) -> None:
        back = copied(error)
        assert type(back) is type(error)
        assert back is not error
        assert (str(back), back.args, fields(back)) == (str(error), error.args, fields(error))


class TestWhatCannotTravel:
    def test_an_error_that_can_keeps_its_class(self) -> None:
        back = pickle.loads(pickle.dumps(exhausted(OSError(5, "disk"))))
        assert type(back.last_error) is OSError
        assert back.last_error.errno == 5

    @pytest.mark.parametrize("last_error", [NeedsTwo("GET", response="500"), ValueError("held", threading.Lock())])
    def test_an_error_that_cannot_is_told_in_words(self, last_error: Exception) -> None:
        error = exhausted(last_error)
        back = pickle.loads(pickle.dumps(error))
        assert type(back) is errors.RecoveryExhausted
        assert type(back.last_error) is Exception
        assert type(last_error).__name__ in str(back.last_error)
        assert str(last_error) in str(back.last_error)
        rest = {name: value for name, value in fields(error).items() if name != "last_error"}
        assert {name: value for name, value in fields(back).items() if name != "last_error"} == rest

    def test_a_copy_in_this_process_keeps_the_very_error(self) -> None:
        error = exhausted(NeedsTwo("GET", response="500"))
        assert copy.copy(error).last_error is error.last_error

    def test_only_the_part_that_cannot_is_replaced(self) -> None:
        back = pickle.loads(
            pickle.dumps(blocked(NeedsTwo("GET", response="500"), {"fine": 1, "lock": threading.Lock()}))
        )
        assert back.done["a"]["fine"] == 1
        assert isinstance(back.done["a"]["lock"], str)
        assert back.unavailable["b"].category is Category.NETWORK
        assert back.can_retry
        assert "NeedsTwo" in str(back.unavailable["b"].error)

    def test_many_errors_in_each_other_take_no_time_without_end(self) -> None:
        error: errors.RecoveryExhausted = exhausted(NeedsTwo("GET", response="500"))
        for _ in range(30):
            error = exhausted(error)
        back: Any = pickle.loads(pickle.dumps(error))
        for _ in range(30):
            back = back.last_error
        assert "NeedsTwo" in str(back.last_error)


def fail_in_a_worker(_: int) -> None:
    raise exhausted(NeedsTwo("GET", response="500"))


def test_a_pool_hands_it_to_the_parent() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        waiting = pool.map_async(fail_in_a_worker, [1])
        with pytest.raises(errors.RecoveryExhausted, match="failed after 3 attempts"):
            waiting.get(timeout=60)

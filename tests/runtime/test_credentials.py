"""Guards with credentials: which key a call uses, in threads and tasks; labels that may be keys are refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from recovery_ops import wire
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import FailureClassified, GateClosed, GateOpened, Record, RetryScheduled
from recovery_ops.runtime import ConfigurationError, ModelChain, RecoveryExhausted, Response, RetryAfterActive, attempt
from recovery_ops.runtime.testing import HttpError, Lab

LABELS = ["team-a", "team-b"]
KEY = "sk-proj-A1b2C3d4E5f6G7h8I9j0K1l2"


class Service:
    """A function behind a guard: it answers by the key that it is told to use, and notes each."""

    def __init__(self, lab: Lab, *, is_async: bool, **options: Any) -> None:
        self.lab, self.used = lab, list[str | None]()
        self.failing: dict[str, Exception] = {}
        options = {"credentials": LABELS, "kind": "model", **options}
        self.guarded = lab.recovery.guard("model", **options)(self.ask_async if is_async else self.ask)
        self.is_async = is_async

    def ask(self) -> str:
        label = attempt().credential
        self.used.append(label)
        if label in self.failing:
            raise self.failing[label]
        return str(label)

    async def ask_async(self) -> str:
        return self.ask()

    def __call__(self, source: str = "main_agent") -> Any:
        with self.lab.recovery.run(source=source):
            return asyncio.run(self.guarded()) if self.is_async else self.guarded()


@pytest.fixture(params=[False, True], ids=["thread", "task"])
def service_of(request: pytest.FixtureRequest) -> Callable[..., Service]:
    return lambda **options: Service(Lab(), is_async=request.param, **options)


@pytest.mark.parametrize("kind", ["model", "operation", "tool"])
def test_every_call_learns_its_key(service_of: Callable[..., Service], kind: str) -> None:
    service = service_of(kind=kind)
    assert [service(), service()] == ["team-a", "team-a"]


@pytest.mark.parametrize("status", [401, 402])
def test_spent_or_rejected_key_rests(service_of: Callable[..., Service], status: int) -> None:
    service = service_of()
    service.failing = {"team-a": HttpError(status)}
    assert [service(), service()] == ["team-b", "team-b"]
    assert service.used == ["team-a", "team-b", "team-b"]
    assert service.lab.waits == []
    service.lab.clock.push(901.0)
    service.failing = {}
    assert service() == "team-a"
    assert [one.credential for one in service.lab.events_of(GateClosed)] == ["team-a"]
    assert [one.credential for one in service.lab.events_of(GateOpened)] == ["team-a"]


def test_spent_key_rests_for_other_guards(service_of: Callable[..., Service]) -> None:
    service = service_of()
    service.failing = {"team-a": HttpError(402)}
    service()
    other = service.lab.recovery.guard("other", credentials=LABELS)(lambda: attempt().credential)
    assert other() == "team-b"


def test_guards_of_one_operation_have_own_keys(service_of: Callable[..., Service]) -> None:
    service = service_of()
    other = service.lab.recovery.guard("model", credentials=["team-c"], kind="model")(lambda: attempt().credential)
    assert (service(), other()) == ("team-a", "team-c")


def test_all_keys_at_rest_reject_with_the_soonest(service_of: Callable[..., Service]) -> None:
    service = service_of()
    service.failing = {
        label: HttpError(Response(402, {"retry-after": wait_s}, {}))
        for label, wait_s in (("team-a", "2000"), ("team-b", "500"))
    }
    with pytest.raises(RecoveryExhausted):
        service()
    with pytest.raises(RetryAfterActive) as rejected:
        service()
    now_s = service.lab.clock.wall()
    assert rejected.value.retry_at is not None
    assert rejected.value.retry_at.timestamp() - now_s == pytest.approx(500.0)
    assert service.used == ["team-a", "team-b"]
    assert rejected.value.credentials == ("team-a", "team-b")
    assert all(label in str(rejected.value) for label in LABELS)


def test_servers_pause_names_no_key(service_of: Callable[..., Service]) -> None:
    service = service_of(credentials=None)
    service.failing = {None: HttpError(Response(429, {"retry-after": "2000"}, {}))}  # type: ignore[dict-item]
    with pytest.raises(RecoveryExhausted):
        service()
    with pytest.raises(RetryAfterActive) as rejected:
        service()
    assert rejected.value.credentials == ()


def test_sweep_ends_a_rest_without_a_call(service_of: Callable[..., Service]) -> None:
    service = service_of()
    service.failing = {"team-a": HttpError(402)}
    service()
    service.lab.clock.push(901.0)
    with service.lab.recovery.lock:
        service.lab.recovery.operations.sweep()
    [opened] = service.lab.events_of(GateOpened)
    assert (opened.credential, opened.category, opened.closed_s) == ("team-a", Category.QUOTA_EXHAUSTED, 901.0)


def test_models_of_a_chain_share_the_keys(service_of: Callable[..., Service]) -> None:
    service = service_of(chain=ModelChain("large", "small"))
    service.failing = {"team-a": HttpError(402)}
    assert service() == "team-b"
    assert service.lab.events_of(RetryScheduled)[0].credential == "team-b"


def test_block_learns_its_key() -> None:
    lab = Lab()
    with lab.recovery.run(source="main_agent"):
        used = []
        for one in lab.recovery.attempts("import", credentials=LABELS, idempotent=True, max_retries=2):
            with one:
                used.append(attempt().credential)
                if used == ["team-a"]:
                    raise HttpError(402)
    assert used == LABELS


def test_one_thread_tests_a_rested_key() -> None:
    lab, barrier = Lab(), Barrier(4)
    used: list[str | None] = []

    def ask() -> None:
        used.append(attempt().credential)
        if attempt().credential == "team-a":
            raise HttpError(402)

    guarded = lab.recovery.guard("model", kind="model", credentials=LABELS, max_retries=3, source="main_agent")(ask)
    guarded()
    lab.clock.push(901.0)
    used.clear()

    def together() -> None:
        barrier.wait(10.0)
        guarded()

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(together) for _ in range(4)]:
            done.result(timeout=30.0)
    assert (used.count("team-a"), used.count("team-b")) == (1, 4)


def test_cancelled_test_is_left_to_the_next_call() -> None:
    lab, used = Lab(), list[str | None]()

    async def ask() -> None:
        used.append(attempt().credential)
        if len(used) == 1:
            raise HttpError(402)
        if len(used) == 3:
            raise asyncio.CancelledError

    guarded = lab.recovery.guard("model", kind="model", credentials=LABELS, source="main_agent")(ask)
    asyncio.run(guarded())
    lab.clock.push(901.0)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(guarded())
    asyncio.run(guarded())
    assert used == ["team-a", "team-b", "team-a", "team-a"]


def test_events_name_no_secret(service_of: Callable[..., Service], caplog: pytest.LogCaptureFixture) -> None:
    service = service_of()
    service.failing = {"team-a": HttpError(Response(401, {}, {"error": {"message": f"Incorrect API key: {KEY}"}}))}
    with caplog.at_level(logging.DEBUG):
        service()
    [failed] = service.lab.events_of(FailureClassified)
    sent = wire.encode(Record(event=failed, uid="", sequence_number=0, at_ns=0))
    assert sent.attributes["recovery.credential.label"] == "team-a"
    assert KEY not in f"{service.lab.events}{caplog.text}{service.guarded.operation!r}"


WRONG = [
    *("team-a", [], [""], [7], [KEY], ["a" * 41], ["team a"], ["team\na"], ["a", "a"], {"team-a": KEY}, {"team-a"}),
    [["team-a"]],
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda one: type(one).__name__)
def test_wrong_labels_are_refused_unseen(wrong: Any) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Lab().recovery.guard("model", credentials=wrong)
    assert KEY not in str(refused.value)

"""Which key an attempt uses, and which keys rest; no key is used at rest while a sibling is ready."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import CAPACITY, Category, DelaySource, Evidence
from recovery_ops.rules.events import GateClosed, GateOpened
from recovery_ops.rules.policy.model import BUILT_IN_DEFAULTS, FAIL_CLOSED, OperationPolicy, Settings
from recovery_ops.rules.resilience import steps
from recovery_ops.rules.resilience.call_context import CallContext, OperationState
from recovery_ops.rules.resilience.call_steps import call_steps
from recovery_ops.rules.resilience.circuit_breaker import Breaker
from recovery_ops.rules.resilience.credentials import OF_THE_KEY, Credential, CredentialPool, with_next_key
from recovery_ops.rules.resilience.retry import RetryDecision
from tests.support.ladder_properties import STATUS, failures

SETTINGS = Settings(max_retries=2, base_delay_s=0.5, quota_rest_s=900.0).over(
    BUILT_IN_DEFAULTS["model"].over(FAIL_CLOSED)
)
OF_ALL = (Category.QUOTA_EXHAUSTED, Category.AUTH)
"""What rests a key for all operations."""


def failure(category: Category, retry_after_s: float | None = None) -> Failure:
    return Failure(
        category=category,
        evidence=Evidence.HTTP_STATUS,
        status_code=STATUS.get(category),
        retry_after_s=retry_after_s,
    )


def pool(*labels: str) -> CredentialPool:
    return CredentialPool("model", [Credential(label) for label in labels], {})


def test_first_ready_key_is_used() -> None:
    keys = pool("a", "b", "c")
    assert keys.take(0.0) == "a"
    keys.fail("a", 0.0, failure(Category.QUOTA_EXHAUSTED, 60.0), SETTINGS)
    assert keys.take(1.0) == "b"
    keys.fail("b", 1.0, failure(Category.RATE_LIMITED), SETTINGS)
    assert (keys.take(1.1), keys.take(1.6)) == ("c", "b")


def test_resting_keys_leave_the_soonest() -> None:
    keys = pool("a", "b")
    keys.fail("a", 0.0, failure(Category.AUTH), SETTINGS)
    keys.fail("b", 0.0, failure(Category.RATE_LIMIT_WINDOW, 300.0), SETTINGS)
    assert (keys.opens_in_s(100.0), keys.take(100.0)) == (200.0, "b")


def test_one_call_tests_a_rested_key() -> None:
    keys = pool("a", "b")
    keys.fail("a", 0.0, failure(Category.QUOTA_EXHAUSTED, 60.0), SETTINGS)
    assert [keys.take(61.0) for _ in range(3)] == ["a", "b", "b"]
    keys.given_back("a")
    assert [keys.take(62.0) for _ in range(2)] == ["a", "b"]
    keys.answered("a")
    assert [keys.take(63.0) for _ in range(2)] == ["a", "a"]


def test_lost_test_is_made_again() -> None:
    keys = pool("a", "b")
    keys.fail("a", 0.0, failure(Category.QUOTA_EXHAUSTED, 60.0), SETTINGS)
    assert [keys.take(now) for now in (61.0, 180.0, 181.0)] == ["a", "b", "a"]


def test_tested_key_is_used_where_no_other_is_ready() -> None:
    keys = pool("a", "b")
    keys.fail("a", 0.0, failure(Category.QUOTA_EXHAUSTED, 60.0), SETTINGS)
    keys.fail("b", 0.0, failure(Category.QUOTA_EXHAUSTED, 600.0), SETTINGS)
    assert [keys.take(61.0), keys.take(61.0)] == ["a", "a"]


def test_spent_key_rests_everywhere_and_throttled_key_does_not() -> None:
    shared = [Credential("a"), Credential("b")]
    one, other = CredentialPool("one", shared, {}), CredentialPool("other", shared, {})
    for category in OF_THE_KEY:
        events = one.fail("a", 0.0, failure(category, 60.0), SETTINGS)
        assert [(event.operation, event.credential) for event in events or () if isinstance(event, GateClosed)] == [
            ("one", "a")
        ]
        assert one.next(1.0).label == "b"
        assert other.next(1.0).label == ("b" if category in OF_ALL else "a"), category
        one.renew(1.0)
        one, other = CredentialPool("one", shared, {}), CredentialPool("other", shared, {})


def test_failure_of_the_service_rests_no_key() -> None:
    for category in set(Category) - OF_THE_KEY:
        keys = pool("a", "b")
        assert keys.fail("a", 0.0, failure(category, 60.0), SETTINGS) is None
        assert not keys.is_next_ready("a", failure(category), 0.0)
        assert keys.take(0.0) == "a"


def test_only_key_never_rests() -> None:
    for category in Category:
        keys = pool("a")
        assert keys.fail("a", 0.0, failure(category, 60.0), SETTINGS) is None
        assert not keys.is_next_ready("a", failure(category), 0.0)


def test_sibling_is_asked_within_the_retries() -> None:
    spent, limited, no = failure(Category.QUOTA_EXHAUSTED), failure(Category.RATE_LIMITED), RetryDecision(False, "no")
    at_once = RetryDecision(True, "retryable", 0.0, DelaySource.IMMEDIATE)
    later = RetryDecision(True, "retryable", 20.0, DelaySource.RETRY_AFTER)
    rows = [
        (spent, no, 1, 2, True, at_once),
        (spent, no, 3, 2, True, no),
        (spent, no, 9, None, True, at_once),
        (spent, no, 1, 2, False, no),
        (replace(spent, nothing_was_done=True), no, 1, 2, False, at_once),
        (replace(spent, is_exhausted=True), no, 1, 2, True, no),
        (limited, no, 1, 2, True, no),
        (limited, later, 1, 2, True, at_once),
    ]
    for found, decision, attempt, limit, is_repeatable, expected in rows:
        given_ = {"attempt": attempt, "max_retries": limit, "is_repeatable": is_repeatable}
        assert with_next_key(decision, found, **given_) == expected  # type: ignore[arg-type]  # of several types


@dataclass
class Rests:
    """Which keys rest, by the events alone."""

    of_all: dict[str, float] = field(default_factory=dict)
    of_one: dict[tuple[str, str], float] = field(default_factory=dict)

    def note(self, event: object, now: float) -> None:
        if not isinstance(event, GateClosed | GateOpened) or event.credential is None:
            return
        until = now + event.wait_s if isinstance(event, GateClosed) else now
        if event.category in OF_ALL:
            self.of_all[event.credential] = until
        else:
            self.of_one[event.operation, event.credential] = until

    def rest(self, operation: str, label: str, now: float) -> bool:
        return max(self.of_all.get(label, -inf), self.of_one.get((operation, label), -inf)) > now


answers = st.one_of(st.none(), failures(), st.sampled_from(sorted(OF_THE_KEY)).map(failure))


@given(st.data(), st.integers(2, 3), st.integers(0, 4), st.sampled_from(["main_agent", "nightly"]))
def test_no_key_is_used_at_rest_while_a_sibling_is_ready(
    data: st.DataObject, keys: int, retries: int, source: str
) -> None:
    """Calls of two operations side by side share the keys; none makes more attempts than without keys."""
    said = replace(SETTINGS, max_retries=retries, max_retries_background=retries)
    shared = {f"key-{number}": Credential(f"key-{number}") for number in range(keys)}
    rests, now, ticket = Rests(), 100.0, count()
    due: list[tuple[float, int, int, steps.Reply]] = []
    standings, climbing, made = [], [], {}
    for name in ("one", "other"):
        standings.append(OperationState(name, OperationPolicy(settings=said), Breaker(name, said)))
        standings[-1].credentials.update(shared)
    for number in range(data.draw(st.integers(1, 6))):
        call = CallContext(
            standing=standings[number % 2],
            source=source,
            started_at=100.0 + number * data.draw(st.sampled_from([0.0, 1.0, 400.0])),
            chance=lambda: 0.0,
            credentials=tuple(shared.values()),
            is_repeatable=True,
        )
        climbing.append((call, call_steps(call)))
        made[number] = 0
        heapq.heappush(due, (call.started_at, next(ticket), number, None))
    while due:
        now, _, number, reply = heapq.heappop(due)
        call, climb = climbing[number]
        try:
            step = climb.send(reply)
            while isinstance(step, steps.Emit):
                rests.note(step.event, now)
                step = climb.send(None)
        except StopIteration:
            continue
        if isinstance(step, steps.Wait):
            heapq.heappush(due, (now + step.delay_s, next(ticket), number, steps.Woke(now + step.delay_s)))
            continue
        assert isinstance(step, steps.Call)
        assert step.credential in shared
        resting = {label for label in shared if rests.rest(step.operation, label, now)}
        assert step.credential not in resting or resting == set(shared)
        made[number] += 1
        assert made[number] <= 1 + call.standing.policy.max_retries(is_foreground=call.is_foreground)
        took_s, answer = data.draw(st.sampled_from([0.0, 0.5, 45.0])), data.draw(answers)
        if answer is not None and answer.category in CAPACITY and not call.is_foreground:
            made[number] = 99  # no attempt follows a capacity failure in background
        ended = now + took_s
        told = steps.Returned(ended, took_s) if answer is None else steps.Raised(ended, answer, took_s)
        heapq.heappush(due, (ended, next(ticket), number, told))

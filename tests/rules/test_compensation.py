"""Carrying a playbook out, driven by scripted replies: what is done, in which order, and what no schedule may do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import (
    CAPACITY,
    Category,
    Compensation,
    CompensationOutcome,
    Evidence,
    Verdict,
)
from recovery_ops.rules.events import (
    CompensationFinished,
    Escalated,
    Event,
    FailureClassified,
    RetryScheduled,
    ReversalRefused,
)
from recovery_ops.rules.playbook.compensation import Ask, Case, Doing, Refresh, Reverse, Settled, Spent, compensate
from recovery_ops.rules.playbook.verdicts import BUILT_IN_PLAYBOOK, Play, Playbook
from recovery_ops.rules.policy.escalation_rules import Asking
from recovery_ops.rules.policy.model import BUILT_IN_DEFAULTS, FAIL_CLOSED, OperationPolicy
from recovery_ops.rules.resilience.steps import Call, CalledOff, Cause, Emit, Raised, Returned, Wait, Woke

POLICY = OperationPolicy(settings=BUILT_IN_DEFAULTS["operation"].over(FAIL_CLOSED))
OK = "ok"
Outcome = CompensationOutcome


def failure(category: Category, **more: Any) -> Failure:
    evidence = Evidence.NONE if category is Category.UNKNOWN else Evidence.STRUCTURED_CODE
    return Failure(category, more.pop("evidence", evidence), **more)


@dataclass
class Played:
    """What a dispatch did: when each call was made, what it waited, what it told."""

    settled: Settled | CalledOff | None = None
    facts: list[Event] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    did: list[str] = field(default_factory=list)
    calls: list[tuple[float, Failure, float]] = field(default_factory=list)
    """When each retry was made, after which failure, and how long after it."""
    now: float = 0.0
    last: Failure | None = None
    failed_at: float = 0.0

    def of(self, kind: type[Event]) -> list[Any]:
        return [fact for fact in self.facts if isinstance(fact, kind)]

    @property
    def ended(self) -> Settled:
        assert isinstance(self.settled, Settled)
        return self.settled


def case(**more: Any) -> Case:
    said: dict[str, Any] = {
        "operation": "book",
        "policy": POLICY,
        "is_foreground": True,
        "is_repeatable": True,
        "started_at": 0.0,
        "chance": lambda: 0.0,
        "can_retry": True,
        "can_refresh": True,
    }
    return Case(**(said | more))


def play(
    given_case: Case,
    first: Failure,
    outcomes: Sequence[object] = (),
    takes_s: float = 0.0,
    wakes: Cause = Cause.ELAPSED,
) -> Played:
    """Drive a case; outcomes (OK or a failure) answer calls, refreshes and reversals in turn, the last repeats."""
    played, left = Played(now=given_case.started_at, last=first), list(outcomes)
    steps = compensate(given_case, first)
    answer: Any = None
    try:
        while True:
            answer = _answer(played, steps.send(answer), left, takes_s, wakes)
    except StopIteration as end:
        played.settled = end.value
    return played


def _answer(played: Played, step: Doing, left: list[object], takes_s: float, wakes: Cause) -> Any:
    if isinstance(step, Emit):
        played.facts.append(step.event)
        return None
    if isinstance(step, Ask):
        played.did.append("ask")
        played.facts.append(step.question)
        return None
    if isinstance(step, Wait):
        played.waits.append(step.delay_s)
        played.now += step.delay_s
        return Woke(played.now, wakes)
    played.did.append({Call: "call", Refresh: "refresh", Reverse: "reverse"}[type(step)])
    if isinstance(step, Call) and played.last is not None:
        played.calls.append((played.now, played.last, played.now - played.failed_at))
    played.now += takes_s
    outcome = left.pop(0) if len(left) > 1 else left[0]
    if outcome == OK:
        return Returned(played.now, takes_s)
    if isinstance(outcome, Failure):
        played.last, played.failed_at = outcome, played.now
        return Raised(played.now, outcome, takes_s)
    return Spent(played.now)


TIMEOUT = failure(Category.TIMEOUT)
SERVER_ERROR = failure(Category.SERVER_ERROR, status_code=500)
STALE = failure(Category.STALE_EVIDENCE, status_code=412)
CONFLICT = failure(Category.IDEMPOTENCY_CONFLICT, status_code=409)
DENIED = failure(Category.PERMISSION, status_code=403)
MISMATCH = failure(Category.SCHEMA_MISMATCH)
UNKNOWN = failure(Category.UNKNOWN)
NOT_FOUND = failure(Category.NOT_FOUND, status_code=404)


@pytest.mark.parametrize(
    ("first", "outcomes", "waits", "did", "outcome", "compensation"),
    [
        (TIMEOUT, [OK], [0.2], ["call"], Outcome.SUCCEEDED_AFTER_COMPENSATION, "retry_with_backoff"),
        (TIMEOUT, [TIMEOUT], [0.2, 0.6, 1.8], ["call"] * 3, Outcome.EXHAUSTED, "retry_with_backoff"),
        (SERVER_ERROR, [SERVER_ERROR], [0.5, 2.0], ["call"] * 2, Outcome.EXHAUSTED, "retry_with_backoff"),
        (UNKNOWN, [], [], ["ask"], Outcome.ESCALATED, "escalate_to_human"),
        (CONFLICT, [], [], [], Outcome.DEPRECATED, "deprecate_tool_call"),
        (STALE, [OK, OK], [], ["refresh", "call"], Outcome.SUCCEEDED_AFTER_COMPENSATION, "refresh_evidence"),
        (STALE, [OK, STALE], [], ["refresh", "call"], Outcome.DEPRECATED, "refresh_evidence"),
        (STALE, [OK, TIMEOUT], [], ["refresh", "call"], Outcome.DEPRECATED, "refresh_evidence"),
        (STALE, [TIMEOUT], [], ["refresh"], Outcome.DEPRECATED, "refresh_evidence"),
        (DENIED, [], [], ["ask"], Outcome.ESCALATED, "escalate_to_human"),
        (MISMATCH, [], [], ["ask"], Outcome.DEPRECATED, "deprecate_tool_call"),
    ],
)
def test_each_row_of_the_table(
    first: Failure, outcomes: list[object], waits: list[float], did: list[str], outcome: Outcome, compensation: str
) -> None:
    played = play(case(), first, outcomes)
    assert played.waits == pytest.approx(waits)
    assert played.did == did
    (finished,) = played.of(CompensationFinished)
    assert (finished.outcome, finished.compensation.value, finished.verdict) == (outcome, compensation, first.verdict)
    assert played.ended.outcome is outcome


@pytest.mark.parametrize(
    ("first", "queue"), [(UNKNOWN, "unclassified"), (DENIED, "policy_review"), (MISMATCH, "adapter_owner")]
)
def test_each_question_goes_to_its_queue(first: Failure, queue: str) -> None:
    (asked,) = play(case(), first).of(Escalated)
    assert (asked.queue, asked.category) == (queue, first.category)


def test_question_has_the_terms_of_its_policy() -> None:
    terms = Asking(queue="elsewhere", deadline_s=600.0, default_answer="allow")
    policy = replace(POLICY, escalations={Category.UNKNOWN: terms})
    (asked,) = play(case(policy=policy, escalation_id="q-7"), UNKNOWN).of(Escalated)
    assert (asked.deadline_s, asked.default_action, asked.escalation_id) == (600.0, "allow", "q-7")
    assert (asked.queue, asked.reason) == ("unclassified", "unknown")


def test_a_refusal_is_escalated_even_where_nobody_may_retry() -> None:
    played = play(case(is_foreground=False, is_repeatable=False, can_retry=False, deadline_at=0.0), DENIED)
    assert played.ended.outcome is Outcome.ESCALATED


@pytest.mark.parametrize(
    ("second", "outcome", "verdict"),
    [
        (CONFLICT, Outcome.DEPRECATED, Verdict.IDEMPOTENCY_CONFLICT),
        (DENIED, Outcome.ESCALATED, Verdict.POLICY_DENIED),
        (UNKNOWN, Outcome.ESCALATED, Verdict.SERVER_ERROR_5XX),
        (MISMATCH, Outcome.DEPRECATED, Verdict.SCHEMA_MISMATCH),
        (NOT_FOUND, Outcome.EXHAUSTED, Verdict.TRANSIENT_TIMEOUT),
    ],
)
def test_a_retry_that_fails_in_another_way_is_judged_by_its_own_verdict(
    second: Failure, outcome: Outcome, verdict: Verdict
) -> None:
    played = play(case(), TIMEOUT, [second])
    assert [at for at, _, _ in played.calls] == pytest.approx([0.2])
    assert (played.ended.outcome, played.ended.verdict) == (outcome, verdict)
    assert len(played.of(CompensationFinished)) == 1
    assert [fact.category for fact in played.of(FailureClassified)] == [Category.TIMEOUT, second.category]


def test_two_verdicts_in_turn_share_one_count_of_retries() -> None:
    played = play(case(), TIMEOUT, [SERVER_ERROR])
    assert played.waits == pytest.approx([0.2, 2.0])
    assert played.ended.retries == 2


@pytest.mark.parametrize(
    ("more", "first", "reason"),
    [
        ({"is_foreground": False}, failure(Category.OVERLOADED, status_code=529), "capacity_in_background"),
        ({"is_foreground": False}, failure(Category.RATE_LIMITED, status_code=429), "capacity_in_background"),
        ({"is_repeatable": False}, TIMEOUT, "may_do_harm_twice"),
        ({}, failure(Category.SERVER_ERROR, server_says_retry=False), "server_said_no"),
        ({"can_retry": False}, TIMEOUT, "nothing_to_retry"),
        ({"deadline_at": 0.2}, TIMEOUT, "deadline"),
        ({"deadline_at": 10.0}, failure(Category.TIMEOUT, retry_after_s=60.0), "deadline"),
    ],
)
def test_what_wins_over_the_schedule(more: dict[str, Any], first: Failure, reason: str) -> None:
    played = play(case(**more), first)
    assert (played.did, played.waits) == ([], [])
    assert (played.ended.outcome, played.ended.reason) == (Outcome.EXHAUSTED, reason)


def test_a_destructive_call_is_retried_where_nothing_was_done() -> None:
    refused = failure(Category.NETWORK, nothing_was_done=True)
    played = play(case(is_repeatable=False), refused, [OK])
    assert played.ended.outcome is Outcome.SUCCEEDED_AFTER_COMPENSATION


def test_the_servers_word_beats_the_schedule_and_says_so() -> None:
    played = play(case(), failure(Category.RATE_LIMITED, status_code=429, retry_after_s=5.0), [OK])
    assert sum(played.waits) == pytest.approx(5.0)
    (scheduled,) = played.of(RetryScheduled)
    assert (scheduled.delay_s, scheduled.delay_source.value) == (5.0, "retry_after")


def test_a_failure_without_a_verdict_is_recorded_and_left_alone() -> None:
    played = play(case(), NOT_FOUND)
    assert [type(fact) for fact in played.facts] == [FailureClassified]
    assert (played.ended.outcome, played.ended.reason) == (Outcome.EXHAUSTED, "no_verdict")


def test_a_cancel_is_not_an_error() -> None:
    played = play(case(), failure(Category.CANCELLED))
    assert isinstance(played.settled, CalledOff)
    assert played.facts == []


@pytest.mark.parametrize(
    ("more", "outcomes", "outcome", "reason"),
    [
        ({}, [], Outcome.EXHAUSTED, "no_token"),
        ({"reverses": "pay"}, [], Outcome.EXHAUSTED, "token_of_another_call"),
        ({"reverses": "book"}, ["spent"], Outcome.EXHAUSTED, "token_already_redeemed"),
        ({"reverses": "book"}, [TIMEOUT], Outcome.EXHAUSTED, "reversal_failed"),
        ({"reverses": "book"}, [OK], Outcome.REVERSED, "reversed"),
    ],
)
def test_nothing_is_undone_without_a_token(
    more: dict[str, Any], outcomes: list[object], outcome: Outcome, reason: str
) -> None:
    undo = Play(compensation=Compensation.ISSUE_REVERSAL)
    playbook = Playbook({**BUILT_IN_PLAYBOOK.plays, Verdict.IDEMPOTENCY_CONFLICT: undo})
    played = play(case(playbook=playbook, action_id="order-7", **more), CONFLICT, outcomes)
    assert (played.ended.outcome, played.ended.reason) == (outcome, reason)
    refused = [fact.reason for fact in played.of(ReversalRefused)]
    assert refused == ([reason] if reason.startswith(("no_token", "token_")) else [])


failures = st.builds(
    failure,
    st.sampled_from([category for category in Category if category is not Category.CANCELLED]),
    retry_after_s=st.none() | st.floats(0, 120),
    server_says_retry=st.none() | st.booleans(),
    nothing_was_done=st.booleans(),
    status_code=st.none() | st.sampled_from([401, 403, 408, 409, 412, 429, 500, 503, 529]),
)
cases = st.builds(
    case,
    is_foreground=st.booleans(),
    is_repeatable=st.booleans(),
    can_retry=st.booleans(),
    can_refresh=st.booleans(),
    deadline_at=st.just(inf) | st.floats(0, 100),
    chance=st.floats(0, 0.999).map(lambda number: lambda: number),
    is_recorded=st.booleans(),
)
scripts = st.lists(st.just(OK) | failures, min_size=1, max_size=6)


@given(cases, failures, scripts, st.floats(0, 5))
def test_no_retry_comes_early_late_or_where_it_must_not(
    any_case: Case, first: Failure, outcomes: list[object], takes_s: float
) -> None:
    played = play(any_case, first, outcomes, takes_s)
    for at, after, waited_s in played.calls:
        assert waited_s >= (after.retry_after_s or 0.0) - 1e-9
        assert at < any_case.deadline_at
        assert any_case.is_repeatable or after.nothing_was_done
        assert any_case.is_foreground or after.category not in CAPACITY
    assert len(played.calls) <= 3 + 1  # the longest schedule, and one with fresh evidence
    assert sum(played.waits) <= any_case.deadline_at
    assert len(played.of(RetryScheduled)) >= len(played.calls)


@given(cases, failures, scripts)
def test_the_failure_is_told_before_anything_is_done_and_the_end_is_told_once(
    any_case: Case, first: Failure, outcomes: list[object]
) -> None:
    played = play(any_case, first, outcomes)
    told = [type(fact) for fact in played.facts]
    if not any_case.is_recorded:
        assert told[0] is FailureClassified
    if isinstance(played.settled, Settled) and played.settled.compensation is not None:
        assert told.count(CompensationFinished) == 1
        assert told[-1] is CompensationFinished
    else:
        assert CompensationFinished not in told


@given(cases, failures, scripts)
def test_the_same_replies_give_the_same_facts(any_case: Case, first: Failure, outcomes: list[object]) -> None:
    assert play(any_case, first, outcomes).facts == play(any_case, first, outcomes).facts


@given(cases.filter(lambda one: not one.is_recorded), failures, scripts)
def test_a_record_replays_to_the_same_verdict_and_compensation(
    any_case: Case, first: Failure, outcomes: list[object]
) -> None:
    played = play(any_case, first, outcomes)
    finished = played.of(CompensationFinished)
    answers = [(fact.verdict, BUILT_IN_PLAYBOOK.play_for(fact)) for fact in played.of(FailureClassified)]
    if not finished:
        assert answers[0] == (None, None)
        return
    (end,) = finished
    assert (end.verdict, end.compensation) in [(verdict, one.compensation) for verdict, one in answers if one]


@given(failures)
def test_a_cancel_in_a_wait_ends_it_without_a_word(first: Failure) -> None:
    played = play(case(), first, [OK], wakes=Cause.CANCELLED)
    if played.waits:
        assert isinstance(played.settled, CalledOff)
        assert not played.of(CompensationFinished)

"""What the ladder promises whatever the world answers: waits, attempts, partitions, overrides, ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules import events
from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import CAPACITY, Adjustment, Category, Evidence, State
from recovery_ops.rules.policy.model import BUILT_IN_DEFAULTS, FAIL_CLOSED, OperationPolicy, Settings
from recovery_ops.rules.resilience import steps
from recovery_ops.rules.resilience.call_context import Alternative, CallContext, OperationState
from recovery_ops.rules.resilience.call_steps import call_steps
from recovery_ops.rules.resilience.circuit_breaker import Breaker, Imposed
from tests.support.ladder_properties import STATUS, Played, failures, play

EPSILON = 1e-6


outcomes = st.lists(st.one_of(st.none(), failures()), min_size=1, max_size=12)
settings = st.builds(
    Settings,
    max_retries=st.integers(0, 5),
    max_retries_background=st.integers(0, 5),
    base_delay_s=st.floats(0, 60),
    delay_cap_s=st.floats(0.001, 100),
    jitter=st.floats(0, 1),
    persistent=st.booleans(),
    persistent_cap_s=st.floats(1, 21_600),
    consecutive_failures=st.sampled_from([0, 2, 5]),
    retry_capacity_errors=st.booleans(),
    fallback_allowed=st.booleans(),
    overflow_floor_tokens=st.integers(1, 5000),
    overflow_margin_tokens=st.integers(0, 500),
)


@st.composite
def climbs(draw: st.DrawFn, /, **changed: Any) -> CallContext:
    def standing(name: str) -> OperationState:
        said = draw(settings).over(BUILT_IN_DEFAULTS["operation"].over(FAIL_CLOSED))
        return OperationState(name, OperationPolicy(settings=said), Breaker(name, said))

    chance = draw(st.floats(0, 1, exclude_max=True))
    others = tuple(
        Alternative(standing=standing(f"other-{number}"), is_repeatable=draw(st.booleans()), feature=feature)
        for number, feature in enumerate(draw(st.lists(st.sampled_from(["", "caching"]), max_size=2)))
    )
    given_: dict[str, Any] = {
        "standing": standing("search"),
        "source": draw(st.sampled_from(["main_agent", "nightly", ""])),
        "started_at": 100.0,
        "deadline_at": draw(st.sampled_from([inf, 100.0, 130.0, 400.0])),
        "chance": lambda: chance,
        "alternatives": others,
        "is_optional": draw(st.booleans()),
        "is_repeatable": draw(st.booleans()),
        "fixes": frozenset(draw(st.sets(st.sampled_from(list(Adjustment))))),
    }
    return CallContext(**given_ | changed)


takes = st.sampled_from([0.0, 0.5, 45.0])


def each_retry(played: Played, name: str) -> Iterator[tuple[tuple[float, Failure], tuple[float, steps.Call]]]:
    """Each failure of an operation with the attempt that came after it."""
    raised = [(at, failure) for at, operation, failure in played.raised if operation == name]
    yield from zip(raised, played.of(name)[1:], strict=False)


@given(climbs(), outcomes, takes)
def test_no_retry_comes_before_the_time_the_server_named(
    call: CallContext, answers: list[Failure | None], takes_s: float
) -> None:
    played = play(call, answers, takes_s=takes_s)
    for name in {step.operation for _, step in played.calls}:
        for (failed_at, failure), (called_at, step) in each_retry(played, name):
            if failure.retry_after_s is not None and step.adjustment not in (
                *(Adjustment.REFRESH_CREDENTIALS, Adjustment.REFRESH_EVIDENCE, Adjustment.MAX_TOKENS),
            ):
                assert called_at - failed_at >= failure.retry_after_s - EPSILON


@given(climbs(), outcomes, takes)
def test_nothing_sleeps_past_a_deadline_and_nothing_is_called_after_it(
    call: CallContext, answers: list[Failure | None], takes_s: float
) -> None:
    played = play(call, answers, takes_s=takes_s)
    alternatives = {other.standing.name: other.standing for other in call.alternatives}
    standings = {call.standing.name: call.standing} | alternatives
    latest = max(
        call.started_at + (one.policy.settings.persistent_cap_s or 0.0)
        if one.policy.settings.persistent
        else call.deadline_at
        for one in standings.values()
    )
    assert all(at + delay_s <= latest + EPSILON for at, delay_s in played.waits)
    for at, step in played.calls:
        policy = standings[step.operation].policy.settings
        own = call.started_at + (policy.persistent_cap_s or 0.0) if policy.persistent else call.deadline_at
        assert at < own
        assert step.deadline_s is None or step.deadline_s <= own - at + EPSILON


@given(climbs(), outcomes, takes)
def test_attempts_are_at_most_one_more_than_the_retries(
    call: CallContext, answers: list[Failure | None], takes_s: float
) -> None:
    played = play(call, answers, takes_s=takes_s)
    for standing in (call.standing, *(other.standing for other in call.alternatives)):
        attempts = len(played.of(standing.name))
        if not standing.policy.settings.persistent:
            assert attempts <= 1 + standing.policy.max_retries(is_foreground=call.is_foreground)
        passes = [step.attempt for _, step in played.of(standing.name)]
        assert passes == list(range(1, attempts + 1))


@given(climbs(source="nightly"), st.sampled_from(sorted(CAPACITY)), st.booleans(), takes)
def test_a_capacity_failure_in_background_is_one_attempt(
    call: CallContext, category: Category, insists: bool, takes_s: float
) -> None:
    failure = Failure(
        category=category,
        evidence=Evidence.HTTP_STATUS,
        status_code=STATUS[category],
        server_says_retry=True if insists else None,
        retry_after_s=1.0,
        nothing_was_done=True,
    )
    played = play(call, [failure], takes_s=takes_s)
    assert all(len(played.of(name)) <= 1 for name in {step.operation for _, step in played.calls})
    assert not played.waits


@given(climbs(), outcomes, st.floats(0, 5000))
def test_a_trip_passes_nothing_and_asks_nobody_to_wait(
    call: CallContext, answers: list[Failure | None], closed_s: float
) -> None:
    call.standing.breaker.impose(Imposed(id="ov", mode=State.FORCED_OPEN, ends_at=inf), 100.0)
    if closed_s:
        call.standing.gate.close(100.0, closed_s, Category.RATE_LIMITED)
    played = play(CallContext(**_fields(call) | {"alternatives": ()}), answers, takes_s=0.5)
    assert (played.calls, played.waits) == ([], [])


@given(climbs(), outcomes, st.integers(0, 9), st.floats(0, 5000))
def test_a_disabled_breaker_blocks_nothing(
    call: CallContext, answers: list[Failure | None], failed: int, closed_s: float
) -> None:
    breaker = call.standing.breaker
    breaker.impose(Imposed(id="ov", mode=State.DISABLED, ends_at=inf), 100.0)
    for _ in range(failed):
        breaker.fail(100.0, Category.SERVER_ERROR)
    if closed_s:
        call.standing.gate.close(100.0, closed_s, Category.RATE_LIMITED)
    played = play(CallContext(**_fields(call) | {"deadline_at": inf}), answers, takes_s=0.5)
    assert [step.operation for _, step in played.calls[:1]] == ["search"]


@given(climbs(), outcomes, takes)
def test_a_breaker_that_only_counts_takes_no_attempt_away(
    call: CallContext, answers: list[Failure | None], takes_s: float
) -> None:
    breaker = call.standing.breaker
    for _ in range(9):
        breaker.fail(-1e6, Category.SERVER_ERROR)
    breaker.impose(Imposed(id="ov", mode=State.METRICS_ONLY, ends_at=inf), 100.0)
    counting = play(call, answers, takes_s=takes_s)
    for standing in (call.standing, *(other.standing for other in call.alternatives)):
        standing.breaker.reset(100.0)
        standing.gate.opens_at = None
    never = replace(breaker.settings, consecutive_failures=0, failure_rate_threshold=0.0, slow_call_rate_threshold=0.0)
    breaker.configure(never)
    assert counting.of("search") == play(call, answers, takes_s=takes_s).of("search")


def test_a_probe_that_nobody_sees_is_not_the_last_word() -> None:
    said = BUILT_IN_DEFAULTS["operation"].over(FAIL_CLOSED)
    breaker = Breaker("search", said)
    for _ in range(20):
        breaker.fail(-1e6, Category.SERVER_ERROR)
    breaker.impose(Imposed(id="ov", mode=State.DISABLED, ends_at=inf), 100.0)
    standing = OperationState("search", OperationPolicy(settings=replace(said, max_retries=3)), breaker)
    call = CallContext(
        standing=standing,
        source="main_agent",
        started_at=100.0,
        deadline_at=inf,
        chance=lambda: 0.0,
        is_repeatable=True,
    )
    failure = Failure(category=Category.SERVER_ERROR, evidence=Evidence.HTTP_STATUS, status_code=503)
    assert len(play(call, [failure], takes_s=0.5).calls) == 4


def test_a_retry_that_would_come_at_the_deadline_is_not_waited_for() -> None:
    """Nothing may be called then, and while it is waited for nothing stands in."""
    said = replace(BUILT_IN_DEFAULTS["operation"].over(FAIL_CLOSED), jitter=0.0, fallback_allowed=True)
    standing = OperationState("search", OperationPolicy(settings=said), Breaker("search", said))
    other = OperationState("other", OperationPolicy(settings=said), Breaker("other", said))
    call = CallContext(
        standing=standing,
        source="main_agent",
        started_at=100.0,
        deadline_at=130.0,
        chance=lambda: 0.0,
        alternatives=(Alternative(standing=other),),
        is_repeatable=True,
    )
    failure = Failure(
        category=Category.SERVER_ERROR, evidence=Evidence.HTTP_STATUS, status_code=503, retry_after_s=30.0
    )
    played = play(call, [failure, None], takes_s=0.0)
    assert [(at, step.operation) for at, step in played.calls] == [(100.0, "search"), (100.0, "other")]


@given(climbs(can_ask_user=True), outcomes, takes, st.booleans())
def test_every_climb_ends_and_a_persons_yes_is_one_attempt_more(
    call: CallContext, answers: list[Failure | None], takes_s: float, says_yes: bool
) -> None:
    without = play(CallContext(**_fields(call) | {"can_ask_user": False}), answers, takes_s=takes_s)
    assert without.ending is not None
    # The same world again, from a fresh start.
    for standing in (call.standing, *(other.standing for other in call.alternatives)):
        standing.breaker.reset(100.0)
        standing.gate.opens_at = None
    asked = play(call, answers, takes_s=takes_s, says_yes=says_yes)
    assert asked.ending is not None
    extra = len(asked.of("search")) - len(without.of("search"))
    assert extra <= (1 if says_yes and call.is_foreground else 0)


@given(climbs(), outcomes, takes)
def test_a_failure_is_told_before_anything_is_done_about_it(
    call: CallContext, answers: list[Failure | None], takes_s: float
) -> None:
    told = play(call, answers, takes_s=takes_s).facts
    decisions = (events.RetryScheduled, events.FallbackActivated, events.Exhausted, events.Escalated, events.RunStopped)
    known: set[str] = set()
    for fact in told:
        if isinstance(fact, events.FailureClassified):
            known.add(fact.operation)
        elif isinstance(fact, decisions) and getattr(fact, "category", None) is not None:
            assert fact.operation in known


def in_full(call: CallContext, failure: Failure) -> Played:
    """Every attempt takes all the time that it has, at most 60 s, and fails so."""
    played, now = Played(), call.started_at
    climbing = call_steps(call)
    reply: steps.Reply = None
    while True:
        try:
            step = climbing.send(reply)
        except StopIteration as end:
            played.ending = end.value
            return played
        reply = None
        if isinstance(step, steps.Wait):
            now += step.delay_s
            reply = steps.Woke(now)
        elif isinstance(step, steps.Call):
            played.calls.append((now, step))
            took_s = min(60.0 if step.deadline_s is None else step.deadline_s, 60.0)
            now += took_s
            reply = steps.Raised(now, failure, took_s)


@given(
    climbs(deadline_at=130.0),
    st.sampled_from([Category.TIMEOUT, Category.SERVER_ERROR, Category.NETWORK]),
    st.sampled_from([None, 0.0, 5.0, 10.0, 500.0]),
)
def test_every_ready_fallback_is_called_in_time(
    call: CallContext, category: Category, deadline_s: float | None
) -> None:
    """However long each attempt takes, every fallback has at least an equal share of what was left before it."""
    policy = call.standing.policy
    settings_ = replace(policy.settings, persistent=False, call_deadline_s=deadline_s, fallback_allowed=True)
    call.standing.obey(replace(policy, settings=settings_))
    for other in call.alternatives:
        other.standing.obey(replace(other.standing.policy, settings=replace(settings_, max_retries=0)))
    played = in_full(call, Failure(category=category, evidence=Evidence.HTTP_STATUS))
    called = {step.level for _, step in played.calls}
    assert called == {*range(len(call.alternatives) + 1)}
    if category is Category.TIMEOUT and call.alternatives:
        assert len([step for _, step in played.calls if step.level == 0]) == 1
    for at, step in played.calls:
        others = len(call.alternatives) - step.level
        assert step.deadline_s is not None
        assert at + step.deadline_s <= 130.0 + EPSILON
        if step.attempt == 1:
            least = min((130.0 - at) / (others + 1), deadline_s or inf)
            assert step.deadline_s >= least - EPSILON


def _fields(call: CallContext) -> dict[str, Any]:
    return {name: getattr(call, name) for name in CallContext.__dataclass_fields__}

"""Which rows of the rules the journeys tell, enumerated: none may be left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from recovery_ops.rules import events as facts
from recovery_ops.rules.enums import (
    BREAKER_COUNTS,
    Adjustment,
    Category,
    Compensation,
    CompensationOutcome,
    State,
    Trigger,
    Verdict,
)
from recovery_ops.rules.events import Event
from tests.journeys.playing import Told
from tests.support.journeys import JOURNEYS, alone, read

pytestmark = pytest.mark.quick


@dataclass(frozen=True)
class Seen:
    """One failure in one journey: who waited, and the decision that followed."""

    journey: str
    fact: facts.FailureClassified
    is_foreground: bool
    then: Event | None
    """The next decision about the same operation; None where the journey ends there."""
    end: str

    @property
    def is_retried(self) -> bool:
        return isinstance(self.then, facts.RetryScheduled)


@cache
def told() -> dict[str, tuple[dict[str, Any], Told]]:
    return {path.stem: (journey := read(path), alone(journey)) for path in JOURNEYS}


_DECISIONS = (
    facts.RetryScheduled,
    facts.Escalated,
    facts.RunStopped,
    facts.FallbackActivated,
    facts.ModelFallback,
    facts.DegradationStarted,
    facts.Exhausted,
    facts.CompensationFinished,
)


@cache
def seen() -> tuple[Seen, ...]:
    """Every failure of every journey of calls with one source and no keys to change, by the rules' own words."""
    found: list[Seen] = []
    for name, (journey, played) in told().items():
        sources = {step.get("source", "main_agent") for step in journey.get("calls", []) if "outcomes" in step}
        is_declared = any("retry_on" in said for said in journey.get("operations", {}).values())
        has_keys = any("credentials" in said for said in journey.get("operations", {}).values())
        if len(sources) != 1 or is_declared or has_keys:
            continue
        is_foreground = sources == {"main_agent"}
        for index, fact in enumerate(played.facts):
            if isinstance(fact, facts.FailureClassified):
                later = [one for one in played.facts[index + 1 :] if isinstance(one, _DECISIONS)]
                then = next((one for one in later if one.operation == fact.operation), None)
                found.append(Seen(name, fact, is_foreground, then, played.ends[-1]))
    return tuple(found)


def those(category: Category, **wanted: Any) -> Iterator[Seen]:
    for one in seen():
        is_it = one.fact.category is category
        if is_it and all(
            getattr(one.fact if hasattr(one.fact, name) else one, name) == value for name, value in wanted.items()
        ):
            yield one


def test_there_are_at_least_sixty() -> None:
    assert len(JOURNEYS) >= 60
    assert all(journey.get("rule") for journey, _ in told().values())


Handler = Callable[[Seen], bool]
RETRY: Handler = lambda one: one.is_retried  # noqa: E731  # a word for a row of the table
FIXED: Callable[[Adjustment], Handler] = lambda fix: lambda one: getattr(one.then, "adjustment", None) is fix  # noqa: E731
ASKED: Callable[[str], Handler] = lambda queue: lambda one: getattr(one.then, "queue", None) == queue  # noqa: E731
FAILS: Handler = lambda one: isinstance(one.then, facts.Exhausted)  # noqa: E731

FIRST_HANDLER: dict[Category, Handler] = {
    Category.NETWORK: RETRY,
    Category.TIMEOUT: RETRY,
    Category.RATE_LIMITED: RETRY,
    Category.RATE_LIMIT_WINDOW: FAILS,
    Category.QUOTA_EXHAUSTED: ASKED("quota"),
    Category.OVERLOADED: RETRY,
    Category.SERVER_ERROR: RETRY,
    Category.CONTEXT_OVERFLOW: FIXED(Adjustment.MAX_TOKENS),
    Category.INVALID_REQUEST: FAILS,
    Category.AUTH: FIXED(Adjustment.REFRESH_CREDENTIALS),
    Category.PERMISSION: ASKED("policy_review"),
    Category.POLICY_DENIED: ASKED("policy_review"),
    Category.CONTENT_REFUSED: FAILS,
    Category.NOT_FOUND: FAILS,
    Category.CONFLICT: RETRY,
    Category.IDEMPOTENCY_CONFLICT: FAILS,
    Category.STALE_EVIDENCE: FIXED(Adjustment.REFRESH_EVIDENCE),
    Category.SCHEMA_MISMATCH: FAILS,
    Category.MODEL_OUTPUT: FAILS,
    Category.SEMANTIC: FAILS,
    Category.BUG: FAILS,
    Category.RESOURCE: FAILS,
    Category.UNKNOWN: ASKED("unclassified"),
}
"""The first handler of each category, for an operation that may be repeated and is called in foreground."""


@pytest.mark.parametrize("category", list(Category))
def test_every_category_meets_its_first_handler(category: Category) -> None:
    if category is Category.CANCELLED:
        assert any("cancelled" in played.ends for _, played in told().values())
        return
    assert any(FIRST_HANDLER[category](one) for one in those(category, is_foreground=True))


MODEL_KNOWS = (
    *(Category.NOT_FOUND, Category.INVALID_REQUEST, Category.BUG, Category.RESOURCE, Category.MODEL_OUTPUT),
    *(Category.SCHEMA_MISMATCH, Category.SEMANTIC, Category.IDEMPOTENCY_CONFLICT, Category.CONTEXT_OVERFLOW),
)


@pytest.mark.parametrize("category", MODEL_KNOWS)
def test_what_the_model_can_act_on_reaches_it_as_a_result(category: Category) -> None:
    runs = [played for journey, played in told().values() if journey.get("kind") == "run"]
    assert any(
        "failed" in played.ends
        and any(isinstance(fact, facts.FailureClassified) and fact.category is category for fact in played.facts)
        for played in runs
    )


ROWS: list[tuple[str, Category, dict[str, Any], bool, bool]] = [
    ("400", Category.INVALID_REQUEST, {"status_code": 400}, False, False),
    ("400, overflow that can be fixed", Category.CONTEXT_OVERFLOW, {}, True, True),
    ("401", Category.AUTH, {"status_code": 401}, True, True),
    ("403", Category.PERMISSION, {"status_code": 403}, False, False),
    ("404", Category.NOT_FOUND, {"status_code": 404}, False, False),
    ("410", Category.NOT_FOUND, {"status_code": 410}, False, False),
    ("405", Category.INVALID_REQUEST, {"status_code": 405}, False, False),
    ("408", Category.TIMEOUT, {"status_code": 408}, True, True),
    ("409", Category.CONFLICT, {"status_code": 409}, True, True),
    ("409, idempotency", Category.IDEMPOTENCY_CONFLICT, {}, False, False),
    ("412", Category.STALE_EVIDENCE, {"status_code": 412}, True, True),
    ("429", Category.RATE_LIMITED, {"status_code": 429}, True, False),
    ("429, window", Category.RATE_LIMIT_WINDOW, {}, False, False),
    ("429, quota", Category.QUOTA_EXHAUSTED, {}, False, False),
    ("529", Category.OVERLOADED, {"status_code": 529}, True, False),
    ("5xx", Category.SERVER_ERROR, {}, True, True),
    ("connection cut", Category.NETWORK, {}, True, True),
    ("not listed: bug", Category.BUG, {}, False, False),
    ("not listed: unknown", Category.UNKNOWN, {}, False, False),
    ("not listed: semantic", Category.SEMANTIC, {}, False, False),
    ("not listed: policy", Category.POLICY_DENIED, {}, False, False),
]
"""A case, and whether it is retried in foreground and in background."""


@pytest.mark.parametrize("is_foreground", [True, False], ids=["foreground", "background"])
@pytest.mark.parametrize(("case", "category", "which", "foreground", "background"), ROWS, ids=[row[0] for row in ROWS])
def test_every_row_of_the_retry_table(
    case: str, category: Category, which: dict[str, Any], foreground: bool, background: bool, is_foreground: bool
) -> None:
    wanted = foreground if is_foreground else background
    found = [one.is_retried for one in those(category, is_foreground=is_foreground, **which)]
    assert found, f"no journey tells of {case}"
    assert wanted in found
    if not wanted:
        assert True not in found


def test_the_server_has_the_last_word_except_over_the_partition() -> None:
    retried = {name: any(one.is_retried for one in seen() if one.journey == name) for name in told()}
    assert retried["server-insists"]
    assert retried["server-insists-background"]
    assert not retried["server-says-no"]
    assert not retried["server-says-no-background"]
    assert not retried["server-insists-on-capacity-background"]


def test_a_cut_connection_is_not_reused() -> None:
    assert any(FIXED(Adjustment.DISABLE_KEEPALIVE)(one) for one in those(Category.NETWORK))


def rungs() -> set[str]:
    return {rung for _, played in told().values() for fact in played.facts for rung in getattr(fact, "rungs", ())}


def test_every_rung_of_the_ladder() -> None:
    assert rungs() == {"retry", "fallback", "ask_a_person", "fail"} | rungs()
    ends = {end for _, played in told().values() for end in played.ends}
    assert {"answered", "fallback", "withdrawn", "refused", "failed", "stopped", "cancelled"} <= ends
    kinds = {fact.kind for _, played in told().values() for fact in played.facts if hasattr(fact, "kind")}
    assert kinds >= {"fallback", "withdrawn", "model"}


def test_a_refusal_goes_to_the_fallback_before_a_call_and_in_mid_loop() -> None:
    reasons = {
        fact.reason
        for _, played in told().values()
        for fact in played.facts
        if isinstance(fact, facts.FallbackActivated)
    }
    assert {"override", "breaker", "gate"} <= reasons


def changes() -> list[facts.BreakerStateChanged]:
    return [
        fact for _, played in told().values() for fact in played.facts if isinstance(fact, facts.BreakerStateChanged)
    ]


@pytest.mark.parametrize(
    "trigger", [one for one in Trigger if one not in (Trigger.PROBE_ABANDONED, Trigger.OPERATOR_PROBE)]
)
def test_every_way_in_which_a_breaker_moves(trigger: Trigger) -> None:
    """A probe that never comes back, and one that an operator asks for, need a call that hangs: `tests/runtime`."""
    assert any(fact.trigger is trigger for fact in changes())


@pytest.mark.parametrize("state", list(State))
def test_every_state_of_a_breaker(state: State) -> None:
    assert any(fact.state is state for fact in changes())


@pytest.mark.parametrize("category", sorted(BREAKER_COUNTS))
def test_what_counts_opens_and_says_so(category: Category) -> None:
    assert any(fact.state is State.OPEN and fact.last_category is category for fact in changes())


@pytest.mark.parametrize("name", ["rate-limits-do-not-open", "callers-mistakes-do-not-open"])
def test_what_does_not_count_opens_nothing(name: str) -> None:
    assert not any(isinstance(fact, facts.BreakerStateChanged) for fact in told()[name][1].facts)


@pytest.mark.parametrize("guard", ["tool_failures", "turns", "permission_denials", "compaction_failures"])
def test_every_guard_of_a_run_trips(guard: str) -> None:
    tripped = [fact for _, played in told().values() for fact in played.facts if isinstance(fact, facts.GuardTripped)]
    assert any(fact.guard == guard for fact in tripped)


def test_the_error_budget_warns_and_ends_and_yields_to_a_tools_own_guard() -> None:
    kinds = {type(fact) for _, played in told().values() for fact in played.facts}
    assert {facts.BudgetWarned, facts.BudgetExhausted} <= kinds
    assert not any(isinstance(fact, facts.RunStopped) for fact in told()["run-tool-guard-wins"][1].facts)


def compensations() -> list[facts.CompensationFinished]:
    return [
        fact for _, played in told().values() for fact in played.facts if isinstance(fact, facts.CompensationFinished)
    ]


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_is_answered(verdict: Verdict) -> None:
    assert any(fact.verdict is verdict for fact in compensations())


@pytest.mark.parametrize("compensation", list(Compensation))
def test_every_compensation_is_carried_out(compensation: Compensation) -> None:
    assert any(fact.compensation is compensation for fact in compensations())


@pytest.mark.parametrize("outcome", list(CompensationOutcome))
def test_every_outcome_of_a_compensation(outcome: CompensationOutcome) -> None:
    assert any(fact.outcome is outcome for fact in compensations())


def test_a_failure_is_told_before_its_compensation() -> None:
    for name, (journey, played) in told().items():
        if journey.get("kind") == "dispatch":
            assert isinstance(played.facts[0], facts.FailureClassified), name

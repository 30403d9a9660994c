"""What is said before the click: counted where it was counted, and unknown where it was not."""

from __future__ import annotations

from typing import Any

import pytest

from recovery_ops.control.breakers.impact import Impact, impact_of, impact_of_all
from recovery_ops.rules.enums import Refusal, State
from recovery_ops.rules.events import BreakerRejected, DegradationEnded, DegradationStarted, FallbackActivated
from recovery_ops.rules.policy.scope import Scope
from tests.support.actions import SEARCH
from tests.support.stories import NOW, Story, counted, heartbeat, moved

pytestmark = pytest.mark.django_db


def impact(scope: Scope = SEARCH) -> Impact:
    return impact_of("dev", scope, now=NOW)


@pytest.fixture
def fleet() -> None:
    """Research has search_web on three instances, one of them silent; billing has another operation."""
    story = Story()
    for name, at in (("r-0", 5), ("r-1", 5), ("r-2", 300)):
        story.tell(heartbeat(), moved(State.OPEN if name == "r-1" else State.CLOSED), at=at, instance=name)
    for minute in range(5):
        story.tell(counted(30), at=5 + 60 * minute, instance="r-0")
    story.tell(heartbeat(), counted(1000, operation="charge"), at=5, instance="b-0", service="billing").store()


@pytest.mark.usefixtures("fleet")
def test_it_counts_instances_states_and_calls() -> None:
    found = impact()
    assert (found.breakers, found.instances, found.unreachable, found.in_scope) == (("search_web",), 3, 1, 4)
    assert found.states == {State.CLOSED: 1, State.OPEN: 1}
    assert found.calls_per_min == pytest.approx(46.2, abs=0.1), "60 calls in the last whole minute and 18 s"
    assert found.rejected_per_min == 0


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize(
    ("scope", "instances", "in_scope", "calls"),
    [
        (Scope(operation="search_web", service="research"), 3, 3, 46.2),
        (Scope(operation="search_web", service="billing"), 0, 1, None),
        (Scope(operation="search_web", instance="r-0"), 1, 1, None),
        (Scope(operation="search_*"), 3, 4, 46.2),
        (Scope(service="research"), 3, 3, 46.2),
        (Scope(operation="nothing"), 0, 4, None),
    ],
)
def test_a_part_of_it_is_counted_as_far_as_it_is_known(scope: Scope, instances: int, in_scope: int, calls: Any) -> None:
    found = impact(scope)
    assert (found.instances, found.in_scope) == (instances, in_scope)
    assert found.calls_per_min == (None if calls is None else pytest.approx(calls, abs=0.1))


def test_runs_in_flight_are_those_of_instances_that_can_be_reached() -> None:
    story = Story().tell(heartbeat(runs_in_flight=3), moved(State.CLOSED), at=5, instance="r-0")
    story.tell(heartbeat(runs_in_flight=2), moved(State.CLOSED), at=300, instance="r-1")
    story.tell(
        heartbeat(runs_in_flight=7), moved(State.CLOSED, breaker="charge"), at=5, instance="b-0", service="b"
    ).store()
    assert impact().runs_in_flight == 3
    assert impact(Scope(operation="*")).runs_in_flight == 10


@pytest.mark.usefixtures("fleet")
def test_refusals_are_counted_also_while_it_is_held_open() -> None:
    held: dict[str, Any] = {"breaker": "search_web", "state": State.FORCED_OPEN, "reason": Refusal.OVERRIDE}
    Story().tell(BreakerRejected(operation="search_web", count=60, **held), at=5).store()
    assert (impact().rejected_per_min or 0) > 10


def started(kind: str, to_name: str = "", operation: str = "search_web") -> DegradationStarted:
    return DegradationStarted(operation=operation, kind=kind, reason="held", from_name=operation, to_name=to_name)


def ended(kind: str) -> DegradationEnded:
    return DegradationEnded(operation="search_web", kind=kind, duration_s=30.0)


@pytest.mark.parametrize(
    ("facts", "fallbacks", "is_withdrawn"),
    [
        ([], (), False),
        ([started("fallback", "cached_search")], ("cached_search",), False),
        ([started("withdrawn")], (), True),
        ([FallbackActivated(operation="search_web", fallback="archive", level=1)], ("archive",), False),
        ([started("fallback", "cached_search", operation="another")], (), False),
    ],
)
def test_it_says_what_callers_will_get_as_far_as_it_was_seen(
    facts: list[Any], fallbacks: tuple[str, ...], is_withdrawn: bool
) -> None:
    Story().tell(heartbeat(), moved(State.CLOSED), at=3600, instance="r-0").store()
    nothing_seen = impact().consequence
    Story().tell(*facts, at=3600, instance="r-0").store()
    found = impact()
    assert (found.fallbacks, found.is_withdrawn) == (fallbacks, is_withdrawn)
    assert [name for name in fallbacks if name not in found.consequence] == []
    assert (found.consequence == nothing_seen) == (not fallbacks and not is_withdrawn)


def test_each_operation_says_what_stands_in_and_what_would_fail() -> None:
    story = Story().tell(heartbeat(), counted(50, operation="ask", breaker="helios"), at=5, instance="r-0")
    story.tell(counted(20, operation="rank", breaker="helios"), moved(State.CLOSED), counted(5), at=5, instance="r-0")
    story.tell(started("fallback", "small_model", operation="ask"), at=60, instance="r-0").store()
    found = impact_of_all("dev", [Scope(operation="helios"), SEARCH], now=NOW)
    assert [(one.operation, one.is_covered) for one in found.operations] == [
        ("ask", True),
        ("rank", False),
        ("search_web", False),
    ]
    assert found.instances == 1
    assert found.calls_per_min == pytest.approx(75, rel=0.3)
    assert "1 of 3" in found.consequence
    assert "rank, search_web" in found.consequence


def test_a_fallback_of_another_day_promises_nothing() -> None:
    story = Story().tell(started("fallback", "cached_search"), at=100_000, instance="r-0")
    story.tell(ended("fallback"), at=99_970, instance="r-0").store()
    assert impact().fallbacks == ()


def test_operations_behind_a_shared_backend_answer_for_it() -> None:
    story = Story().tell(heartbeat(), counted(5, operation="ask", breaker="helios"), at=5, instance="r-0")
    story.tell(started("fallback", "small_model", operation="ask"), at=60, instance="r-0").store()
    assert impact(Scope(operation="helios")).fallbacks == ("small_model",)

"""Doing less instead of nothing: forms of an operation that give up a feature, asked when no fallback has held."""

from __future__ import annotations

import pytest

from recovery_ops.rules import events
from recovery_ops.runtime import Degraded, Fallback, RecoveryExhausted
from recovery_ops.runtime.testing import Lab


@pytest.fixture
def lab() -> Lab:
    return Lab(reraise=False)


def test_the_fallback_first_then_the_operation_that_does_less(lab: Lab) -> None:
    whole, other, less = lab.script(503, 503, "all"), lab.script(503, "other"), lab.script("one by one")
    fetch = lab.recovery.guard(
        "fetch",
        max_retries=0,
        fallback=[Fallback(less, "fetch.sequential", feature="parallel"), Fallback(other, "mirror")],
    )(whole)
    assert fetch() == "one by one"
    assert [fact.fallback for fact in lab.events_of(events.FallbackActivated)] == ["fetch.sequential"]
    (begun,) = lab.events_of(events.DegradationStarted)
    assert (begun.kind, begun.from_name, begun.to_name) == ("feature", "fetch", "parallel")
    assert (fetch(), other.calls) == ("other", 2)
    assert fetch() == "all"
    assert [fact.kind for fact in lab.events_of(events.DegradationEnded)] == ["feature", "fallback"]


def test_each_is_tried_once_and_the_rungs_tell_of_it(lab: Lab) -> None:
    less = lab.script(503)
    fetch = lab.recovery.guard("fetch", max_retries=0, fallback=Fallback(less, feature="caching"))(lab.script(503))
    with pytest.raises(RecoveryExhausted) as exhausted:
        fetch()
    assert (less.calls, exhausted.value.steps) == (1, ("retry", "degrade", "fail"))


def test_leaving_it_out_comes_after_doing_less(lab: Lab) -> None:
    fetch = lab.recovery.guard(
        "fetch", max_retries=0, optional=True, fallback=Fallback(lab.script("less", 503), feature="caching")
    )(lab.script(503))
    assert fetch() == "less"
    assert isinstance(fetch(), Degraded)


def test_where_a_wrong_answer_is_worse_than_none_nothing_less_is_done(lab: Lab) -> None:
    less = lab.script("less")
    fetch = lab.recovery.guard(
        "fetch", max_retries=0, fallback_allowed=False, fallback=Fallback(less, feature="caching")
    )(lab.script(503))
    with pytest.raises(RecoveryExhausted):
        fetch()
    assert less.calls == 0

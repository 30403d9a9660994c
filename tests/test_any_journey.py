"""Any journey, not only those that are written down: the rules alone, a thread and a task tell the same facts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.events import BreakerRejected
from tests.journeys.playing import RAISED, Alone, InRuntime, Told

pytestmark = pytest.mark.quick

OUTCOMES = st.one_of(
    st.just("ok"),
    st.sampled_from([400, 401, 402, 403, 404, 408, 409, 412, 429, 500, 503, 529]),
    st.builds(lambda name: {"raises": name}, st.sampled_from(sorted(RAISED))),
    st.builds(
        lambda kind: {"kind": kind}, st.sampled_from(["policy_denied", "idempotency_conflict", "semantic", "cancelled"])
    ),
    st.builds(
        lambda status, after: {"status": status, "headers": {"retry-after": str(after)}},
        st.sampled_from([429, 503, 529]),
        st.integers(0, 400),
    ),
)
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "max_retries": st.integers(0, 3),
        "max_retries_background": st.integers(0, 3),
        "base_delay_s": st.sampled_from([0.0, 0.5, 20.0]),
        "consecutive_failures": st.integers(0, 3),
        "wait_duration_in_open_s": st.sampled_from([5.0, 60.0]),
        "permitted_calls_in_half_open": st.integers(1, 2),
        "sliding_window_type": st.sampled_from(["count_based", "time_based"]),
        "minimum_number_of_calls": st.integers(1, 4),
        "fallback_allowed": st.booleans(),
        "persistent": st.booleans(),
        "max_wait_before_fallback_s": st.sampled_from([0.0, 1.0, 100.0]),
        "quota_rest_s": st.sampled_from([1.0, 60.0]),
        "retry_ratio": st.sampled_from([0.0, 0.5]),
        "min_retries_per_s": st.sampled_from([0.0, 0.1]),
        "least_importance": st.sampled_from(["sheddable", "critical"]),
    },
)
SCOPE = {"operation": "search"}
SCOPES = st.sampled_from([SCOPE, {"operation": "search:small"}])
CALLS = st.fixed_dictionaries(
    {
        "wait_s": st.sampled_from([0.0, 1.0, 61.0]),
        "source": st.sampled_from(["main_agent", "main_agent", "nightly"]),
        "takes_s": st.sampled_from([0.0, 0.25, 20.0]),
        "deadline_s": st.sampled_from([300.0, 30.0]),
        "outcomes": st.fixed_dictionaries(
            {"search": st.lists(OUTCOMES, min_size=1, max_size=5), "cache": st.lists(OUTCOMES, min_size=1, max_size=2)}
        ),
        "ends": st.just("whatever"),
    }
)
ACTS = st.one_of(
    *(
        st.builds(
            lambda scope, wait, lasts, verb=verb: {"wait_s": wait, verb: scope, "lasts_s": lasts},
            SCOPES,
            st.sampled_from([0.0, 1.0]),
            st.sampled_from([0.5, 30.0, 3600.0]),
        )
        for verb in ("trip", "disable", "observe")
    ),
    st.builds(lambda verb, scope: {"wait_s": 0.0, verb: scope}, st.sampled_from(["release", "reset"]), SCOPES),
    st.builds(
        lambda settings: {"wait_s": 0.0, "policy": {"rules": [{"scope": SCOPE, "settings": settings}]}}, SETTINGS
    ),
)


@st.composite
def journeys(draw: st.DrawFn) -> dict[str, Any]:
    steps, at_s = [], 0.0
    drawn: list[dict[str, Any]] = draw(st.lists(st.one_of(CALLS, CALLS, CALLS, ACTS), min_size=1, max_size=8))
    for step in drawn:
        at_s += step["wait_s"]
        steps.append({name: value for name, value in step.items() if name != "wait_s"} | {"at_s": at_s})
    search = {
        "idempotent": draw(st.booleans()),
        "optional": draw(st.booleans()),
        "fallback": draw(st.sampled_from([[], ["cache"]])),
        "permission": draw(st.sampled_from(["stop", "tell_model"])),
        **draw(st.sampled_from([{}, {"kind": "model", "chain": ["large", "small", "tiny"]}])),
        "fixes": draw(st.lists(st.sampled_from(["max_tokens", "credentials", "evidence"]), unique=True)),
        "settings": draw(SETTINGS),
    }
    return {"operations": {"search": search, "cache": {}}, "calls": steps}


def told(played: Told) -> list[object]:
    return [fact for fact in played.facts if not isinstance(fact, BreakerRejected)]


@given(journeys())
def test_three_ways_tell_the_same(journey: dict[str, Any]) -> None:
    alone = Alone(journey).play()
    for is_async in (False, True):
        played = InRuntime(journey, is_async=is_async).play()
        assert told(played) == told(alone)
        assert played.ends == alone.ends
        assert played.waits == pytest.approx(alone.waits)

"""What an agent tells is replayed whatever it holds: no fact ends a replay, and none keeps it busy for good."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.queries.recordings import Speaker, Told
from recovery_ops.control.replay.recorded_calls import Listener, Recording
from recovery_ops.wire import names

AT_US = 1_790_000_000_000_000
HEARD = sorted(Listener(Speaker("research", "a-1", ""), 0.0)._hear)
SAID = sorted({*names.ATTRIBUTES.values(), "recovery.breaker.wait_s"})
ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**18, -1, 2.5e300]),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def told(event: str, attributes: dict[str, Any], *, at_us: int = AT_US, state: str = "") -> Told:
    return Told(
        event=event,
        at_us=at_us,
        operation="search_web",
        breaker="search_web",
        source="main_agent",
        is_foreground=True,
        run="run-1",
        category="timeout",
        state=state,
        provider="helios",
        model="large",
        attributes=attributes,
    )


def heard(facts: list[Told]) -> Recording:
    return Listener(Speaker("research", "a-1", ""), AT_US / 1e6 - 60).listen(facts)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(HEARD),
            st.dictionaries(st.sampled_from(SAID), ANYTHING, max_size=8),
            st.sampled_from(["", "open", "closed", "forced_open"]),
        ),
        max_size=12,
    )
)
def test_whatever_a_fact_says_it_is_heard(said: list[tuple[str, dict[str, Any], str]]) -> None:
    facts = [told(event, attributes, at_us=AT_US + n, state=state) for n, (event, attributes, state) in enumerate(said)]
    assert heard(facts).facts == len(facts)


@pytest.mark.parametrize(
    ("event", "name"), [("failure_classified", "successes_since_failure"), ("calls_counted", "successes")]
)
def test_more_successes_than_any_window_remembers_are_not_counted_one_by_one(event: str, name: str) -> None:
    failure = told("failure_classified", {})
    many = told(event, {names.ATTRIBUTES[name]: 900_000_000}, at_us=AT_US + 60_000_000)
    found = heard([failure, many])
    assert 0 < sum(one.count for one in found.successes) <= 1_000_000

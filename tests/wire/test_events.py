"""Every fact survives the wire, whatever spelling it comes in."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops import wire
from recovery_ops.rules import events as facts
from recovery_ops.rules.enums import Category, Evidence, State, Trigger
from recovery_ops.rules.events import ALL_EVENTS, BreakerStateChanged, Event, FailureClassified, Record
from recovery_ops.wire import names

TEXT = st.text(min_size=1, max_size=20)


def values_of(annotation: Any) -> st.SearchStrategy[Any]:
    if isinstance(annotation, UnionType):
        return st.none() | values_of(get_args(annotation)[0])
    if get_origin(annotation) is tuple:
        return st.lists(values_of(get_args(annotation)[0]), max_size=3).map(tuple)
    if get_origin(annotation) is not None:
        return st.dictionaries(TEXT, st.integers(0, 10**9), max_size=3)
    plain = {
        str: TEXT,
        int: st.integers(0, 2**53),
        bool: st.booleans(),
        float: st.floats(0, 1e9, allow_nan=False).map(lambda number: round(number, 3)),
    }
    return plain[annotation] if annotation in plain else st.sampled_from(list(annotation))


def any_fact(kind: type[Event]) -> st.SearchStrategy[Event]:
    hints = get_type_hints(kind)
    return st.builds(kind, **{field.name: values_of(hints[field.name]) for field in fields(kind)})


def recorded(fact: Event) -> Record:
    return Record(event=fact, uid="0190", sequence_number=1, at_ns=1, source="main_agent", is_foreground=True, run="r")


FAILURE = FailureClassified(
    operation="search", category=Category.TIMEOUT, evidence=Evidence.EXCEPTION_TYPE, retryable=True, attempt=1
)


@given(st.one_of([any_fact(kind) for kind in ALL_EVENTS]))
def test_every_fact_comes_back_as_it_was(fact: Event) -> None:
    event = wire.encode(recorded(fact))
    through_json = json.loads(json.dumps(event.attributes))
    decoded = wire.decode(event.event_name, through_json)
    assert decoded is not None
    assert decoded.event == fact
    assert decoded.warnings == ()


def test_the_table_covers_every_fact_and_field() -> None:
    assert set(names.EVENTS) == set(ALL_EVENTS)
    for kind in ALL_EVENTS:
        attributes = [names.attribute_of(kind, field.name) for field in fields(kind) if field.name != "operation"]
        assert len(attributes) == len(set(attributes)), f"{kind.__name__} uses an attribute twice"


def test_names_follow_the_conventions() -> None:
    for event in names.EVENTS.values():
        assert event.full_name.startswith("recovery.")
        assert event.name.replace("_", "").isalpha()
    theirs = ("gen_ai.", "http.", "error.", "exception.", "cloud.")
    own = [name for name in names.ATTRIBUTES.values() if not name.startswith(theirs)]
    assert all(name.startswith("recovery.") for name in own)


@pytest.mark.parametrize(
    ("spelling", "event"),
    [
        ("recovery.failure_classified", "failure_classified"),
        ("failure_classified", "failure_classified"),
        ("failure.classified", "failure_classified"),
        ("failure-classified", "failure_classified"),
        ("breaker-state", "breaker_state_changed"),
        ("breaker_state", "breaker_state_changed"),
        ("recovery.breaker.state_changed", "breaker_state_changed"),
        ("degradation", "degradation_started"),
        ("retry.scheduled", "retry_scheduled"),
        ("browser.page_view", None),
        ("", None),
    ],
)
def test_other_spellings_of_event_names(spelling: str, event: str | None) -> None:
    assert names.event_name_of(spelling) == event


@pytest.mark.parametrize(("alias", "name"), list(names.ATTRIBUTE_ALIASES.items()))
def test_own_spelling_beside_an_alias_wins(alias: str, name: str) -> None:
    for both in ({alias: "theirs", name: "ours"}, {name: "ours", alias: "theirs"}):
        assert wire.canonical(both)[name] == "ours"


def test_gaps_become_cautious_values_and_warnings() -> None:
    decoded = wire.decode("breaker_state", {"circuitbreaker.name": "search", "circuitbreaker.state": "half-open"})
    assert decoded is not None
    fact = decoded.event
    assert isinstance(fact, BreakerStateChanged)
    assert (fact.breaker, fact.state) == ("search", State.HALF_OPEN)
    assert any("previous_state" in warning for warning in decoded.warnings)


@pytest.mark.parametrize("value", ["NaN", float("nan"), float("inf"), [], {}, True, "many"])
def test_values_that_are_no_numbers_are_said_not_stored(value: Any) -> None:
    decoded = wire.decode(
        "exhausted", {"recovery.attempts": 1, "recovery.reason": "attempts", "recovery.duration": value}
    )
    assert decoded is not None
    assert isinstance(decoded.event, facts.Exhausted)
    assert decoded.event.duration_s is None
    assert decoded.warnings


@pytest.mark.parametrize(("value", "flag"), [(True, True), ("TRUE", True), (False, False), ("false", False)])
def test_flags_may_come_as_text(value: object, flag: bool) -> None:
    decoded = wire.decode("failure_classified", {"recovery.failure.retryable": value})
    assert decoded is not None
    assert isinstance(decoded.event, FailureClassified)
    assert decoded.event.retryable is flag
    assert not any("retryable" in warning for warning in decoded.warnings)


@pytest.mark.parametrize("value", ["yes", "", 1, 0, None, []])
def test_value_that_is_no_flag_is_said(value: object) -> None:
    decoded = wire.decode("failure_classified", {"recovery.failure.retryable": value})
    assert decoded is not None
    assert isinstance(decoded.event, FailureClassified)
    assert decoded.event.retryable is False
    assert any("retryable" in warning for warning in decoded.warnings)


def test_maps_may_come_as_json_text() -> None:
    sent = wire.encode(
        recorded(facts.CallsCounted(interval_s=10.0, calls=1, attempts=1, successes=1, failures={"bug": 2}))
    )
    sent.attributes["recovery.failures"] = json.dumps(sent.attributes["recovery.failures"])
    decoded = wire.decode(sent.event_name, sent.attributes)
    assert decoded is not None
    assert isinstance(decoded.event, facts.CallsCounted)
    assert decoded.event.failures == {"bug": 2}


def test_severity_says_how_bad_it_is() -> None:
    opened = BreakerStateChanged(
        breaker="b", state=State.OPEN, previous_state=State.CLOSED, trigger=Trigger.FAILURE_RATE
    )
    closed = replace(opened, state=State.CLOSED, previous_state=State.HALF_OPEN)
    assert wire.encode(recorded(opened)).severity == names.WARN
    assert wire.encode(recorded(closed)).severity == names.INFO
    assert wire.encode(recorded(replace(FAILURE, category=Category.BUG))).severity == names.ERROR


def test_the_common_attributes_are_always_there() -> None:
    attributes = wire.encode(recorded(FAILURE)).attributes
    assert attributes[names.UID] == "0190"
    assert attributes[names.SEQUENCE_NUMBER] == 1
    assert attributes[names.OPERATION] == "search"
    assert attributes[names.QUERY_SOURCE] == "main_agent"
    assert attributes[names.RUN] == "r"
    assert names.POLICY_VERSION in attributes

"""What a record becomes: names, moments, keys, and values that no database chokes on."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from events.ingest.records import OLDEST_US, Intake, Row, read_records
from events.otlp.remarks import Remark
from events.otlp.sent import Batch, Sent
from recovery_ops.rules.events import ALL_EVENTS
from recovery_ops.wire import names
from tests.support.records import NOW_US, POISON

RESOURCE: dict[str, object] = {"service.name": "billing", "service.instance.id": "billing-1"}


def sent(event_name: str = "recovery.failure_classified", **rest: Any) -> Sent:
    """A record of a second ago; `attributes` and the other fields as given."""
    usual = {"time_ns": (NOW_US - 1_000_000) * 1000, "observed_ns": 0, "severity": 13, "body": "", "attributes": {}}
    return Sent(event_name=event_name, **{**usual, "trace_id": "", "span_id": "", **rest})


def taken(*records: Sent, resource: dict[str, object] | None = None) -> Intake:
    return read_records([Batch(RESOURCE if resource is None else resource, "tests", list(records))], "dev", NOW_US)


def row(event_name: str = "recovery.failure_classified", **rest: Any) -> Row:
    [found] = taken(sent(event_name, **rest)).rows
    return found


@pytest.mark.parametrize("kind", ALL_EVENTS)
def test_every_kind_of_fact_is_taken(kind: type) -> None:
    name = names.EVENTS[kind].name
    assert row(f"recovery.{name}").event == name


@pytest.mark.parametrize("spelling", ["failure_classified", "failure.classified", "Recovery.Failure-Classified"])
def test_other_spellings_are_the_same_event(spelling: str) -> None:
    assert row(spelling).event == "failure_classified"
    assert row("", attributes={"event.name": spelling}).event == "failure_classified"


OTHERS: dict[str, tuple[bool, Sent]] = {
    "an event of somebody else's": (True, sent("page_view", severity=9)),
    "an event without a severity": (True, sent("page_view", severity=0)),
    "information without a name": (True, sent("", severity=9)),
    "no name and no severity": (False, sent("", severity=0, body="x")),
    "for debugging": (False, sent("", severity=8, body="x")),
    "a warning": (True, sent("slow", severity=13)),
    "an error without a name": (True, sent("", severity=17)),
    "an exception": (True, sent("", severity=9, attributes={"exception.type": "OSError"})),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_record_that_is_no_event_of_ours_is_a_log_unless_it_is_for_debugging(what: str) -> None:
    is_kept, record = OTHERS[what]
    intake = taken(record)
    is_failure = "exception.type" in record.attributes
    assert [found.event for found in intake.rows] == ["log"] * is_kept + ["failure_classified"] * is_failure
    assert intake.ignored == (0 if is_kept else 1)
    if is_kept:
        assert intake.rows[0].attributes["event.name"] == record.event_name


def test_attributes_with_a_column_are_in_it_and_the_rest_stays() -> None:
    found = row(
        attributes={
            "recovery.operation.name": "search",
            "recovery.breaker.name": "backend",
            "recovery.query_source": "main_agent",
            "recovery.is_foreground": True,
            "session.id": "run-1",
            "recovery.failure.category": "rate_limit",
            "gen_ai.provider.name": "anthropic",
            "gen_ai.request.model": "large",
            "recovery.sequence_number": 7,
            "http.response.status_code": 429,
        }
    )
    assert (found.operation, found.breaker, found.source, found.is_foreground) == (
        "search",
        "backend",
        "main_agent",
        True,
    )
    assert (found.run, found.category, found.provider, found.model) == ("run-1", "rate_limited", "anthropic", "large")
    assert (found.sequence_number, found.attributes) == (7, {"http.response.status_code": 429})


def test_a_region_is_a_column_and_the_resources_is_the_default() -> None:
    own, placed = {"cloud.region": "eu-west-1"}, RESOURCE | {"cloud.region": "us-east-1"}
    said, unsaid = taken(sent(attributes=own), sent(attributes={"x": 1}), resource=placed).rows
    assert (said.region, unsaid.region) == ("eu-west-1", "us-east-1")
    assert "cloud.region" not in said.attributes | unsaid.attributes
    assert row(attributes={"server.address": "eu-west-1.example.com"}).region is None
    [long] = taken(sent(attributes={"cloud.region": "r" * 300})).rows
    assert len(long.region or "") == 200


def test_other_spellings_of_attributes_and_values_are_taken() -> None:
    found = row(
        "breaker_state",
        attributes={"circuitbreaker.name": "search", "circuitbreaker.state": "isolated", "recovery.operation": "op"},
    )
    assert (found.breaker, found.state, found.operation) == ("search", "forced_open", "op")


def test_a_breaker_without_a_name_is_its_operation() -> None:
    attributes = {"recovery.operation.name": "search", "recovery.breaker.state": "open"}
    assert row("breaker_state", attributes=attributes).breaker == "search"
    assert row("recovery.retry_scheduled", attributes=attributes).breaker == ""


def test_a_word_that_is_not_understood_stays_with_a_warning() -> None:
    intake = taken(sent(attributes={"recovery.failure.category": "blue", "recovery.breaker.state": "ajar"}))
    [found] = intake.rows
    assert (found.category, found.state) == ("unknown", "")
    assert found.attributes == {"recovery.failure.category": "blue", "recovery.breaker.state": "ajar"}
    assert [reason for reason, _ in intake.remarks].count(Remark.UNKNOWN_VALUE) == 2


MOMENTS: dict[str, tuple[int, int, int | None]] = {
    # said → at, stated; all in µs after the receipt, None for nothing worth keeping
    "now": (0, 0, None),
    "a second ago": (-1_000_000, -1_000_000, None),
    "two weeks late": (-14 * 86_400_000_000, -14 * 86_400_000_000, None),
    "a second ahead": (1_000_000, 0, 1_000_000),
    "a day ahead": (86_400_000_000, 0, 86_400_000_000),
    "more than a year behind": (-OLDEST_US - 1, 0, -OLDEST_US - 1),
}


@pytest.mark.parametrize("what", MOMENTS)
def test_a_moment_is_what_was_said_unless_that_cannot_be(what: str) -> None:
    said_us, at_us, stated_us = MOMENTS[what]
    found = row(time_ns=(NOW_US + said_us) * 1000)
    assert found.at_us == NOW_US + at_us
    assert found.stated_us == (None if stated_us is None else NOW_US + stated_us)


def test_an_unknown_time_is_the_observed_one_or_the_receipt() -> None:
    assert row(time_ns=0, observed_ns=(NOW_US - 5) * 1000).at_us == NOW_US - 5
    assert (row(time_ns=0).at_us, row(time_ns=0).stated_us) == (NOW_US, None)
    furthest = row(time_ns=2**64 - 1)
    assert furthest.at_us == NOW_US
    assert furthest.stated_us == (2**64 - 1) // 1000


def test_records_whose_clock_runs_ahead_keep_their_order() -> None:
    ahead = [sent(time_ns=(NOW_US + offset) * 1000, attributes={"n": offset}) for offset in (900, 300, 600)]
    rows = taken(*ahead, sent()).rows
    assert [found.attributes["n"] for found in sorted(rows[:3], key=lambda one: one.at_us)] == [300, 600, 900]
    assert max(found.at_us for found in rows) == NOW_US


def test_a_uuid_is_its_bytes_and_any_other_uid_a_digest() -> None:
    given = "01977f3e-9d5c-7abc-8def-0123456789ab"
    assert row(attributes={"log.record.uid": given}).uid == uuid.UUID(given).bytes
    for other in ("01J8ZQ", "x" * 36, "01977f3e-9d5c-7abc-8def-0123456789aZ", "a" * 5000):
        found = row(attributes={"log.record.uid": other})
        assert len(found.uid) == 16
        assert found.uid == row(time_ns=5 * 10**18, attributes={"log.record.uid": other, "more": 1}).uid


def test_without_a_uid_the_content_is_the_key() -> None:
    keys = {
        row().uid,
        row(attributes={"n": 1}).uid,
        row(attributes={"n": 1.0}).uid,
        row(body="x").uid,
        row(time_ns=(NOW_US - 1_000_000) * 1000 + 1).uid,
        row("recovery.exhausted").uid,
        row(trace_id="ab" * 16).uid,
        taken(sent(), resource={"service.name": "other"}).rows[0].uid,
    }
    assert len(keys) == 8
    assert row(attributes={"a": 1, "b": 2}).uid == row(attributes={"b": 2, "a": 1}).uid
    assert [one.uid for one in taken(sent(), sent(body="x")).rows] == [row().uid, row(body="x").uid]


def test_repeated_lines_without_time_differ_by_observed_time() -> None:
    lines = [sent(time_ns=0, observed_ns=(NOW_US - ago_us) * 1000) for ago_us in (3_000_000, 2_000_000, 2_000_000)]
    assert len({one.uid for one in taken(*lines).rows}) == 2


def equal(*records: Sent) -> int:
    """How many were taken for another."""
    return sum(count for (reason, _), count in taken(*records).remarks.items() if reason == Remark.EQUAL)


def test_equal_records_without_a_uid_are_one_fact_and_the_sender_is_told() -> None:
    """Some clocks tell milliseconds, and then two failures of one moment look like one that was sent twice."""
    assert not equal(sent(), sent(body="x"), sent(attributes={"log.record.uid": "a"}))
    assert not equal(*[sent(attributes={"log.record.uid": "a"})] * 2)
    assert equal(sent(), sent(), sent()) == 2


def test_keys_made_from_content_sort_by_time() -> None:
    moments = [(NOW_US - ago * 1_000_000) * 1000 for ago in (50, 40, 30, 20, 10)]
    made = [row(time_ns=moment).uid for moment in moments]
    assert made == sorted(made)


@pytest.mark.parametrize("what", POISON)
def test_every_value_is_made_safe(what: str) -> None:
    given, expected = POISON[what]
    found = row(attributes={"v": given}).attributes["v"]
    assert found == expected
    assert json.loads(row(attributes={"v": given}).attributes_json) == {"v": expected}


def test_secrets_are_hidden_by_name_as_well() -> None:
    given = {"http.request.header.authorization": "abc", "db.password": 17, "auth.token": ["x"], "input.tokens": 5}
    assert row(attributes=given).attributes == {**dict.fromkeys(given, "[masked]"), "input.tokens": 5}


def test_columns_are_cut_to_their_length() -> None:
    long = "n" * 5000
    found = taken(
        sent(
            body=long,
            trace_id="ab" * 16,
            attributes={
                "recovery.operation.name": long,
                "session.id": long,
                "recovery.message": long,
                "recovery.failure.fingerprint": long,
            },
        ),
        resource={"service.name": long, "service.instance.id": long},
    ).rows[0]
    assert {len(one) for one in (found.operation, found.run, found.agent.service, found.agent.instance)} == {200}
    assert (len(found.body), len(found.attributes["recovery.message"])) == (1000, 1000)
    assert len(found.attributes["recovery.failure.fingerprint"]) == 401  # as in the tables of issues


def test_of_too_many_attributes_ours_are_kept() -> None:
    given = {f"k{number}": number for number in range(500)} | {"recovery.attempt.number": 2, "session.id": "r"}
    found = row(attributes=given)
    assert (found.run, found.attributes["recovery.attempt.number"]) == ("r", 2)
    assert len(found.attributes) == 127


@pytest.mark.parametrize(
    "attributes",
    [{f"k{number}": 1 for number in range(1025)}, {f"k{number}": "x" * 4000 for number in range(100)}],
    ids=["too many", "too much"],
)
def test_what_would_leave_nothing_sensible_is_set_aside(attributes: dict[str, object]) -> None:
    intake = taken(sent(), sent(attributes=attributes), sent(body="x"))
    assert (len(intake.rows), len(intake.refused)) == (2, 1)


def test_an_instance_is_named_by_what_is_there() -> None:
    def instance(**resource: object) -> tuple[str, str]:
        agent = taken(sent(), resource={key.replace("_", "."): one for key, one in resource.items()}).rows[0].agent
        return agent.service, agent.instance

    assert instance() == ("unknown_service", "")
    assert instance(service_name="a", host_name="h", k8s_pod_name="p") == ("a", "p")
    assert instance(service_name="a", host_name="h") == ("a", "h")
    assert instance(service_name=5, service_instance_id=["x"]) == ("5", "['x']")


def test_the_environment_is_the_keys_and_a_mismatch_is_kept() -> None:
    resource = {**RESOURCE, "deployment.environment.name": "prod"}
    [found] = taken(sent(), resource=resource).rows
    assert (found.environment, found.attributes["deployment.environment.name"]) == ("dev", "prod")
    [found] = taken(sent(), resource={**resource, "deployment.environment.name": "dev"}).rows
    assert "deployment.environment.name" not in found.attributes

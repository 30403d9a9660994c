"""What an environment hides, on arrival: whoever sent it, nothing of it is stored, set aside or told in a log."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from events import keys
from events.ingest.cardinality import known_names
from events.ingest.commits import writer
from events.ingest.masking import forget_masking, keep_masking
from events.ingest.reporters import reporters
from events.models import Fact, HiddenTexts, Quarantine
from recovery_ops.rules.policy.masking_rules import Masking, parse_masking
from tests.support.otlp import JSON, PROTOBUF, RESOURCE, Door, attributes, protobuf, record, request

TOKENS = ("CUST-0123456789", "tok_9f8e7d6c5b4a3f2e")
HIDDEN_WHOLE = "ann at example dot org"
RULES: dict[str, Any] = {
    "rules": [
        {"name": "customer", "pattern": r"\bCUST-\d{10}\b", "replacement": "[customer]"},
        {"name": "token", "pattern": r"tok_[0-9a-f]{16}"},
    ],
    "attributes": ["customer.email", "recovery.message"],
}
pytestmark = pytest.mark.django_db(transaction=True)


def section(document: dict[str, Any]) -> Masking:
    return parse_masking(document, "masking", [])


@pytest.fixture
def door() -> Iterator[Door]:
    for remembered in (keys.forget_keys, reporters.forget, known_names.forget, forget_masking):
        remembered()
    keep_masking("dev", section(RULES))
    yield Door(keys.create_key("tests", ["ingest"], "dev")[1])
    writer.close(timeout_s=10)
    keys.forget_keys()
    forget_masking()


def texts() -> list[str]:
    """The tokens in all kinds of surroundings, some at the place where a text is cut."""
    found = []
    for token in TOKENS:
        found += [token, f"of {token}, twice {token}", f"{token[:6]}\u200b{token[6:]}", f"ä\n{token}\t"]
        found += ["x " * (length // 2) + token for length in (984, 992, 4080, 4088, 4092, 4200)]
    return found


def everything() -> dict[str, Any]:
    given: dict[str, Any] = {f"k{number}": text for number, text in enumerate(texts())}
    given |= {TOKENS[1]: 1, "nested": {"a": [{TOKENS[1]: TOKENS[0]}]}, "customer.email": HIDDEN_WHOLE}
    return given | {
        "recovery.message": HIDDEN_WHOLE,
        "exception.message": texts()[5],
        "recovery.operation.name": TOKENS[0],
    }


def send_all(door: Door, encoding: str) -> None:
    records = [record(given=everything(), body={"stringValue": text}) for text in texts()]
    records += [record("their.event", given=everything(), severityNumber=17, body={"stringValue": TOKENS[0]})]
    records += [record(given={f"t{number}": TOKENS[number % 2] for number in range(1100)} | everything())]
    named = {**RESOURCE, "service.name": TOKENS[0], "service.version": TOKENS[1], "customer.email": HIDDEN_WHOLE}
    if encoding == JSON:
        assert door.post(json=request(*records, resource=named)).status_code == 200
    else:
        headers = {"content-type": PROTOBUF}
        assert door.post(protobuf(request(*records, resource=named)), headers=headers).status_code == 200
    named_in_json = f', "customer.email": "{HIDDEN_WHOLE}"' if encoding == JSON else ""
    for spoilt in (f'{{"x": "{TOKENS[0]}"{named_in_json}', f"\x0a\x0f{TOKENS[0]}"):
        assert door.post(spoilt.encode(), headers={"content-type": encoding}).status_code == 400
    span = {
        "traceId": "ab" * 16,
        "spanId": "cd" * 8,
        "name": TOKENS[0],
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
        "status": {"code": 2, "message": TOKENS[1]},
        "attributes": attributes({"gen_ai.operation.name": "chat", **everything()}),
        "events": [{"name": "exception", "timeUnixNano": "2", "attributes": attributes({"exception.type": TOKENS[0]})}],
    }
    spans = {"resourceSpans": [{"resource": {"attributes": attributes(named)}, "scopeSpans": [{"spans": [span]}]}]}
    assert door.post(json=spans, path="/v1/traces").status_code == 200


def stored() -> str:
    """Every row of every table, blobs as text."""
    found = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            if table == "events_hiddentexts":
                continue  # the rules themselves
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            for row in cursor.fetchall():
                found += [
                    bytes(one).decode("latin-1") if isinstance(one, bytes | memoryview) else str(one) for one in row
                ]
    return "\n".join(found)


@pytest.mark.parametrize("encoding", [JSON, PROTOBUF])
def test_what_a_rule_names_is_nowhere(
    door: Door, encoding: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    send_all(door, encoding)
    assert Fact.objects.count() > len(texts())
    assert Quarantine.objects.exclude(payload=b"").exists()
    everywhere = stored() + caplog.text + "".join(capfd.readouterr())
    assert [token for token in (*TOKENS, HIDDEN_WHOLE) if token in everywhere] == []
    # Nor what a cut leaves of one.
    assert "CUST-0" not in everywhere
    assert "tok_9" not in everywhere
    assert "[customer]" in everywhere
    assert "failure_classified" in everywhere


def test_without_rules_the_same_is_kept_as_it_was(door: Door) -> None:
    keep_masking("dev", section({}))
    send_all(door, JSON)
    everywhere = stored()
    assert all(token in everywhere for token in (*TOKENS, HIDDEN_WHOLE)), "else the test above proves nothing"


def test_another_environment_hides_nothing_by_it(door: Door) -> None:
    other = Door(keys.create_key("tests", ["ingest"], "prod")[1])
    assert other.post(json=request(record(given={"k": TOKENS[0]}))).status_code == 200
    assert TOKENS[0] in stored()


def test_what_is_replayed_from_the_quarantine_is_masked_by_the_rules_of_today(door: Door) -> None:
    from events.ingest.quarantine import replay

    keep_masking("dev", section({}))
    spoilt = request(record(given={f"t{number}": "x" for number in range(1100)} | {"k": TOKENS[0]}))
    assert door.post(json=spoilt).status_code == 200
    line = Quarantine.objects.get()
    content = json.loads(bytes(line.payload))
    kept = content["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]
    kept["attributes"] = [one for one in kept["attributes"] if not one["key"].startswith("t")]
    line.payload = json.dumps(content).encode()
    line.save(update_fields=["payload"])
    keep_masking("dev", section(RULES))
    assert replay([line], now_us=line.received_us).stored == 1
    assert Fact.objects.get().attributes["k"] == "[customer]"


def without_uid() -> dict[str, Any]:
    """What an SDK sends that gives its records no uid: an event of ours, and one of somebody else's."""
    at = str(time.time_ns() // 10**12 * 10**12)
    given = {"k": TOKENS[0], "customer.email": HIDDEN_WHOLE, "recovery.operation.name": TOKENS[1]}
    records = []
    for name in ("recovery.exhausted", f"their {TOKENS[0]}"):
        one = record(name, given=given, body={"stringValue": f"of {TOKENS[0]}"}, timeUnixNano=at, severityNumber=17)
        one["attributes"] = [pair for pair in one["attributes"] if pair["key"] != "log.record.uid"]
        records.append(one)
    return request(*records, resource={**RESOURCE, "service.version": TOKENS[1]})


@pytest.mark.parametrize("encoding", [JSON, PROTOBUF])
def test_a_record_without_a_uid_that_is_sent_again_is_one_whatever_rules_came_between(
    door: Door, encoding: str
) -> None:
    content = without_uid()
    for rules in ({}, RULES, {"rules": RULES["rules"][:1]}, {"attributes": ["customer.email", "k"]}):
        keep_masking("dev", section(rules))
        sent = door.post(json=content) if encoding == JSON else door.post(protobuf(content))
        assert sent.status_code == 200
        assert Fact.objects.count() == 2


def test_whoever_reads_the_table_cannot_try_out_what_was_hidden(door: Door, settings: Any) -> None:
    content = without_uid()
    assert door.post(json=content).status_code == 200
    settings.SECRET_KEY = "another"
    assert door.post(json=content).status_code == 200
    assert Fact.objects.count() == 4, "without the key nobody makes the same digest"


def test_rules_that_cannot_be_read_store_nothing(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object, **__: object) -> None:
        raise OSError("no table")

    forget_masking()
    monkeypatch.setattr(HiddenTexts.objects, "filter", away)
    answer = door.post(json=request(record(given={"k": TOKENS[0]})))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert not Fact.objects.exists()

"""What is wrong with one resource or one scope of a request spoils nothing beside it, in either encoding."""

from __future__ import annotations

import json
from typing import Any

import pytest

from events.otlp import json_requests
from events.otlp.encodings import count_data_points, read_logs
from events.otlp.part_limits import UNCOUNTED_BYTES, check_parts
from events.otlp.sent import Encoding, Malformed, Signal, Unreadable
from events.otlp.spans import read_spans
from tests.support.otlp import protobuf, record, request
from tests.support.sentences import left_out


def of(name: str) -> dict[str, Any]:
    """What one service sends: a request of one record."""
    return request(record(), resource={"service.name": name})


def found_in(signal: Signal, body: bytes, encoding: Encoding) -> tuple[set[object], int, list[Unreadable]]:
    """The services that are named, how many records or spans were read, and what has to be set aside."""
    if signal is Signal.LOGS:
        logs = read_logs(body, encoding)
        resources, count = [batch.resource for batch in logs], sum(len(batch.records) for batch in logs)
        unreadable = [one for batch in logs for one in batch.unreadable]
    else:
        traces = read_spans(body, encoding)
        resources, count = [batch.resource for batch in traces], sum(len(batch.spans) for batch in traces)
        unreadable = [one for batch in traces for one in batch.unreadable]
    return {one["service.name"] for one in resources if "service.name" in one}, count, unreadable


def as_spans(body: str) -> str:
    """The JSON of log records as that of spans: both have attributes."""
    for ours, theirs in zip(json_requests.LOGS, json_requests.SPANS, strict=True):
        body = body.replace(f'"{ours}"', f'"{theirs}"')
    return body


GOOD = {"logRecords": [record()]}
IN_JSON: dict[str, tuple[Any, int, int]] = {
    # what stands between the good ones of two others; how many records of it are read, how much is set aside
    "a text": ("x", 0, 1),
    "nothing": (None, 0, 1),
    "scopes that are no list": ({"scopeLogs": "x"}, 0, 1),
    "a scope that is a number": ({"scopeLogs": [7, GOOD]}, 1, 1),
    "records that are no list": ({"scopeLogs": [{"logRecords": {}}, {"logRecords": [record(), 7]}]}, 1, 2),
    "a resource that is a text": ({"resource": "x", "scopeLogs": [GOOD]}, 1, 0),
    "attributes that are no list": ({"resource": {"attributes": {}}, "scopeLogs": [{"scope": 3, **GOOD}]}, 1, 0),
}


@pytest.mark.parametrize("what", IN_JSON)
@pytest.mark.parametrize("signal", [Signal.LOGS, Signal.TRACES])
def test_in_json_the_parts_beside_it_are_read(what: str, signal: Signal) -> None:
    part, good, aside = IN_JSON[what]
    body = json.dumps({"resourceLogs": [*of("first")["resourceLogs"], part, *of("last")["resourceLogs"]]})
    sent = (as_spans(body) if signal is Signal.TRACES else body).encode()
    services, count, unreadable = found_in(signal, sent, Encoding.JSON)
    assert (services, count, len(unreadable)) == ({"first", "last"}, 2 + good, aside)
    for one in unreadable:
        assert json.loads(one.alone()), "it is kept as a request of its own"


@pytest.mark.parametrize("part", ["x", {"scopeLogs": "x"}, {"scopeLogs": ["x"]}, {"scopeLogs": [{"logRecords": "x"}]}])
def test_in_json_what_holds_nothing_that_could_be_a_record_is_malformed(part: Any) -> None:
    body = json.dumps({"resourceLogs": [part, {"scopeLogs": [{"logRecords": []}]}]}).encode()
    with pytest.raises(Malformed, match=r"resourceLogs\[0\]"):
        read_logs(body, Encoding.JSON)


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field of less than 128 bytes."""
    return bytes([number << 3 | 2, len(content)]) + content


SHORT = field(2, b"")
"""A log record, or span, that says nothing."""
BROKEN = b"\x12\x7f"
"""A field 2 that says it is longer than what it stands in."""
IN_PROTOBUF: dict[str, tuple[bytes, int, int]] = {
    "a resource's framing": (field(1, BROKEN), 0, 1),
    "a resource's framing behind a record": (field(1, field(2, SHORT) + b"\x0b"), 0, 1),
    "a scope's framing": (field(1, field(2, BROKEN) + field(2, SHORT)), 1, 1),
    "a record's framing": (field(1, field(2, field(2, b"\x32\x7f") + SHORT)), 1, 1),
    "what describes a resource": (field(1, field(1, b"\x0a\x7f") + field(2, SHORT)), 1, 0),
    "an attribute of a resource": (field(1, field(1, field(1, b"\x0a\x7f")) + field(2, SHORT)), 1, 0),
    "what describes a scope": (field(1, field(2, field(1, b"\x0a\x7f") + SHORT)), 1, 0),
}


@pytest.mark.parametrize("what", IN_PROTOBUF)
@pytest.mark.parametrize("signal", [Signal.LOGS, Signal.TRACES])
@pytest.mark.parametrize("unknown_bytes", [0, UNCOUNTED_BYTES])
def test_in_protobuf_the_parts_beside_it_are_read(what: str, signal: Signal, unknown_bytes: int) -> None:
    part, good, aside = IN_PROTOBUF[what]
    if signal is Signal.TRACES and what == "a record's framing":
        part = part.replace(b"\x32\x7f", b"\x2a\x7f")
    # A field that nobody knows makes it so large that its parts are counted before it is read.
    unknown = b"\x7a\x80\x80\x80\x02" + bytes(unknown_bytes) if unknown_bytes else b""
    body = protobuf(of("first")) + part + unknown + protobuf(of("last"))
    check_parts(body, signal)
    services, count, unreadable = found_in(signal, body, Encoding.PROTOBUF)
    assert (services, count, len(unreadable)) == ({"first", "last"}, 2 + good, aside)


def test_what_was_set_aside_is_read_by_itself_after_a_fix() -> None:
    """Here the fault is mended in what was kept."""
    body = protobuf(of("first")) + field(1, field(2, field(2, field(12, b"a"))) + BROKEN)
    [kept] = found_in(Signal.LOGS, body, Encoding.PROTOBUF)[2]
    assert left_out(kept.reason, "resource") == []
    with pytest.raises(Malformed):
        read_logs(kept.alone(), Encoding.PROTOBUF)
    [batch] = read_logs(kept.alone().replace(BROKEN, b"\x10\x01"), Encoding.PROTOBUF)
    assert batch.records[0].event_name == "a"


@pytest.mark.parametrize("signal", [Signal.LOGS, Signal.TRACES])
def test_where_every_record_is_spoilt_each_is_set_aside_in_either_encoding(signal: Signal) -> None:
    bad = field(1, field(2, field(2, b"\x2a\x7f") + field(2, b"\x2a\x7f\x00")))
    in_json = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [7, 8]}]}]})
    for body, encoding in (
        (bad, Encoding.PROTOBUF),
        ((as_spans(in_json) if signal is Signal.TRACES else in_json).encode(), Encoding.JSON),
    ):
        _, count, unreadable = found_in(signal, body, encoding)
        assert (count, len(unreadable)) == (0, 2)


@pytest.mark.parametrize("name", json_requests.LOGS)
@pytest.mark.parametrize("signal", [Signal.LOGS, Signal.TRACES])
def test_in_json_a_list_that_is_written_in_two_parts_is_one_list(name: str, signal: Signal) -> None:
    """A parser keeps the last of two members of one name, and the first would be acknowledged and lost."""
    before = {
        "resourceLogs": of("other")["resourceLogs"],
        "scopeLogs": [{"logRecords": [record()]}],
        "logRecords": [record()],
    }
    body = json.dumps(of("twice")).replace(f'"{name}"', f'"{name}" : {json.dumps(before[name])}, "{name}"', 1)
    sent = (as_spans(body) if signal is Signal.TRACES else body).encode()
    services, count, unreadable = found_in(signal, sent, Encoding.JSON)
    assert (count, unreadable) == (2, [])
    assert services == ({"twice", "other"} if name == "resourceLogs" else {"twice"})


@pytest.mark.parametrize(("rest", "good", "aside"), [("null", 1, 0), ("7", 1, 1), ('"x"', 1, 1), ("[]", 1, 0)])
def test_in_json_a_second_part_that_is_no_list_costs_the_first_nothing(rest: str, good: int, aside: int) -> None:
    ours = json.dumps([record()])
    for first, second in ((ours, rest), (rest, ours)):
        scope = f'{{"logRecords": {first}, "logRecords": {second}}}'
        batches = read_logs(f'{{"resourceLogs": [{{"scopeLogs": [{scope}]}}]}}'.encode(), Encoding.JSON)
        assert sum(len(batch.records) for batch in batches) == good
        assert sum(len(batch.unreadable) for batch in batches) == aside


@pytest.mark.parametrize("signal", [Signal.LOGS, Signal.TRACES])
def test_in_json_what_is_spelt_as_elsewhere_or_before_is_set_aside(signal: Signal) -> None:
    """Unknown names are to be ignored, but these hold all that was sent."""
    names = json_requests.LOGS if signal is Signal.LOGS else json_requests.SPANS
    for name, odd in (
        (names.scopes, "scope_logs" if signal is Signal.LOGS else "scope_spans"),
        (names.scopes, "instrumentationLibraryLogs" if signal is Signal.LOGS else "instrumentationLibrarySpans"),
        *([("logRecords", "log_records")] if signal is Signal.LOGS else []),
    ):
        body = json.dumps({"resourceLogs": [*of("first")["resourceLogs"], *of("odd")["resourceLogs"]]})
        sent = as_spans(body) if signal is Signal.TRACES else body
        at = sent.rindex(f'"{name}"')
        sent = sent[:at] + f'"{odd}"' + sent[at + len(name) + 2 :]
        services, count, [kept] = found_in(signal, sent.encode(), Encoding.JSON)
        assert (services, count) == ({"first"}, 1)
        assert f"called `{name}`, not `{odd}`" in kept.reason


@pytest.mark.parametrize(("signal", "sent"), [(Signal.LOGS, "resourceSpans"), (Signal.TRACES, "resourceLogs")])
def test_in_json_what_was_sent_to_another_signal_s_address_is_malformed(signal: Signal, sent: str) -> None:
    with pytest.raises(Malformed, match=f"`{sent}`, which goes to /v1/"):
        found_in(signal, f'{{"{sent}": []}}'.encode(), Encoding.JSON)
    with pytest.raises(Malformed, match=f"`{sent}`, which goes to /v1/"):
        count_data_points(f'{{"{sent}": []}}'.encode(), Encoding.JSON)


@pytest.mark.parametrize("depth", [300, 345, 5000])
@pytest.mark.parametrize("signal", [Signal.LOGS, Signal.TRACES])
def test_in_json_a_record_that_no_parser_follows_spoils_itself_alone(depth: int, signal: Signal) -> None:
    text = 'with "{[" in it'
    body = json.dumps(
        {
            "resourceLogs": [
                of("first")["resourceLogs"][0],
                request(record(given={"a": text, "deep": 0}))["resourceLogs"][0],
            ]
        }
    )
    deep = '{"arrayValue": {"values": [' * depth + "]}}" * depth
    sent = body.replace('{"intValue": "0"}', deep)
    assert sent != body
    services, count, unreadable = found_in(
        signal, (as_spans(sent) if signal is Signal.TRACES else sent).encode(), Encoding.JSON
    )
    assert (count, [left_out(one.reason, "32") for one in unreadable]) == (1, [[]])
    assert "first" in services
    assert json.dumps(text).encode() in unreadable[0].alone()


@pytest.mark.parametrize("body", ["[" * 100_000, '{"resourceLogs": [' + '{"a":[' * 5000 + "]}" * 4999])
def test_in_json_what_has_no_end_is_malformed(body: str) -> None:
    with pytest.raises(Malformed, match="not JSON"):
        read_logs(body.encode(), Encoding.JSON)


def test_in_json_a_text_that_is_the_name_of_a_list_is_a_text() -> None:
    given: dict[str, object] = {"a": "logRecords", "b": '"logRecords":', "logRecords": "scopeLogs"}
    body = json.dumps(request(record(given=given), resource=given)).encode()
    [batch] = read_logs(body, Encoding.JSON)
    assert batch.resource == given
    assert batch.records[0].attributes.items() >= given.items()

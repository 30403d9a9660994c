"""Memory stays bounded whatever is sent: small parts by the million are refused before anything is made of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from events.otlp import json_requests, protobuf_requests
from events.otlp.part_limits import MOST_PARTS, MOST_RECORDS, MOST_SCOPES, UNCOUNTED_BYTES, check_members, check_parts
from events.otlp.sent import Encoding, Malformed, Signal
from events.otlp.spans import read_spans

pytestmark = pytest.mark.full  # each body is read in a process of its own, whose memory is measured
LARGE = 2**26 - 1024
MOST_UNCOUNTED = UNCOUNTED_BYTES - 64
PEAK_MB = 500
"""What reading one body may take at its worst, the body included."""


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field."""
    size, length = bytearray(), len(content)
    while length > 0x7F:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([number << 3 | 2]) + bytes([*size, length]) + content


def in_request(content: bytes) -> bytes:
    return field(1, field(2, content))


def records(size: int) -> bytes:
    """Records of two bytes each."""
    return in_request(b"\x12\x00" * (size // 2))


def attributes(size: int, number: int = 6) -> bytes:
    """One record, or span, with attributes of two bytes each."""
    return in_request(field(2, bytes([number << 3 | 2, 0]) * (size // 2)))


def members(size: int, number: int = 6) -> bytes:
    """One attribute that is a list of values of two bytes each."""
    value = field(2, field(5, b"\x0a\x00" * (size // 2)))
    return in_request(field(2, field(number, b"\x0a\x01k" + value)))


def objects(size: int) -> bytes:
    """JSON with records of three bytes each."""
    return b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[' + b"{}," * (size // 3) + b"{}]}]}]}"


def large_resource(size: int) -> bytes:
    """A resource that is nearly all of the request, and 500 scopes with a record that is none."""
    described = field(1, b"\x0a\x01k" + field(2, field(1, b"a" * (size - 20_000))))
    return field(1, field(1, described) + field(2, field(2, b"\x32\x04\x0a\xff\x12\x00")) * 500)


def scopes(size: int) -> bytes:
    """JSON with scopes of two bytes each that are none."""
    return b'{"resourceLogs":[{"scopeLogs":[' + b"7," * (size // 2) + b"7]}]}"


def twice(size: int) -> bytes:
    """JSON with a list of records that is written over and over."""
    return b'{"resourceLogs":[{"scopeLogs":[{' + b'"logRecords":[{}],' * (size // 18) + b'"logRecords":[]}]}]}'


LOGS: dict[str, Callable[[int], bytes]] = {"records": records, "attributes": attributes, "members": members}
_TOO_MANY = "more than|framing"


@pytest.mark.parametrize("what", LOGS)
def test_parts_by_the_million_are_refused(what: str) -> None:
    with pytest.raises(Malformed, match=_TOO_MANY):
        check_parts(LOGS[what](LARGE), Signal.LOGS)


def test_spans_are_counted_as_records_are() -> None:
    for body in (records(LARGE), attributes(LARGE, 9), members(LARGE, 9)):
        with pytest.raises(Malformed, match=_TOO_MANY):
            check_parts(body, Signal.TRACES)


def test_json_by_the_million_is_refused() -> None:
    with pytest.raises(Malformed, match="more than"):
        check_members(objects(LARGE))


def test_a_small_body_of_nothing_but_records_is_refused_by_their_number() -> None:
    body = records(2 * (MOST_RECORDS + 1))
    check_parts(body, Signal.LOGS)
    with pytest.raises(Malformed, match=f"{MOST_RECORDS:,} records"):
        protobuf_requests.read_logs(body)
    with pytest.raises(Malformed, match=f"{MOST_RECORDS:,} records"):
        read_spans(body, Encoding.PROTOBUF)
    with pytest.raises(Malformed, match=f"{MOST_RECORDS:,} records"):
        json_requests.read_logs(objects(3 * (MOST_RECORDS + 1)))


def test_json_records_of_several_scopes_count_together() -> None:
    half = b'{"logRecords":[' + b"{}," * (MOST_RECORDS // 2) + b"{}]}"
    for between in (b",", b']},{"scopeLogs":['):  # in one resource, and in two
        with pytest.raises(Malformed, match=f"{MOST_RECORDS:,} records"):
            json_requests.read_logs(b'{"resourceLogs":[{"scopeLogs":[' + half + between + half + b"]}]}")


@pytest.mark.parametrize("one", [b"\x12\x00", b"\x12\x02\x12\x7f"])
@pytest.mark.parametrize("is_inside", [True, False])
def test_resources_and_scopes_are_refused_by_their_number_alike(one: bytes, is_inside: bool) -> None:
    """Whether each can be read or not: something is made of it."""
    many = one * (MOST_SCOPES + 1)
    body = field(1, many) if is_inside else many.replace(b"\x12", b"\x0a")
    written = (b"{}" if one == b"\x12\x00" else b"7") + b","
    in_json = written * MOST_SCOPES + written[:-1]
    for read in (lambda: protobuf_requests.read_logs(body), lambda: read_spans(body, Encoding.PROTOBUF)):
        with pytest.raises(Malformed, match=f"{MOST_SCOPES:,} resources or scopes"):
            read()
    with pytest.raises(Malformed, match=f"{MOST_SCOPES:,} resources or scopes"):
        json_requests.read_logs(
            b'{"resourceLogs":[' + (b'{"scopeLogs":[' + in_json + b"]}" if is_inside else in_json) + b"]}"
        )


def test_what_is_saved_of_a_broken_body_is_bounded_alike() -> None:
    body = in_request(b"\x12\x00" * (MOST_RECORDS + 1) + field(2, b"\x32\x7f"))
    with pytest.raises(Malformed, match=f"{MOST_RECORDS:,} records"):
        protobuf_requests.read_logs(body)


def big_request(count: int = 20_000) -> ExportLogsServiceRequest:
    """More than a Collector sends at once."""
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    given = [KeyValue(key=f"attribute.{number}", value=AnyValue(string_value="x" * 20)) for number in range(10)]
    given.append(KeyValue(key="whole", value=AnyValue(int_value=-1)))
    given.append(KeyValue(key="share", value=AnyValue(double_value=0.5)))
    one = LogRecord(time_unix_nano=1, event_name="recovery.exhausted", attributes=given, trace_id=b"x" * 16)
    scope.log_records.extend([one] * count)
    return request


def test_what_is_large_because_there_is_much_to_say_is_read() -> None:
    body = big_request().SerializeToString()
    assert len(body) > UNCOUNTED_BYTES
    check_parts(body, Signal.LOGS)
    [batch] = protobuf_requests.read_logs(body)
    assert len(batch.records) == 20_000
    assert json.loads(json.dumps(batch.records[-1].attributes))["share"] == 0.5


def test_a_broken_record_of_a_large_request_spoils_itself_alone() -> None:
    whole = big_request().resource_logs[0].scope_logs[0].log_records[0].SerializeToString()
    broken = b"\x32\x7f" + whole[:10]  # an attribute that says it is longer than its record
    body = in_request(field(2, broken) + field(2, whole) * 20_000)
    check_parts(body, Signal.LOGS)
    [batch] = protobuf_requests.read_logs(body)
    assert (len(batch.records), len(batch.unreadable)) == (20_000, 1)


@pytest.mark.parametrize("tail", [b"\x0b", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x0a", b"\x08\xff"])
def test_a_large_body_whose_framing_is_broken_is_refused(tail: bytes) -> None:
    body = big_request().SerializeToString() + tail
    with pytest.raises(Malformed, match="framing"):
        check_parts(body, Signal.LOGS)


GROUP = b"\xfb\x06\xfc\x06"
"""A group of a field that nobody knows, which a parser passes over."""


@pytest.mark.parametrize(
    "group", [GROUP, b"\xfb\x06" + GROUP + b"\x0a\x01a\x0d\x00\x00\x00\x00\xfc\x06", b"\x0b\x08\x01\x0c"]
)
@pytest.mark.parametrize(
    "around", [lambda one: in_request(field(2, one)), in_request, lambda one: field(1, one), bytes]
)
def test_what_stands_behind_a_group_is_counted(group: bytes, around: Callable[[bytes], bytes]) -> None:
    """For parsers make an object of each of it."""
    LogRecord.FromString(group)
    many = (b"\x0a\x00" if around is bytes else b"\x12\x00") * (UNCOUNTED_BYTES // 2)
    with pytest.raises(Malformed, match="more than"):
        check_parts(around(group + many), Signal.LOGS)
    with pytest.raises(Malformed, match="more than"):
        check_parts(around(b"\x0b" + b"\x08\x01" * (UNCOUNTED_BYTES // 2) + b"\x0c"), Signal.LOGS)


@pytest.mark.parametrize("group", [b"\x0b", b"\x0c", b"\x0b\x14", b"\x0b\x08\x01"])
def test_a_group_without_its_end_spoils_its_record_alone(group: bytes) -> None:
    whole = big_request().resource_logs[0].scope_logs[0].log_records[0].SerializeToString()
    body = in_request(field(2, group) + field(2, whole) * 20_000)
    check_parts(body, Signal.LOGS)
    [batch] = protobuf_requests.read_logs(body)
    assert (len(batch.records), len(batch.unreadable)) == (20_000, 1)


def test_many_parts_that_are_allowed_are_allowed() -> None:
    check_parts(
        in_request(field(2, b"\x32\x00" * (MOST_PARTS - 10)) + b"\x1a" + b"\xff\xff\x7f" + bytes(2**21 - 1)),
        Signal.LOGS,
    )


_PEAK = """
import resource, sys
sys.path.insert(0, {root!r})
from tests.events import test_density as sent
body = sent.{make}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    {read}
except sent.Malformed:
    pass
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
_READ_LOGS = "sent.check_parts(body, sent.Signal.LOGS); sent.protobuf_requests.read_logs(body)"
_READ_SPANS = "sent.check_parts(body, sent.Signal.TRACES); sent.read_spans(body, sent.Encoding.PROTOBUF)"
_READ_JSON = "sent.json_requests.read_logs(body)"


@pytest.mark.full
@pytest.mark.parametrize(
    ("make", "read", "size"),
    [
        ("records({size})", _READ_LOGS, MOST_UNCOUNTED),
        ("attributes({size})", _READ_LOGS, MOST_UNCOUNTED),
        ("members({size})", _READ_LOGS, MOST_UNCOUNTED),
        ("attributes({size}, 9)", _READ_SPANS, MOST_UNCOUNTED),
        ("members({size}, 9)", _READ_SPANS, MOST_UNCOUNTED),
        ("objects({size})", _READ_JSON, MOST_UNCOUNTED),
        ("twice({size})", _READ_JSON, MOST_UNCOUNTED),
        # Each scope with a record that cannot be read, beside a resource that none of them may have for itself.
        ("large_resource({size})", _READ_LOGS, MOST_UNCOUNTED),
        ("large_resource({size})", _READ_SPANS, MOST_UNCOUNTED),
        ("scopes({size})", _READ_JSON, MOST_UNCOUNTED),
        # What is counted first is refused by one way of counting, whatever its parts are.
        ("members({size})", _READ_LOGS, LARGE),
        ("objects({size})", _READ_JSON, LARGE),
    ],
)
def test_reading_takes_no_more_memory_than_is_said(
    make: str, read: str, size: int, pytestconfig: pytest.Config
) -> None:
    """Its own process, because what a process once took it rarely gives back."""
    code = _PEAK.format(root=str(pytestconfig.rootpath), make=make.format(size=size), read=read)
    setup = (
        "import os; os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'tests.settings'); import django; django.setup()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", setup + code], capture_output=True, text=True, check=False, cwd=pytestconfig.rootpath
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < PEAK_MB

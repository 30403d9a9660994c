"""What is set aside holds no value under a name that hides it, however it is written, and no half of a secret."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import json_format  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.logs.v1 import logs_pb2

from events.ingest.cleaning import Cleaner
from events.ingest.quarantine import CONTENT_CHARS, set_aside
from events.ingest.records import Intake
from events.models import Quarantine
from events.otlp.refused import PAYLOAD_BYTES, Refused
from events.otlp.request_masking import blot
from events.otlp.sent import Encoding, Signal
from recovery_ops.rules.policy.masking_rules import Masking, MaskRule

TOKEN = "CUST-0123456789"
CLEANER = Cleaner(
    Masking(
        rules=(MaskRule(name="customer", pattern=r"CUST-\d{10}", replacement="[c]"),), attributes=("customer.email",)
    )
)
NAMES = ["customer.email", "db.password"]
WORD = "ann at example"
VALUES: dict[str, dict[str, Any]] = {
    "text": {"stringValue": WORD},
    "long text": {"stringValue": f"{WORD} " * 20},
    "list": {"arrayValue": {"values": [{"stringValue": WORD}, {"intValue": "20212223"}]}},
    "map": {"kvlistValue": {"values": [{"key": WORD, "value": {"stringValue": WORD}}]}},
    "long map": {"kvlistValue": {"values": [{"key": WORD, "value": {"stringValue": WORD * 20}}]}},
    "number": {"intValue": "20212223"},
    "double": {"doubleValue": 20212223.5},
    "bytes": {"bytesValue": "YW5uIGF0IGV4YW1wbGU="},
}
HIDDEN = (WORD, "20212223", "YW5uIGF0", "\xff\xd3\xd1\x09", "\xf8\x9fFsA")
"""The values as both encodings write them: the whole number as a varint, and the end of the double."""


def request(name: str, value: dict[str, Any], *, value_first: bool = False) -> dict[str, Any]:
    pair = {"value": value, "key": name} if value_first else {"key": name, "value": value}
    plain = {"key": "plain", "value": {"stringValue": "stays as it is"}}
    entry = {"timeUnixNano": "1", "attributes": [plain, pair, plain], "body": {"kvlistValue": {"values": [pair]}}}
    return {"resourceLogs": [{"resource": {"attributes": [pair]}, "scopeLogs": [{"logRecords": [entry]}]}]}


def in_protobuf(document: dict[str, Any]) -> bytes:
    return bytes(json_format.ParseDict(document, logs_pb2.LogsData()).SerializeToString())


def left_in(blotted: bytes) -> list[str]:
    return [one for one in HIDDEN if one in blotted.decode("latin-1")]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("value_first", [False, True])
def test_a_hidden_value_is_in_no_json(name: str, kind: str, value_first: bool) -> None:
    document = request(name, VALUES[kind], value_first=value_first)
    for indent in (None, 2):
        blotted = blot(json.dumps(document, indent=indent).encode(), Encoding.JSON, CLEANER)
        assert left_in(blotted) == []
        assert blotted.count(b"stays as it is") == 2
        json_format.ParseDict(json.loads(blotted), logs_pb2.LogsData())  # it can still be read


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", VALUES)
def test_a_hidden_value_is_in_no_protobuf(name: str, kind: str) -> None:
    content = in_protobuf(request(name, VALUES[kind]))
    assert left_in(content), "else this proves nothing"
    blotted = blot(content, Encoding.PROTOBUF, CLEANER)
    assert left_in(blotted) == []
    assert (len(blotted), blotted.count(b"stays as it is")) == (len(content), 2)
    logs_pb2.LogsData.FromString(blotted)  # it can still be read


def sized(tag: int, content: bytes) -> bytes:
    size = len(content)
    return bytes([tag << 3 | 2, *([size] if size < 128 else [size & 0x7F | 0x80, size >> 7])]) + content


@pytest.mark.parametrize("length", [1, 20])
def test_a_hidden_value_before_its_name_is_in_no_protobuf(length: int) -> None:
    pair = sized(2, sized(1, f"{WORD} ".encode() * length)) + sized(1, b"db.password")
    assert left_in(blot(sized(1, sized(6, pair)), Encoding.PROTOBUF, CLEANER)) == []


def test_names_written_otherwise_are_names() -> None:
    for written in (
        r'{"db.pass\u0077ord": ["%s"]}',
        'rubbish "db.password": {"a": "%s"',
        '[{"db.password": {"%s": 1}}]',
    ):
        assert left_in(blot((written % WORD).encode(), Encoding.JSON, CLEANER)) == []


@given(kind=st.sampled_from(sorted(VALUES)), value_first=st.booleans(), data=st.data())
def test_no_cut_brings_a_hidden_value_back(kind: str, value_first: bool, data: st.DataObject) -> None:
    document = request("db.password", VALUES[kind], value_first=value_first)
    for encoding, content in (
        (Encoding.JSON, json.dumps(document).encode()),
        (Encoding.PROTOBUF, in_protobuf(document)),
    ):
        cut = data.draw(st.integers(0, len(content)))
        assert left_in(blot(content[:cut], encoding, CLEANER)) == []


@pytest.mark.django_db
@pytest.mark.parametrize("encoding", list(Encoding))
def test_a_large_record_is_shown_without_half_a_secret(encoding: Encoding) -> None:
    refused = []
    for ahead in range(CONTENT_CHARS - 400, CONTENT_CHARS - 10, 13):
        text = "x" * ahead + f" {TOKEN} https://ann:{'hunter2' * 20}@example.org {TOKEN}" + " y" * PAYLOAD_BYTES
        document = request("plain", {"stringValue": text})
        content = json.dumps(document).encode() if encoding is Encoding.JSON else in_protobuf(document)
        refused.append(Refused(reason="too large", content=content, encoding=encoding))
    tokens = request("plain", {"stringValue": f"{TOKEN} " * 10_000})
    content = json.dumps(tokens).encode() if encoding is Encoding.JSON else in_protobuf(tokens)
    refused.append(Refused(reason="too large", content=content, encoding=encoding))
    set_aside([intake_of(refused, encoding)])
    shown = list(Quarantine.objects.values_list("content", flat=True))
    assert len(shown) == len(refused)
    assert [one for one in shown if "CUST-0" in one or "hunter" in one] == []
    assert all(len(one) > CONTENT_CHARS // 8 for one in shown)


def intake_of(refused: list[Refused], encoding: Encoding) -> Intake:
    return Intake(
        signal=Signal.LOGS,
        encoding=encoding,
        environment="dev",
        received_us=1_795_000_000_000_000,
        key_prefix="ro_1",
        refused=refused,
        cleaner=CLEANER,
    )

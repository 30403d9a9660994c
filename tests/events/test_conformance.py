"""OTLP over HTTP as its specification says it, by the numbers of the list in our papers, over a real socket.

O1 the paths · O2, O3 both encodings on one port, answered in kind · O4 none, gzip, deflate · O5 a bound before and
after inflating: 413 · O6, O7 success is an empty message, an empty request succeeds · O8, O9 partial success and
warnings · O10, O11 every error is a google.rpc.Status, 400 details a BadRequest · O12, O13 503 with Retry-After · O14
the same again is no duplicate · O15 the answer is bounded · O16 not gzipped unasked · O17 401, 403, 404, 405, 415
"""

from __future__ import annotations

import gzip
import http.client
import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from google.protobuf import json_format  # type: ignore[import-untyped]  # protobuf ships no types
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]  # ships no types
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from events import keys
from events.ingest import commits
from events.models import AgentKey, Fact, Quarantine
from tests.support.otlp import JSON, PROTOBUF, WHOLE_FAILURE, Door, protobuf, record, request
from tests.support.otlp_server import served
from tests.support.sentences import left_out

EXAMPLES = Path(__file__).parent.parent / "payloads" / "opentelemetry-proto"
LOGS, TRACES, METRICS = "/v1/logs", "/v1/traces", "/v1/metrics"
RESPONSES: dict[str, Any] = {
    LOGS: ExportLogsServiceResponse,
    TRACES: ExportTraceServiceResponse,
    METRICS: ExportMetricsServiceResponse,
}
both_encodings = pytest.mark.parametrize("encoding", [PROTOBUF, JSON])


class Answer(NamedTuple):
    """One answer; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def partial(self, path: str = LOGS) -> tuple[int, str]:
        """How many were rejected, and why."""
        if self.headers["content-type"] == JSON:
            [rejected, message] = (
                json.loads(self.body).get("partialSuccess") or {"": "0", "errorMessage": ""}
            ).values()
            return int(rejected), message
        given = RESPONSES[path].FromString(self.body).partial_success
        return next((value for field, value in given.ListFields() if field.number == 1), 0), given.error_message

    def told(self) -> status_pb2.Status:
        """The google.rpc.Status."""
        if self.headers["content-type"] == JSON:
            said = json.loads(self.body)
            return status_pb2.Status(code=said["code"], message=said["message"])
        return status_pb2.Status.FromString(self.body)


class Client:
    """A plain HTTP client: what it is told to send is what travels."""

    def __init__(self, url: str, token: str) -> None:
        self._address = url.removeprefix("http://")
        self.token = token

    def send(
        self, body: bytes | Iterable[bytes] = b"", *, path: str = LOGS, method: str = "POST", **headers: str | None
    ) -> Answer:
        given = {"authorization": f"Bearer {self.token}", "content_type": PROTOBUF, **headers}
        sent = {name.replace("_", "-"): value for name, value in given.items() if value is not None}
        connection = http.client.HTTPConnection(self._address, timeout=20)
        connection.request(method, path, body=body, headers=sent, encode_chunked=not isinstance(body, bytes))
        response = connection.getresponse()
        answer = Answer(
            response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        )
        connection.close()
        return answer


@pytest.fixture
def client(door: Door) -> Iterator[Client]:
    """A client of a real server, with a key."""
    with served() as url:
        yield Client(url, door.token)


def written(document: dict[str, Any], encoding: str) -> bytes:
    return protobuf(document) if encoding == PROTOBUF else json.dumps(document).encode()


@both_encodings
@pytest.mark.parametrize("path", [LOGS, TRACES, METRICS])
def test_o1_o2_o3_o6_o7_every_signal_takes_both_encodings_and_answers_in_kind(
    client: Client, path: str, encoding: str
) -> None:
    empty = b"" if encoding == PROTOBUF else b"{}"
    answer = client.send(empty, path=path, content_type=encoding)
    assert (answer.status, answer.headers["content-type"], answer.body) == (200, encoding, empty)


@both_encodings
def test_o2_o6_what_is_stored_is_answered_by_an_empty_message(client: Client, encoding: str) -> None:
    answer = client.send(
        written(request(record(given=WHOLE_FAILURE), record(given=WHOLE_FAILURE)), encoding), content_type=encoding
    )
    assert (answer.status, answer.body) == (200, b"" if encoding == PROTOBUF else b"{}")
    assert Fact.objects.count() == 2


@both_encodings
@pytest.mark.parametrize("coding", ["gzip", "deflate", "identity", None])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_o4_compressed_or_not_in_one_piece_or_in_many(
    client: Client, encoding: str, coding: str | None, is_chunked: bool
) -> None:
    body = written(request(*(record() for _ in range(20))), encoding)
    body = gzip.compress(body) if coding == "gzip" else zlib.compress(body) if coding == "deflate" else body
    pieces = [body[start : start + 100] for start in range(0, len(body), 100)]
    answer = client.send(iter(pieces) if is_chunked else body, content_type=encoding, content_encoding=coding)
    assert (answer.status, Fact.objects.count()) == (200, 20)


@both_encodings
@pytest.mark.parametrize("coding", [None, "gzip"])
def test_o5_a_body_over_the_bound_is_413(client: Client, encoding: str, coding: str | None, settings: Any) -> None:
    most: int = settings.OTLP_MAX_BODY_BYTES
    body = gzip.compress(bytes(most + 1), 1) if coding else b"\x00" * 2**16
    headers = {} if coding else {"content_length": str(most + 1)}
    answer = client.send(body, content_type=encoding, content_encoding=coding, **headers)
    assert (answer.status, answer.headers["content-type"], answer.told().code) == (413, encoding, 8)
    assert Fact.objects.count() == 0


@both_encodings
def test_o8_what_is_rejected_is_counted_and_the_rest_is_stored(client: Client, encoding: str) -> None:
    bad = record(given={f"k{number}": 1 for number in range(1100)})
    answer = client.send(written(request(record(), bad, record()), encoding), content_type=encoding)
    rejected, message = answer.partial()
    assert (answer.status, rejected) == (200, 1)
    assert "1101 attributes" in message
    assert (Fact.objects.count(), Quarantine.objects.count()) == (2, 1)


@both_encodings
def test_o9_a_warning_rejects_nothing(client: Client, encoding: str) -> None:
    odd = record(given={"recovery.failure.category": "blue"})
    debugging = record("", severityNumber=5)
    answer = client.send(written(request(odd, debugging), encoding), content_type=encoding)
    rejected, message = answer.partial()
    assert (answer.status, rejected, Fact.objects.count()) == (200, 0, 1)
    assert left_out(message, "recovery.failure.category", "1") == []


@both_encodings
@pytest.mark.parametrize("path", [LOGS, TRACES, METRICS])
def test_o10_o11_what_cannot_be_decoded_is_400_with_a_bad_request(client: Client, path: str, encoding: str) -> None:
    answer = client.send(b"\x0a\xff\xff\xff not a request", path=path, content_type=encoding)
    assert (answer.status, answer.headers["content-type"]) == (400, encoding)
    told = answer.told()
    assert (told.code, bool(told.message)) == (3, True)
    if encoding == JSON:
        [detail] = json.loads(answer.body)["details"]
        assert detail["@type"].endswith("google.rpc.BadRequest")
    else:
        bad = error_details_pb2.BadRequest()
        assert told.details[0].Unpack(bad)
        assert bad.field_violations
    assert Quarantine.objects.get().size_bytes > 0


@both_encodings
def test_o12_o13_what_may_pass_is_503_and_to_be_tried_again_in_a_second(
    client: Client, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = written(request(record()), encoding)
    with monkeypatch.context() as broken:
        broken.setattr(commits, "store_facts", lambda _: 1 // 0)
        answer = client.send(body, content_type=encoding)
    assert (answer.status, answer.headers["retry-after"], answer.told().code) == (503, "1", 14)
    assert client.send(body, content_type=encoding).status == 200
    assert Fact.objects.count() == 1


@both_encodings
def test_o14_the_same_request_again_is_no_duplicate(client: Client, encoding: str) -> None:
    unnamed = record(given={"log.record.uid": None})
    body = written(request(record(), unnamed), encoding)
    assert [client.send(body, content_type=encoding).status for _ in range(3)] == [200] * 3
    assert Fact.objects.count() == 2


@both_encodings
def test_o15_the_answer_is_small_whatever_went_wrong(client: Client, encoding: str) -> None:
    bad = [record(given={f"k{number}": one for number in range(1025 + one)}) for one in range(20)]
    answer = client.send(written(request(*bad), encoding), content_type=encoding)
    assert (answer.status, answer.partial()[0]) == (200, 20), answer.body
    assert len(answer.body) < 4096


def test_o16_an_answer_is_readable_by_whoever_accepts_gzip_or_not(client: Client) -> None:
    for accepted in ("gzip", None):
        answer = client.send(b"rubbish", accept_encoding=accepted)
        assert "content-encoding" not in answer.headers
        assert answer.told().code == 3


def points(count: int) -> dict[str, Any]:
    """Durations of calls, as the instrumentation of models measures them, and one metric without a point."""
    model = {"key": "gen_ai.request.model", "value": {"stringValue": "helios-large"}}
    point = {"count": "3", "sum": 1.5, "attributes": [model], "bucketCounts": ["3"], "timeUnixNano": "1"}
    durations = {"name": "gen_ai.client.operation.duration", "histogram": {"dataPoints": [point] * count}}
    return {"resourceMetrics": [{"scopeMetrics": [{"metrics": [durations, {"name": "empty"}]}]}]}


@both_encodings
def test_o4_o8_o14_o15_metrics_are_counted_answered_and_not_kept(client: Client, encoding: str) -> None:
    document = points(700)
    plain = json.dumps(document).encode()
    if encoding == PROTOBUF:
        plain = json_format.ParseDict(document, ExportMetricsServiceRequest()).SerializeToString()
    bodies = {None: plain, "gzip": gzip.compress(plain), "deflate": zlib.compress(plain)}
    for coding, body in bodies.items():
        for sent in (body, iter([body[:20], body[20:]]), body):
            answer = client.send(sent, path=METRICS, content_type=encoding, content_encoding=coding)
            rejected, message = answer.partial(METRICS)
            assert (answer.status, answer.headers["content-type"], rejected) == (200, encoding, 700)
            assert "/v1/traces" in message
            assert len(answer.body) < 4096
    assert (Fact.objects.count(), Quarantine.objects.count()) == (0, 0)


@both_encodings
def test_o5_o17_metrics_are_bounded_and_closed_like_the_rest(client: Client, encoding: str, settings: Any) -> None:
    bomb = gzip.compress(bytes(settings.OTLP_MAX_BODY_BYTES + 1), 1)
    answer = client.send(bomb, path=METRICS, content_type=encoding, content_encoding="gzip")
    assert (answer.status, answer.told().code) == (413, 8)
    for what in ("no key", "a wrong key", "another method", "another encoding"):
        status, code, options = OTHERS[what]
        answer = client.send(b"", **{"path": METRICS, "content_type": encoding, **options})
        assert (answer.status, answer.headers["content-type"], answer.told().code) == (status, encoding, code)


OTHERS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "no key": (401, 16, {"authorization": None}),
    "a wrong key": (401, 16, {"authorization": "Bearer ro_nobody"}),
    "another method": (405, 12, {"method": "PUT"}),
    "another address": (404, 5, {"path": "/v1/logs/"}),
    "another encoding": (415, 3, {"content_encoding": "zstd"}),
}


@both_encodings
@pytest.mark.parametrize("what", OTHERS)
def test_o10_o17_other_answers_follow_http(client: Client, what: str, encoding: str) -> None:
    status, code, options = OTHERS[what]
    answer = client.send(written(request(record()), encoding), **{"content_type": encoding, **options})
    assert (answer.status, answer.headers["content-type"], answer.told().code) == (status, encoding, code)


def test_o17_an_unknown_type_is_415_and_a_key_without_the_scope_403(client: Client) -> None:
    assert client.send(b"a=b", content_type="application/x-www-form-urlencoded").status == 415
    client.token = keys.create_key("reader", ["read"], "dev")[1]
    assert client.send(b"").status == 403


@both_encodings
def test_o17_a_revoked_key_is_401_and_keys_that_cannot_be_read_503(
    client: Client, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = written(request(record()), encoding)

    def away(_: str) -> None:
        raise keys.KeyStoreAway("the database is away")

    keys.forget_keys()
    with monkeypatch.context() as broken:
        broken.setattr(keys, "_read", away)
        answer = client.send(body, content_type=encoding)
    assert (answer.status, answer.headers["retry-after"], answer.told().code) == (503, "1", 14)
    assert client.send(body, content_type=encoding).status == 200
    keys.revoke_key(AgentKey.objects.get().prefix)
    answer = client.send(body, content_type=encoding)
    assert (answer.status, answer.told().code) == (401, 16)


@both_encodings
def test_no_cookie_and_no_origin_matters_to_programs(client: Client, encoding: str) -> None:
    body = written(request(record()), encoding)
    odd = {"cookie": "csrftoken=x; sessionid=y", "origin": "https://elsewhere.example", "referer": "https://elsewhere"}
    answer = client.send(body, content_type=encoding, **odd)
    assert (answer.status, "set-cookie" in answer.headers, Fact.objects.count()) == (200, False, 1)


def test_o5_the_bound_is_the_recommended_one(settings: Any) -> None:
    assert settings.OTLP_MAX_BODY_BYTES == 64 * 2**20


# -- the payloads that the project of OpenTelemetry publishes ----------------------------------------------------------


def example(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((EXAMPLES / f"{name}.json").read_text())
    return found


def stored(client: Client, document: dict[str, Any], encoding: str) -> Fact:
    assert client.send(written(document, encoding), content_type=encoding).body in (b"", b"{}")
    return Fact.objects.select_related("agent").get()


@both_encodings
def test_the_published_event_is_stored(client: Client, encoding: str) -> None:
    fact = stored(client, example("events"), encoding)
    assert (fact.event, fact.attributes["event.name"]) == ("log", "browser.page_view")
    assert fact.attributes["event.attribute"] == "some event attribute"
    assert (fact.agent.service, fact.severity, fact.stated_us) == ("my.service", 9, 1544712660300000)
    assert json.loads(fact.body)["title"] == "Free Online GUID Generator"


@both_encodings
def test_the_published_log_is_stored(client: Client, encoding: str) -> None:
    fact = stored(client, example("logs"), encoding)
    assert (fact.trace_id, fact.span_id) == ("5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174")
    assert (fact.body, fact.severity) == ("Example log record", 10)
    assert fact.attributes["int.attribute"] == 10
    assert fact.attributes["double.attribute"] == 637.704
    assert fact.attributes["boolean.attribute"] is True
    assert fact.attributes["array.attribute"] == ["many", "values"]
    assert fact.attributes["map.attribute"] == {"some.map.key": "some value"}


@pytest.mark.parametrize(("name", "path", "rejected"), [("trace", TRACES, 0), ("metrics", METRICS, 4)])
def test_the_published_trace_and_metrics_are_read_and_answered(
    client: Client, name: str, path: str, rejected: int
) -> None:
    answer = client.send(json.dumps(example(name)).encode(), path=path, content_type=JSON)
    assert (answer.status, answer.partial(path)[0]) == (200, rejected)
    assert ("kept" in answer.partial(path)[1]) == (path == METRICS)

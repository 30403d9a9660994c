"""Exporters of other versions and languages, and a Collector: nothing is lost while the server has its trouble."""

from __future__ import annotations

import asyncio
import gzip
import os
import re
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from events import keys
from events.ingest.commits import writer
from events.models import Agent, Fact, MinuteSum
from events.otlp import encodings, receiver
from events.otlp.bodies import Receive
from events.otlp.receiver import Scope, Send
from events.otlp.sent import Encoding
from tests.exporters import environments
from tests.support.otlp import JSON, PROTOBUF, protobuf, record
from tests.support.otlp_server import served
from tests.support.processes import clean_environment
from tests.support.services import Missing

COUNT = 700
"""More than one batch of 512."""
_NO_REGISTRY = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|ERR_SOCKET_TIMEOUT|dns error|tcp connect error"
    r"|connection refused|connection reset|network is unreachable|timed out"
)
"""What the installers say of a registry that does not answer; of whatever else they say something else."""

EMITTERS: dict[str, Callable[[], list[str]]] = {
    "Python, the newest": environments.python_of_ours,
    "Python 1.27": lambda: environments.python_with("1.27"),
    "Python 1.44": lambda: environments.python_with("1.44"),
    "JavaScript, JSON": lambda: environments.node_with("json"),
    "JavaScript, protobuf": lambda: environments.node_with("protobuf"),
}


RESET = "reset"
"""The trouble that is no answer at all; the other is 503."""
TROUBLES = [
    (what, trouble) for what in EMITTERS for trouble in ("503", RESET) if (what, trouble) != ("Python 1.27", RESET)
]
"""Python's 1.27 drops a batch whose connection is reset, without asking again: no server can help it."""
_BY_DEFAULT = {("Python, the newest", "503", 3), ("JavaScript, protobuf", RESET, 1)}
CASES = [
    pytest.param(*trouble, failures, marks=pytest.mark.default if (*trouble, failures) in _BY_DEFAULT else ())
    for trouble in TROUBLES
    for failures in (1, 3)
]


class Faltering:
    """The receiver, but the first requests are told to come again, or their connections are reset."""

    def __init__(self, failures: int, trouble: str = "503") -> None:
        self._failures, self._is_reset = failures, trouble == RESET
        self.failed = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.failed >= self._failures:
            await receiver.app(scope, receive, send)
            return
        self.failed += 1
        if self._is_reset:
            _reset(send)
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        body = encodings.status(Encoding.JSON, 503, "not now")
        headers = [(b"content-type", JSON.encode()), (b"retry-after", b"1")]
        await send({"type": "http.response.start", "status": 503, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _reset(send: Send) -> None:
    """Have the client's system say ECONNRESET: the connection is closed without lingering. By uvicorn's own object."""
    transport = send.__self__.transport  # type: ignore[attr-defined]
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


@pytest.fixture
def token(transactional_db: None) -> Iterator[str]:
    """A key of an empty store."""
    keys.forget_keys()
    yield keys.create_key("exporters", ["ingest"], "dev")[1]
    writer.close(timeout_s=10)
    keys.forget_keys()


def command_of(what: str) -> list[str]:
    try:
        return EMITTERS[what]()
    except Missing as missing:
        if os.environ.get("CI") == "true" and not _NO_REGISTRY.search(str(missing)):
            pytest.fail(f"not on this machine: {missing}", pytrace=False)
        pytest.skip(f"not on this machine: {missing}")


@pytest.mark.parametrize(
    ("why", "is_skipped"),
    [
        ("npm error code ENOTFOUND\nnpm error network request failed", True),
        ("error sending request: dns error: failed to lookup address information", True),
        ("npm error code EINTEGRITY\nnpm error network sha512 is not what the lock says", False),
        ("No solution found: the connection package has no such version", False),
    ],
)
def test_in_ci_only_a_registry_that_does_not_answer_is_an_excuse(
    why: str, is_skipped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> list[str]:
        raise Missing("OpenTelemetry's exporter", f"its packages cannot be had: {why}")

    monkeypatch.setenv("CI", "true")
    monkeypatch.setitem(EMITTERS, "one", missing)
    with pytest.raises(pytest.skip.Exception if is_skipped else pytest.fail.Exception):
        command_of("one")


def test_in_ci_a_machine_without_node_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(pytest.fail.Exception, match=r"Node\.js"):
        command_of("JavaScript, JSON")


@pytest.mark.parametrize(("what", "trouble", "failures"), CASES)
def test_a_stock_exporter_loses_nothing_while_the_server_falters(
    what: str, trouble: str, failures: int, token: str
) -> None:
    program, script, *options = command_of(what)
    app = Faltering(failures, trouble)
    with served(app) as url:
        result = subprocess.run(
            [program, script, url, token, str(COUNT), *options],
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=180,
        )
    assert result.returncode == 0, result.stderr
    assert app.failed == failures
    facts = Fact.objects.filter(event="failure_classified", category="overloaded", operation="search")
    assert sorted(fact.attributes["number"] for fact in facts) == list(range(COUNT))
    assert sum(MinuteSum.objects.values_list("overloaded", flat=True)) == COUNT
    assert Agent.objects.get().service == "stock"


# -- a Collector -------------------------------------------------------------------------------------------------------


def collected(start: int, count: int, pods: int = 16) -> bytes:
    """What a Collector's batch processor makes of many senders: one request, a part for each pod."""
    whole = ExportLogsServiceRequest()
    for pod in range(pods):
        resource = {"service.name": f"agent-{pod % 4}", "k8s.pod.name": f"agent-{pod}", "k8s.namespace.name": "prod"}
        numbers = range(start + pod, start + count, pods)
        said = {"recovery.operation.name": f"tool-{pod % 8}", "recovery.failure.category": "timeout"}
        records = [record(ago_s=number % 50, given=said) for number in numbers]
        part = {"resource": {"attributes": attributes_of(resource)}, "scopeLogs": [{"logRecords": records}]}
        whole.MergeFromString(protobuf({"resourceLogs": [part]}))
    return bytes(whole.SerializeToString())


def attributes_of(given: dict[str, str]) -> list[dict[str, object]]:
    return [{"key": name, "value": {"stringValue": value}} for name, value in given.items()]


async def sent_like_a_collector(url: str, token: str, bodies: list[bytes]) -> list[int]:
    """Its queue: four consumers, each batch again and again until it is accepted."""
    headers = {"authorization": f"Bearer {token}", "content-type": PROTOBUF, "content-encoding": "gzip"}
    limits = httpx.Limits(max_connections=4)
    async with httpx.AsyncClient(timeout=30, limits=limits) as client:

        async def deliver(body: bytes) -> int:
            while True:
                answer = await client.post(f"{url}/v1/logs", content=gzip.compress(body, 1), headers=headers)
                if answer.status_code != 503:
                    return answer.status_code

        return list(await asyncio.gather(*(deliver(body) for body in bodies)))


def test_a_collector_that_batches_8192_records_loses_and_doubles_nothing(token: str) -> None:
    bodies = [collected(start, 8192) for start in range(0, 3 * 8192, 8192)]
    app = Faltering(3)
    with served(app) as url:
        assert asyncio.run(sent_like_a_collector(url, token, [*bodies, bodies[0]])) == [200] * 4
    assert Fact.objects.count() == 3 * 8192
    assert Agent.objects.count() == 16
    assert sum(MinuteSum.objects.values_list("failures", flat=True)) == 3 * 8192
    assert set(Fact.objects.values_list("operation", flat=True)) == {f"tool-{number}" for number in range(8)}

"""The nginx server of docs/production before two of its web units: what comes through it, and what does not."""

from __future__ import annotations

import gzip
import json
import os
import re
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from opentelemetry._opamp.proto import opamp_pb2
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from recovery_ops.drill.story import Story, body_of
from tests.flows.production import HOST, WEBS, Machine, in_front
from tests.support.agents import PostgresStore, manage_each

PROTOBUF = {"Content-Type": "application/x-protobuf"}
SET_UP = (
    "collectstatic --noinput",
    "key create --name agents --scope ingest,desired",
    "key create --name desk --scope read,act",
    "key create --name wall --scope wall",
    "account create olga --role operator --generate",
)


@dataclass(frozen=True)
class Site:
    """What is before the proxy, what is behind it, and who may what."""

    client: httpx.Client
    machine: Machine
    store: PostgresStore
    agents: dict[str, str]
    desk: dict[str, str]
    wall: str
    password: str


@pytest.fixture
def site(migrated_postgres_url: str, redis_url: str, nginx: str, tmp_path: Path) -> Iterator[Site]:
    given = {"RECOVERY_OPS_DATABASE_URL": migrated_postgres_url, "RECOVERY_OPS_BROKER_URL": redis_url}
    with Machine(tmp_path, given) as machine:
        machine.current.symlink_to(Path(__file__).parents[2])
        _, agents, desk, wall, password = manage_each(tmp_path / "data", *SET_UP, env=machine.env)
        for web in WEBS:
            machine.restart(web)
        machine.wait_for_webs()
        with in_front(machine, nginx) as client:
            store = PostgresStore(migrated_postgres_url)
            yield Site(client, machine, store, bearer(agents), bearer(desk), wall, password)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def test_the_console_comes_through_its_proxy(site: Site) -> None:
    pages_come_by_tls_and_for_this_host_alone(site)
    plain_http_leads_browsers_to_tls_and_programs_nowhere(site)
    an_address_is_the_proxys_word_alone(site)
    large_requests_are_stored_and_larger_ones_refused(site)
    a_stream_is_read_as_it_comes(site)
    an_opamp_client_is_offered_the_document(site)
    a_wallboard_link_opens_the_wallboard(site)
    one_web_process_less_is_noticed_by_nobody(site)


def pages_come_by_tls_and_for_this_host_alone(site: Site) -> None:
    context = ssl.create_default_context(cafile=str(site.machine.folder / f"{HOST}.pem"))
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("127.0.0.1", int(f"{site.machine.prefix}43"))) as bare,
        context.wrap_socket(bare, server_hostname=HOST) as wrapped,
    ):
        assert wrapped.selected_alpn_protocol() == "h2"
    door = site.client.get("/")
    assert (door.status_code, door.headers["location"]) == (302, "/sign-in?next=/")
    page = site.client.get("/sign-in")
    assert page.headers["strict-transport-security"].startswith("max-age=")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    [style, *_] = re.findall(r'href="(/static/[^"]+\.css)"', page.text)
    assert site.client.get(style).headers["content-type"].startswith("text/css")
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
    assert token
    form = {"username": "olga", "password": site.password, "csrfmiddlewaretoken": token[1]}
    cookies = {"Cookie": f"__Host-recovery-csrf={page.cookies['__Host-recovery-csrf']}"}
    entered = site.client.post("/sign-in", data=form, headers={"Origin": f"https://{HOST}"} | cookies)
    assert (entered.status_code, entered.headers["location"]) == (302, "/")
    session = entered.cookies["__Host-recovery-session"]
    shown = site.client.get("/", headers={"Cookie": f"__Host-recovery-session={session}"})
    assert (shown.status_code, "olga" in shown.text) == (200, True)


def plain_http_leads_browsers_to_tls_and_programs_nowhere(site: Site) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{site.machine.prefix}80", headers={"Host": HOST}) as plain:
        led = plain.get("/breakers?range=6h")
        assert (led.status_code, led.headers["location"]) == (301, f"https://{HOST}/breakers?range=6h")
        elsewhere = plain.get("/", headers={"Host": "evil.example"})
        assert elsewhere.headers["location"] == f"https://{HOST}/"
        for path in ("/v1/logs", "/api/v1/breakers", "/metrics", "/v1/opamp", "/api"):
            told = plain.post(path, headers=site.agents)
            assert (told.status_code, "location" in told.headers) == (403, False), path
            assert "TLS" in told.json()["message"]


def an_address_is_the_proxys_word_alone(site: Site) -> None:
    """Who says where they come from, or by what, is not believed: the audit log has the address that nginx saw."""
    lies = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "http", "X_Forwarded_For": "203.0.113.9"}
    trip(site, "search_web", **lies)
    assert site.store.count("SELECT count(*) FROM control_auditentry WHERE ip = '127.0.0.1'") > 0
    assert site.store.count("SELECT count(*) FROM control_auditentry WHERE ip LIKE '203%'") == 0


def large_requests_are_stored_and_larger_ones_refused(site: Site) -> None:
    story = Story(1)
    records: list[LogRecord] = [record for _, record in story.batch(1_000)]
    body = gzip.decompress(body_of(records, "i-1"))
    # A field that nobody knows is read past: so a request can be as large as is allowed, and hold what it holds.
    filler = b"\xfa\x3e" + _varint(50 << 20) + os.urandom(50 << 20)
    stored = site.client.post("/v1/logs", content=body + filler, headers=site.agents | PROTOBUF, timeout=60)
    assert (stored.status_code, stored.headers["content-type"]) == (200, "application/x-protobuf")
    assert site.store.count("SELECT count(*) FROM events_fact") == len(records)
    refused = site.client.post("/v1/logs", content=bytes(65 << 20), headers=site.agents | PROTOBUF, timeout=60)
    assert refused.status_code == 413


def a_stream_is_read_as_it_comes(site: Site) -> None:
    """What is said now arrives while the answer goes on; a proxy that collected it would wait for its end."""
    url = "/api/v1/desired/stream?service=research&instance=r-1"
    with site.client.stream("GET", url, headers=site.agents, timeout=20) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        before = _next_document(lines)
        trip(site, "read_archive")
        assert _next_document(lines)["revision"] > before["revision"]


def an_opamp_client_is_offered_the_document(site: Site) -> None:
    said = opamp_pb2.AgentToServer(instance_uid=uuid4().bytes, capabilities=0x1 | 0x2 | 0x4 | 0x1000)
    for key, value in (("service.name", "research"), ("service.instance.id", "r-9")):
        said.agent_description.identifying_attributes.add(key=key).value.string_value = value
    told = site.client.post("/v1/opamp", content=said.SerializeToString(), headers=site.agents | PROTOBUF)
    assert told.status_code == 200, told.text
    offered = opamp_pb2.ServerToAgent.FromString(told.content)
    assert "desired.json" in offered.remote_config.config.config_map


def a_wallboard_link_opens_the_wallboard(site: Site) -> None:
    link = site.client.get(f"/wall/{site.wall}")
    assert (link.status_code, link.headers["location"]) == (303, "/wall")
    [(name, value)] = link.cookies.items()
    assert site.client.get("/wall", headers={"Cookie": f"{name}={value}"}).status_code == 200


def one_web_process_less_is_noticed_by_nobody(site: Site) -> None:
    site.machine.processes[WEBS[0]].end()
    answered = [site.client.get("/api/v1/breakers", headers=site.desk).status_code for _ in range(6)]
    assert answered == [200] * 6


def trip(site: Site, breaker: str, **headers: str) -> None:
    body = {"reason": "It is tripped behind a proxy.", "ahead": True, "expires_in_s": 60.0}
    done = site.client.post(f"/api/v1/breakers/{breaker}/trip", json=body, headers=site.desk | headers)
    assert done.status_code == 200, done.text


def _next_document(lines: Iterator[str]) -> dict[str, int]:
    for line in lines:
        assert "heartbeat" not in line, "what is new comes within a second, and this is said after many of silence"
        if line.startswith("data:") and '"revision"' in line:
            found: dict[str, int] = json.loads(line.removeprefix("data:"))
            return found
    pytest.fail("the stream ended")


def _varint(number: int) -> bytes:
    said = bytearray()
    while number > 0x7F:
        said.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*said, number])

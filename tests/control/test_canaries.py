"""Secrets in every text that an agent can send, sent as they are: they appear nowhere.

Not in the database, on no page and in no export or figure that a page links, in no answer of the API, in no log. The
agent masks what it sends; here nothing was masked before it came, as from an agent that is not ours.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import logging
import random
from base64 import b64encode
from collections.abc import Iterator, Mapping
from html import unescape
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from django.db import connection
from django.test import Client
from google.protobuf import json_format  # type: ignore[import-untyped]
from opentelemetry._opamp.proto import opamp_pb2

from events import keys
from events.capacity.detection import look
from events.ingest.cardinality import known_names
from events.ingest.commits import writer
from events.ingest.reporters import reporters
from events.models import Fact as Stored
from events.models import Quarantine
from recovery_ops.control.desired_state.opamp.models import OpampAgent
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.notifications.models.notifications import Notification
from recovery_ops.control.notifications.rules import tell
from recovery_ops.control.notifications.services.settings import save_channel, save_rule
from recovery_ops.rules import events as facts
from recovery_ops.rules.classification.redaction import MASK
from recovery_ops.rules.roles import Role
from tests.support import walks
from tests.support.actions import asked, person
from tests.support.masking import SECRETS
from tests.support.otlp import Door, attributes, record, request
from tests.support.pages import PAGES, signed_in
from tests.support.stories import NOW, Story

CANARIES = {secret: text for secret, text in SECRETS.items() if "canary" in secret.lower()}
EACH = 3
"""Addresses of one route that are opened; a route is one view, whatever object it is asked about."""


pytestmark = [pytest.mark.usefixtures("now")]


class Dealer:
    """Deals the texts with secrets, another one each time."""

    def __init__(self, seed: int) -> None:
        self._texts = list(CANARIES.values())
        random.Random(seed).shuffle(self._texts)
        self._dealt = 0

    def text(self) -> str:
        self._dealt += 1
        return self._texts[self._dealt % len(self._texts)]

    def value(self, wanted: Any) -> Any:
        """Something of this type, with a secret wherever a text may stand."""
        origin, parts = get_origin(wanted), get_args(wanted)
        if origin in (Union, UnionType):
            return self.value(next(one for one in parts if one is not type(None)))
        if wanted in (str, Any, object):
            return self.text()
        if inspect.isclass(wanted) and issubclass(wanted, enum.Enum):
            return next(iter(wanted))
        if wanted in (dict, Mapping) or origin in (dict, Mapping):
            return {self.text(): self.text()}
        if origin in (tuple, list, frozenset):
            return origin([self.value(parts[0])])
        return {bool: False, int: 1, float: 1.0}.get(wanted)

    def fact(self, kind: type[facts.Event]) -> facts.Event:
        """A fact of this kind whose texts are all secrets."""
        hints = get_type_hints(kind)
        given = {one.name: self.value(hints[one.name]) for one in dataclasses.fields(kind) if one.init}
        return kind(**{name: value for name, value in given.items() if value is not None})


KINDS = [
    one
    for _, one in sorted(inspect.getmembers(facts, inspect.isclass))
    if issubclass(one, facts.Event) and one is not facts.Event
]


def test_every_kind_of_fact_is_among_them() -> None:
    assert len(KINDS) > 25
    assert {facts.Escalated, facts.FailureClassified, facts.RunStarted} <= set(KINDS)


@pytest.fixture
def door(transactional_db: None) -> Iterator[Door]:
    """The way in for facts, with a key of `dev`; the writer's thread sees this store."""
    for remembered in (keys.forget_keys, reporters.forget, known_names.forget):
        remembered()
    yield Door(keys.create_key("tests", ["ingest"], "dev")[1])
    writer.close(timeout_s=10)
    keys.forget_keys()


def say_everything(dealer: Dealer, door: Door) -> None:
    """Every kind of fact, names of everything, traces, logs of others, and what cannot be read."""
    story = Story()
    for number, kind in enumerate(KINDS):
        story.tell(dealer.fact(kind), at=300 - number, instance="r-0", run="run-1")
        story.tell(dealer.fact(kind), at=200 - number, instance=dealer.text(), run=dealer.text())
    story.store()
    named = {key: dealer.text() for key in ("service.name", "service.instance.id", "service.version", "host.name")}
    named |= {"recovery.group": dealer.text(), "deployment.environment.name": dealer.text(), dealer.text(): "1"}
    loose: dict[str, Any] = {dealer.text(): 1, "b": {"c": [dealer.text()]}, "exception.message": dealer.text()}
    loose |= {
        "exception.stacktrace": dealer.text(),
        "exception.type": dealer.text(),
        "gen_ai.request.model": dealer.text(),
    }
    ours = record(given={**loose, "log.record.uid": dealer.text()}, body={"stringValue": dealer.text()})
    theirs = record(dealer.text(), given=loose, severityNumber=17)
    spoilt = record(given=loose | {f"k{number}": dealer.text() for number in range(1100)})
    assert door.post(json=request(ours, theirs, spoilt, resource=named)).status_code == 200
    assert (
        door.post(f"rubbish {dealer.text()}".encode(), headers={"content-type": "application/json"}).status_code == 400
    )
    span = {
        "traceId": "ab" * 16,
        "spanId": "cd" * 8,
        "name": dealer.text(),
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
        "status": {"code": 2, "message": dealer.text()},
        "attributes": attributes(loose | {"gen_ai.operation.name": "chat", "gen_ai.provider.name": dealer.text()}),
        "events": [{"name": "exception", "timeUnixNano": "2", "attributes": attributes(loose)}],
    }
    traces = {"resourceSpans": [{"resource": {"attributes": attributes(named)}, "scopeSpans": [{"spans": [span]}]}]}
    assert door.post(json=traces, path="/v1/traces").status_code == 200


def speak_as_others(dealer: Dealer) -> None:
    """An OpAMP client that names itself, its health, its configuration and why it refused ours; and who asks for it."""
    client, secret = Client(), keys.create_key("others", ["desired"], "dev")[1]
    head = {"Authorization": f"Bearer {secret}"}

    def described() -> dict[str, Any]:
        named = {key: dealer.text() for key in ("service.name", "service.instance.id", "service.version")}
        named |= {"recovery.group": dealer.text(), dealer.text(): dealer.text()}
        told = [{"key": key, "value": {"stringValue": value}} for key, value in named.items()]
        return {"identifyingAttributes": told, "nonIdentifyingAttributes": told}

    def status(config_hash: bytes) -> dict[str, Any]:
        failed = opamp_pb2.RemoteConfigStatuses_FAILED
        return {
            "lastRemoteConfigHash": b64encode(config_hash).decode(),
            "status": failed,
            "errorMessage": dealer.text(),
        }

    for number, config_hash in enumerate([dealer.text().encode(), f"1.{'ab' * 32}".encode()] * 4):
        file = {"body": b64encode(dealer.text().encode()).decode(), "contentType": dealer.text()}
        message = {
            "instanceUid": b64encode(bytes([number]) * 16).decode(),
            "capabilities": 0x2,
            "agentDescription": described(),
            "health": {"healthy": False, "status": dealer.text(), "lastError": dealer.text()},
            "effectiveConfig": {"configMap": {"configMap": {dealer.text(): file}}},
            "remoteConfigStatus": status(config_hash),
        }
        body = json_format.ParseDict(message, opamp_pb2.AgentToServer()).SerializeToString()
        answer = client.post("/v1/opamp", body, "application/x-protobuf", headers=head)
        assert answer.status_code == 200
        assert b"desired.json" in answer.content
        who = {part: dealer.text() for part in ("service", "instance", "group", "version", "schema_version")}
        asked_for = client.get("/api/v1/desired", {**who, dealer.text(): "1"}, headers=head)
        assert asked_for.status_code in (200, 400)
        assert leaked(answer.content.decode(errors="replace") + asked_for.content.decode()) == []
    assert OpampAgent.objects.filter(service__contains=MASK).exists()
    assert OpampAgent.objects.filter(reported_text__contains=MASK).exists()


def do_what_follows() -> None:
    """What is made of facts: outages, questions, messages to people."""
    admin = person(Role.ADMIN, "eva")
    address = "https://hooks.example.org/x"
    channel = save_channel(**asked(by=admin, kind="slack", address=address, name="night")).object
    triggers = ["escalation", "first_seen", "breaker_moved", "degraded", "capacity"]
    save_rule(**asked(by=admin, channel=channel.pk, words={"triggers": triggers, "group_s": 0}, name="all"))
    look("dev", NOW)
    open_escalations("dev", NOW)
    tell("dev", NOW)


def shown(client: Client) -> Iterator[tuple[str, str]]:
    """Every page, and what pages link, up to `EACH` of a route and of each of its files: address and content."""
    begin = ["/timelines?view=table", *PAGES.values(), *walks.of_api(), *walks.of_pages()]
    for address, answer, _ in walks.opened(client, begin, each=EACH):
        content = b"".join(answer.streaming_content) if answer.streaming else answer.content
        yield address, content.decode(errors="replace") + str(answer.headers)


def leaked(text: str) -> list[str]:
    """The secrets that stand in a text, as they are or as a page writes them."""
    plain = unescape(text)
    return [secret for secret in CANARIES if secret in plain or secret in text]


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full)])
def test_a_secret_that_an_agent_sends_appears_nowhere(
    seed: int,
    door: Door,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    say_everything(Dealer(seed), door)
    speak_as_others(Dealer(seed))
    do_what_follows()
    assert Stored.objects.values("event").distinct().count() >= len(KINDS)
    assert all(one.objects.exists() for one in (Quarantine, Escalation, Notification))
    found = {}
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            found[table] = leaked(str(cursor.fetchall()))
    masks = 0
    pages = 0
    files = set()
    for address, content in shown(signed_in(Role.ADMIN)):
        found[address] = leaked(content)
        masks, pages = masks + (MASK in content), pages + 1
        if (written := walks.file_of(address)) and "attachment" in content:
            files.add(written)
    admin = signed_in(Role.ADMIN)
    for line in Quarantine.objects.all():
        found[f"record {line.pk}"] = leaked(
            admin.post("/agents/intake", {"act": "show", "line": line.pk}).content.decode()
        )
    found["facts"] = leaked(admin.post("/runs/run-1?tab=attributes").content.decode())
    found["logs"] = leaked(caplog.text + "".join(capfd.readouterr()))
    assert {place: secrets for place, secrets in found.items() if secrets} == {}
    assert masks > 20, "texts that are shown nowhere prove nothing"
    assert pages > len(PAGES)
    assert files >= {*walks.FORMATS, "csv 0", "csv 1", "json 0"}, files

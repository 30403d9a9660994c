"""Standard OpAMP clients take the desired state, and are shown like agents of ours: with the stock Python client."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from django.db import OperationalError
from django.db.models import F
from django.utils.html import escape
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry._opamp.agent import OpAMPAgent
from opentelemetry._opamp.callbacks import MessageData, OpAMPCallbacks
from opentelemetry._opamp.client import OpAMPClient
from opentelemetry._opamp.proto import opamp_pb2
from opentelemetry._opamp.transport.base import HttpTransport
from opentelemetry._opamp.transport.requests import RequestsTransport

from events import keys
from events.models import Agent, Fact, SettingsInForce
from recovery_ops.asgi import application
from recovery_ops.control.agents.effective_settings import UNCOMPARED, InForce, Why
from recovery_ops.control.desired_state import document as desired
from recovery_ops.control.desired_state import status as standing
from recovery_ops.control.desired_state.document import read
from recovery_ops.control.desired_state.opamp import messages
from recovery_ops.control.desired_state.opamp.agents import BEAT_S
from recovery_ops.control.desired_state.opamp.models import OpampAgent
from recovery_ops.control.policies.services import proposals
from recovery_ops.control.policies.services import rollouts as rollouts_services
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, trip
from tests.support.engines import store
from tests.support.html import Shown
from tests.support.otlp_server import served
from tests.support.pages import signed_in, text_of
from tests.support.processes import eventually

__all__ = ["store"]  # the fixture

WHO = {"service.name": "research", "service.instance.id": "r-9", "service.version": "2.1"}
SETTINGS = "/agents/settings?service=research&instance=r-9"
APPLIED, FAILED = opamp_pb2.RemoteConfigStatuses_APPLIED, opamp_pb2.RemoteConfigStatuses_FAILED


@pytest.fixture
def key(store: None) -> str:
    standing._known.clear()
    return keys.create_key("opamp", ["desired"], "dev")[1]


@pytest.fixture
def url(key: str) -> Iterator[str]:
    with served(application) as found:
        yield found


@dataclass
class Moving(HttpTransport):
    """Sends to where the server is now, for one that was restarted on another port."""

    url: str
    inner: HttpTransport = field(default_factory=RequestsTransport)

    def send(self, **rest: Any) -> Any:
        return self.inner.send(**rest | {"url": f"{self.url}/v1/opamp"})


class Stock:
    """The stock client, spoken to message by message."""

    def __init__(self, url: str, key: str, who: dict[str, str] = WHO) -> None:
        self.transport = Moving(url)
        headers = {"Authorization": f"Bearer {key}"}
        self.client = OpAMPClient(
            endpoint=f"{url}/v1/opamp",
            headers=headers,
            transport=self.transport,
            timeout_millis=10_000,
            agent_identifying_attributes=who,
            agent_non_identifying_attributes={"recovery.group": "canary"},
        )

    def runs(self, document: Any, name: str = "desired.json") -> Any:
        self.client.update_effective_config({name: document}, "application/json")
        return self.connect()

    def connect(self) -> Any:
        return self.client.send(self.client.build_full_state_message())

    def beat(self) -> Any:
        return self.client.send(self.client.build_heartbeat_message())

    def say(self, config_hash: bytes, status: Any, text: str = "") -> Any:
        told = self.client.update_remote_config_status(config_hash, status, text)
        assert told is not None
        return self.client.send(self.client.build_remote_config_status_response_message(told))


def offered(answer: Any) -> dict[str, Any]:
    """The one document of an answer, read as the client reads it."""
    assert answer.HasField("remote_config")
    ((name, document),) = OpAMPClient.decode_remote_config(answer.remote_config)
    assert name == "desired.json"
    return dict(document)


def test_the_document_is_offered_applied_and_not_offered_again(url: str, key: str) -> None:
    trip(ahead=True)
    stock = Stock(url, key)
    first = stock.connect()
    document = offered(first)
    fresh = desired.document(
        "dev", service="research", instance="r-9", group="canary", now=OpampAgent.objects.get().seen_at
    )
    assert document | {"issued_at": 0} == fresh | {"issued_at": 0}
    assert (first.capabilities, first.flags) == (7, 0)
    assert offered(stock.beat())["revision"] == 1  # nothing was said of it yet
    for answer in (stock.say(first.remote_config.config_hash, APPLIED), stock.beat(), stock.connect()):
        assert not answer.HasField("remote_config")
        assert answer.instance_uid
    page = signed_in().get("/agents").content.decode()
    assert "r-9" in page
    assert ">applied<" in page
    agent = Agent.objects.get(instance="r-9")
    assert (agent.service, agent.version, agent.group, agent.revision) == ("research", "2.1", "canary", 1)
    assert agent.config_hash == document["config_hash"]


def test_heartbeat_is_stored_every_ten_seconds(url: str, key: str) -> None:
    stock, beats = Stock(url, key), Fact.objects.filter(event="instance_heartbeat")
    stock.connect()
    for count in (1, 2):
        for _ in range(2):
            stock.beat()
            assert beats.count() == count
        OpampAgent.objects.update(beat_at=F("beat_at") - timedelta(seconds=BEAT_S))


def test_an_edit_is_offered_and_a_failure_is_told_with_its_text(url: str, key: str) -> None:
    stock = Stock(url, key)
    stock.say(stock.connect().remote_config.config_hash, APPLIED)
    trip(ahead=True)
    second = stock.beat()
    assert offered(second)["revision"] == 1
    text = "the breaker <search_web> is not mine"
    assert not stock.say(second.remote_config.config_hash, FAILED, text).HasField("remote_config")
    assert not stock.beat().HasField("remote_config")  # it was refused: the same again would be refused again
    page = signed_in().get("/agents").content.decode()
    assert f"failed: {escape(text)}" in page
    assert Agent.objects.get(instance="r-9").rejected_reason == text
    trip(reason="another reason than before", ahead=True)
    third = stock.beat()
    assert offered(third)["revision"] == 2
    stock.say(third.remote_config.config_hash, APPLIED)
    assert ">applied<" in signed_in().get("/agents").content.decode()


def test_failed_document_is_not_offered_again(url: str, key: str) -> None:
    stock = Stock(url, key)
    first = stock.connect().remote_config.config_hash
    stock.say(first, APPLIED)
    trip(ahead=True)
    second = stock.beat().remote_config.config_hash
    assert not stock.say(second, FAILED, "not mine").HasField("remote_config")
    back = stock.say(first, APPLIED)
    assert not back.HasField("remote_config"), "it went back to what it had, and would fail again"
    assert not stock.beat().HasField("remote_config")
    trip(reason="another reason than before", ahead=True)
    third = stock.beat()
    assert offered(third)["revision"] == 2
    stock.say(third.remote_config.config_hash, APPLIED)
    assert [len(one.failed_hashes) for one in OpampAgent.objects.all()] == [1]


def test_failed_document_is_offered_again_when_somebody_says_so(url: str, key: str) -> None:
    stock = Stock(url, key)
    stock.say(stock.connect().remote_config.config_hash, APPLIED)
    agent = Agent.objects.get()
    operator, page = signed_in(Role.OPERATOR), f"/agents/settings?service={agent.service}&instance={agent.instance}"
    offer, form = "/agents/act/offer", {"agent": agent.pk, "reason": "The client was mended.", "key": "k"}
    address = f"{offer}?agent={agent.pk}&back={quote(page, safe='')}"
    assert address not in Shown(operator.get(page)).links
    assert operator.post(offer, form).status_code == 422, "it rejected nothing"
    trip(ahead=True)
    rejected = stock.beat().remote_config.config_hash
    assert not stock.say(rejected, FAILED, "not mine").HasField("remote_config")
    assert address in Shown(operator.get(page)).links
    assert signed_in(Role.RESPONDER, "rita").post(offer, form).status_code == 403
    assert operator.post(offer, form | {"key": "k-2"}).status_code == 303
    assert stock.beat().remote_config.config_hash == rejected
    stock.say(rejected, APPLIED)
    assert not stock.beat().HasField("remote_config")


def test_why_a_client_refused_stands_on_its_own_page_and_on_that_of_the_rollout(url: str, key: str) -> None:
    stock = Stock(url, key)
    stock.say(stock.connect().remote_config.config_hash, APPLIED)
    document = {"defaults": {"operation": {"max_retries": 5}}}
    number = proposals.propose(**asked(title="more patience", document=document, now=None)).object.number
    rollout = rollouts_services.start_rollout(**asked(number=number, share=1.0, for_s=600, now=None)).object
    offer = stock.beat()
    assert offered(offer)["policy"]["version"] == rollout.version
    stock.say(offer.remote_config.config_hash, FAILED, "five retries are <too> many for me")
    told = "five retries are &lt;too&gt; many for me"
    for page in (f"/policies/rollouts/{rollout.number}", "/agents/settings?service=research&instance=r-9", "/agents"):
        assert told in signed_in().get(page).content.decode(), page


def test_a_restart_of_the_server_changes_nothing(key: str) -> None:
    with served(application) as url:
        stock = Stock(url, key)
        stock.say(stock.connect().remote_config.config_hash, APPLIED)
    standing._known.clear()
    with served(application) as stock.transport.url:
        answer = stock.beat()
        assert (answer.flags, answer.HasField("remote_config")) == (0, False)
        trip(ahead=True)
        assert offered(stock.beat())["revision"] == 1


def test_who_is_not_known_or_has_skipped_a_message_is_asked_for_everything(url: str, key: str) -> None:
    stock = Stock(url, key)
    assert stock.beat().flags == messages.REPORT_FULL_STATE
    assert not Agent.objects.exists()
    assert stock.connect().flags == 0
    lost = stock.client.build_heartbeat_message()
    stock.client._sequence_num += 1
    assert stock.beat().flags == messages.REPORT_FULL_STATE
    assert stock.connect().flags == 0
    assert stock.client.send(lost).flags == messages.REPORT_FULL_STATE  # late, and answered all the same


def test_client_that_asks_for_an_instance_uid_gets_one(url: str, key: str) -> None:
    stock = Stock(url, key)
    asking = opamp_pb2.AgentToServer.FromString(stock.client.build_full_state_message())
    asking.flags = opamp_pb2.AgentToServerFlags_RequestInstanceUid
    answer = stock.client.send(asking.SerializeToString())
    own, given = asking.instance_uid, answer.agent_identification.new_instance_uid
    assert (answer.instance_uid, len(given)) == (own, messages.UID_BYTES)
    assert given != own
    assert offered(answer)
    assert list(OpampAgent.objects.values_list("uid", "instance")) == [(given.hex(), "r-9")]
    going_on = opamp_pb2.AgentToServer.FromString(stock.client.build_heartbeat_message())
    going_on.instance_uid = given
    answer = stock.client.send(going_on.SerializeToString())
    assert not answer.HasField("agent_identification")
    assert not answer.flags  # it is known under its new uid
    assert OpampAgent.objects.count() == 1


def test_who_leaves_is_said_to_have_stopped(url: str, key: str) -> None:
    stock = Stock(url, key)
    stock.connect()
    stock.client.send(stock.client.build_agent_disconnect_message())
    assert Agent.objects.get(instance="r-9").status == "stopped"


def test_who_says_applied_and_runs_something_else_has_drifted(url: str, key: str) -> None:
    stock = Stock(url, key)
    trip(ahead=True)
    offer = stock.connect()
    document = offered(offer)
    stock.say(offer.remote_config.config_hash, APPLIED)
    stock.runs(document)
    assert "applied" in fleet_page()
    assert "drifted" not in fleet_page()
    guards = document["policy"]["guards"]
    stock.runs({**document, "policy": {**document["policy"], "guards": {**guards, "turns": guards["turns"] + 82}}})
    assert "drifted" in fleet_page()
    assert in_force().different == 1
    stock.runs(document)
    assert "drifted" not in fleet_page()


def fleet_page() -> str:
    return text_of(signed_in().get("/agents"))


# -- what it runs ------------------------------------------------------------------------------------------------------
def settings_page() -> str:
    return text_of(signed_in().get(SETTINGS))


def in_force() -> InForce:
    """What the page of its settings shows."""
    found = signed_in().get(SETTINGS).context["found"]
    assert isinstance(found, InForce)
    return found


def equal(found: InForce) -> int:
    """How many settings are as desired."""
    return sum(part.equal for part in found.parts)


def reasons(found: InForce) -> set[Why]:
    """Why what is not as desired is so."""
    return {line.why for part in found.parts for line in part.different}


def test_a_client_that_does_not_report_what_it_runs_is_not_called_old(url: str, key: str) -> None:
    stock = Stock(url, key)
    assert stock.say(stock.connect().remote_config.config_hash, APPLIED).flags == messages.REPORT_FULL_STATE
    assert stock.connect().flags == 0
    found = in_force()
    assert (found.is_opamp, list(found.parts)) == (True, [])
    assert found.sentence in settings_page()
    assert found.sentence != replace(found, is_opamp=False).sentence


def test_what_it_runs_is_asked_for_once_stored_and_compared(url: str, key: str) -> None:
    stock = Stock(url, key)
    first = stock.connect()
    document = offered(first)
    assert stock.say(first.remote_config.config_hash, APPLIED).flags == messages.REPORT_FULL_STATE
    assert stock.runs(document).flags == 0
    found = in_force()
    assert found.different == 0
    assert equal(found) > 0
    trip(ahead=True)
    second = offered(stock.beat())
    found = in_force()
    assert (found.different, reasons(found)) == (1, {Why.NOT_APPLIED})
    stock.say(f"{second['revision']}.{second['config_hash']}".encode(), APPLIED)
    stock.runs(second | {"policy": second["policy"] | {"guards": {"turns": 7}}})
    said = settings_page()
    assert "guards.turns 7 20" in said
    assert "overrides" in said
    stock.runs(second)
    assert in_force().different == 0
    told = Fact.objects.filter(event="settings_in_force").count()
    stock.runs(second)
    assert Fact.objects.filter(event="settings_in_force").count() == told == 3


def test_a_configuration_of_its_own_is_shown_masked_and_held_against_nothing(url: str, key: str) -> None:
    stock = Stock(url, key)
    first = stock.connect()
    stock.say(first.remote_config.config_hash, APPLIED)
    stock.runs({"mine": {"level": 3, "api_key": "sk-" + "a1B2" * 12}}, name="collector.json")
    said = settings_page()
    assert "collector.json.mine.level 3" in said
    assert "a1B2a1B2" not in said
    found = in_force()
    assert (found.different, equal(found)) == (0, 0)
    whys = {line.why for part in found.parts for line in part.lines}
    assert Why.OWN in whys
    assert whys <= UNCOMPARED


def test_a_server_that_restarts_with_its_state_lost_is_told_everything_again(key: str) -> None:
    applied = Fact.objects.filter(event="desired_state_applied")
    with served(application) as url:
        stock = Stock(url, key)
        agent = OpAMPAgent(interval=0.05, callbacks=Callbacks(), client=stock.client, initial_backoff=0.05)
        agent.start()
        eventually(SettingsInForce.objects.exists, what="what it runs")
    try:
        OpampAgent.objects.all().delete()
        SettingsInForce.objects.all().delete()
        standing._known.clear()
        told = applied.count()
        with served(application) as stock.transport.url:
            eventually(SettingsInForce.objects.exists, what="what it runs, once more")
            eventually(lambda: applied.count() > told, what="what it obeys, once more")
            # Its events are stored before its row: one can be seen without the other.
            eventually(OpampAgent.objects.filter(service="research").exists, what="its row")
    finally:
        agent.stop()


def test_two_environments_with_one_uid_do_not_meet(url: str, key: str) -> None:
    other = keys.create_key("opamp", ["desired"], "prod")[1]
    here, there = Stock(url, key), Stock(url, other)
    there.client._instance_uid = here.client._instance_uid
    trip(ahead=True)
    first, second = here.connect(), there.connect()
    assert (offered(first)["revision"], offered(second)["revision"]) == (1, 0)
    here.say(first.remote_config.config_hash, APPLIED)
    there.say(second.remote_config.config_hash, FAILED, "not in prod")
    assert dict(Agent.objects.values_list("environment", "rejected_reason")) == {"dev": "", "prod": "not in prod"}
    assert [one.sequence_number for one in OpampAgent.objects.order_by("environment")] == [1, 1]


def test_edits_while_agents_poll_and_their_server_restarts_end_with_the_last(key: str) -> None:
    """J15: nobody takes an older revision on after a newer one, and all end with the newest."""
    heard = [Callbacks() for _ in range(3)]
    stocks: list[Stock] = []
    agents: list[OpAMPAgent] = []
    try:
        for restart in range(3):
            standing._known.clear()
            with served(application) as url:
                for stock in stocks:
                    stock.transport.url = url
                for number, callbacks in enumerate(heard if not stocks else ()):
                    who = WHO | {"service.instance.id": f"r-{number}"}
                    stocks.append(Stock(url, key, who))
                    agents.append(
                        OpAMPAgent(interval=0.05, callbacks=callbacks, client=stocks[-1].client, initial_backoff=0.05)
                    )
                    agents[-1].start()
                for edit in range(3):
                    trip(reason=f"edit {edit} of round {restart}", ahead=True)
                newest = read("dev").revision
                applied = Agent.objects.filter(revision=newest, instance__in=["r-0", "r-1", "r-2"])
                eventually(lambda: applied.count() == 3, what=f"revision {newest} everywhere")  # noqa: B023
    finally:
        for agent in agents:
            agent.stop()
    last = {(one["revision"], one["config_hash"]) for one in (callbacks.documents[-1] for callbacks in heard)}
    assert len(last) == 1
    for callbacks in heard:
        revisions = [one["revision"] for one in callbacks.documents]
        assert revisions == sorted(revisions)
        assert revisions[-1] == 9


class Callbacks(OpAMPCallbacks):
    """Applies what can be applied, as a client's own code would."""

    def __init__(self) -> None:
        self.documents: list[dict[str, Any]] = []
        self.rejection = ""
        self.answers: list[float] = []
        self.answers_before: list[int] = []
        """How many answers had come when each document did."""

    def on_message(self, agent: OpAMPAgent, client: OpAMPClient, message: MessageData) -> None:
        if message.remote_config is None:
            return
        self.documents += [dict(one) for _, one in client.decode_remote_config(message.remote_config)]
        self.answers_before.append(len(self.answers))
        status = FAILED if self.rejection else APPLIED
        if status == APPLIED:
            client.update_effective_config({"desired.json": self.documents[-1]}, "application/json")
        told = client.update_remote_config_status(message.remote_config.config_hash, status, self.rejection)
        if told is not None:
            agent.send(client.build_remote_config_status_response_message(told))


@dataclass
class Counting(Moving):
    """Counts the messages that were answered, and notes when each answer was there."""

    answers: list[float] = field(default_factory=list)

    def send(self, **rest: Any) -> Any:
        answer = super().send(**rest)
        self.answers.append(time.monotonic())
        return answer


def test_the_first_answer_brings_the_policy_and_what_it_applies_is_shown_with_its_hash(url: str, key: str) -> None:
    """Within one interval, however long that is: nothing but the first message has been answered by then."""
    stock, callbacks = Stock(url, key), Callbacks()
    stock.client._transport = counting = Counting(url)
    callbacks.answers = counting.answers
    agent = OpAMPAgent(interval=3600, callbacks=callbacks, client=stock.client)
    agent.start()
    try:
        applied = Agent.objects.filter(instance="r-9", applied_us__gt=0)
        eventually(applied.exists, what="what it applies")
        (document,) = callbacks.documents
        assert applied.get().config_hash == document["config_hash"]
        assert callbacks.answers_before == [1]
        assert len(counting.answers) <= 3  # all of it, its word that it applies it, and what it runs
    finally:
        agent.stop()


def test_an_edit_is_there_with_the_first_message_after_it_and_within_a_second_of_that(url: str, key: str) -> None:
    stock, callbacks, interval_s = Stock(url, key), Callbacks(), 0.5
    stock.client._transport = counting = Counting(url)
    callbacks.answers = counting.answers
    agent = OpAMPAgent(interval=interval_s, callbacks=callbacks, client=stock.client)
    agent.start()
    try:
        eventually(lambda: Agent.objects.filter(instance="r-9", applied_us__gt=0).exists(), what="the first document")
        for revision in (1, 2, 3):
            trip(reason=f"edit {revision} of a measurement", ahead=True)
            edited, before = time.monotonic(), len(counting.answers)
            eventually(lambda: callbacks.documents[-1]["revision"] == revision, what="the edit")  # noqa: B023
            # One message may have been on its way while the edit was committed.
            assert callbacks.answers_before[-1] - before <= 2
            assert counting.answers[callbacks.answers_before[-1] - 1] - edited <= interval_s + 1.0
    finally:
        agent.stop()


def test_who_stops_is_said_to_have_stopped_when_it_has(url: str, key: str) -> None:
    """Nothing has to be waited for: the stock agent says good-bye before `stop` returns.

    It says so from another thread than its other messages, so those are over first: one on its way could be read later.
    """
    stock = Stock(url, key)
    stock.client._transport = counting = Counting(url)
    agent = OpAMPAgent(interval=3600, callbacks=Callbacks(), client=stock.client)
    agent.start()
    eventually(lambda: len(counting.answers) == 3, what="all of it, its word that it applies it, and what it runs")
    assert Agent.objects.get(instance="r-9").status == "running"
    assert "r-9" in signed_in().get("/agents").content.decode()
    agent.stop()
    assert Agent.objects.get(instance="r-9").status == "stopped"
    assert "r-9" not in signed_in(name="vera").get("/agents").content.decode()


def test_the_stock_agent_lives_with_it(url: str, key: str) -> None:
    callbacks = Callbacks()
    stock = Stock(url, key)
    agent = OpAMPAgent(interval=0.05, callbacks=callbacks, client=stock.client, initial_backoff=0.05)
    agent.start()
    try:
        eventually(lambda: Agent.objects.filter(instance="r-9", applied_us__gt=0).exists(), what="the first document")
        callbacks.rejection = "not while I count"
        trip(ahead=True)
        eventually(lambda: Agent.objects.get(instance="r-9").rejected_revision == 1, what="the refusal")
        assert [one["revision"] for one in callbacks.documents] == sorted(
            one["revision"] for one in callbacks.documents
        )
    finally:
        agent.stop()
    assert "not while I count" in Agent.objects.get(instance="r-9").rejected_reason


# -- what is refused --------------------------------------------------------------------------------------------------


def post(url: str, key: str, body: bytes, **headers: str) -> httpx.Response:
    said = {"authorization": f"Bearer {key}", "content-type": "application/x-protobuf"} | headers
    return httpx.post(f"{url}/v1/opamp", content=body, headers=said, timeout=10)


def test_a_wrong_key_is_401_and_one_for_something_else_403(url: str, key: str) -> None:
    with pytest.raises(Exception, match="401"):
        Stock(url, "ro_nobody").connect()
    other = keys.create_key("other", ["ingest", "read", "act"], "dev")[1]
    assert post(url, other, b"").status_code == 403
    assert post(url, "nonsense", b"").headers["www-authenticate"] == "Bearer"
    assert httpx.get(f"{url}/v1/opamp", headers={"authorization": f"Bearer {key}"}).status_code == 405
    assert post(url, key, b"{}", **{"content-type": "application/json"}).status_code == 415
    assert post(url, key, b"", **{"content-encoding": "br"}).status_code == 415
    elsewhere = httpx.post(f"{url}/v1/opamp?environment=prod", headers={"authorization": f"Bearer {key}"})
    assert elsewhere.status_code == 400
    assert httpx.post(f"{url}/v1/opamp/").status_code in (404, 405)  # never a redirect


def test_garbage_is_told_so_and_gzip_is_read(url: str, key: str) -> None:
    for body in (b"\xff" * 50, b"", opamp_pb2.AgentToServer(instance_uid=b"short").SerializeToString()):
        answer = post(url, key, body)
        told = opamp_pb2.ServerToAgent.FromString(answer.content)
        assert (answer.status_code, told.error_response.type) == (200, opamp_pb2.ServerErrorResponseType_BadRequest)
        assert told.error_response.error_message
        assert [one.name for one, _ in told.ListFields()] == ["error_response"]  # nothing beside an error
    stock = Stock(url, key)
    packed = post(url, key, gzip.compress(stock.client.build_full_state_message()), **{"content-encoding": "gzip"})
    assert offered(opamp_pb2.ServerToAgent.FromString(packed.content))["revision"] == 0
    broken = post(url, key, b"no gzip", **{"content-encoding": "gzip"})
    assert opamp_pb2.ServerToAgent.FromString(broken.content).error_response.error_message
    bomb = gzip.compress(bytes(2**25))
    assert post(url, key, bomb, **{"content-encoding": "gzip"}).status_code == 413


def test_a_store_that_is_away_is_503_with_a_time(url: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stock = Stock(url, key)
    stock.connect()

    def away(*args: object, **kwargs: object) -> None:
        raise OperationalError("the database went away")

    monkeypatch.setattr("recovery_ops.control.desired_state.opamp.api.newest", away)
    answer = post(url, key, stock.client.build_heartbeat_message())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")
    assert json.loads(answer.content)["status"] == 503


@given(st.binary(max_size=200))
def test_any_bytes_are_a_report_or_malformed(body: bytes) -> None:
    try:
        report = messages.parse(body)
    except messages.Malformed:
        return
    assert len(report.uid) == messages.UID_BYTES

"""The desired state for those who ask: the same document as the stream's, and nothing where nothing is new."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client

from events import keys
from recovery_ops import wire
from recovery_ops.control.desired_state import document as desired
from recovery_ops.rules.policy.scope import Scope
from tests.support.actions import person, trip
from tests.support.stories import NOW

pytestmark = pytest.mark.django_db

WHO = {"service": "research", "instance": "r-0"}


@pytest.fixture
def agent() -> Client:
    keys.forget_keys()
    return Client(headers={"authorization": f"Bearer {keys.create_key('agent', ['desired'], 'dev')[1]}"})


def ask(client: Client, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.get("/api/v1/desired", WHO, headers=named)


def test_it_is_the_document_of_that_instance(agent: Client) -> None:
    trip(scope=Scope(operation="search_web", service="billing"), ahead=True)
    trip(scope=Scope(operation="search_web", service="research"), ahead=True)
    answer = ask(agent)
    assert (answer.status_code, answer["Content-Type"]) == (200, "application/json")
    fresh = desired.document("dev", **WHO, group="", now=NOW)
    assert answer.json() | {"issued_at": 0} == fresh | {"issued_at": 0}
    assert len(wire.parse_desired(answer.json()).overrides) == 1


def test_what_is_known_is_not_sent_again(agent: Client) -> None:
    tag = ask(agent)["ETag"]
    assert tag.startswith('W/"0-')
    for given in (tag, tag.removeprefix("W/"), f'"other", {tag}'):
        answer = ask(agent, if_none_match=given)
        assert (answer.status_code, answer.content, answer["ETag"]) == (304, b"", tag)
    trip(ahead=True)
    answer = ask(agent, if_none_match=tag)
    assert (answer.status_code, answer["ETag"][:5]) == (200, 'W/"1-')


def test_the_environment_is_the_keys(agent: Client) -> None:
    trip(environment="prod", by=person(environment="prod"), ahead=True)
    assert agent.get("/api/v1/desired", WHO | {"environment": "prod"}).status_code == 400
    answer = agent.get("/api/v1/desired", WHO | {"environment": "dev"})
    assert (answer.json()["environment"], answer.json()["revision"]) == ("dev", 0)


@pytest.mark.parametrize(
    ("header", "scopes", "status"),
    [(None, None, 401), ("Bearer nonsense", None, 401), (None, ["ingest", "read", "act"], 403)],
)
def test_without_a_key_that_may_follow_there_is_nothing(header: str | None, scopes: Any, status: int) -> None:
    keys.forget_keys()
    header = f"Bearer {keys.create_key('other', scopes, 'dev')[1]}" if scopes else header
    answer = Client(headers={"authorization": header} if header else {}).get("/api/v1/desired")
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    assert answer.json()["detail"]


def test_only_get_is_answered_and_never_with_a_page(agent: Client) -> None:
    answer = Client(enforce_csrf_checks=True).post("/api/v1/desired")
    assert (answer.status_code, answer["Allow"], answer.json()["status"]) == (405, "GET", 405)


def test_a_name_that_no_instance_can_have_is_refused(agent: Client) -> None:
    answer = agent.get("/api/v1/desired", {"instance": "x" * 201})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")


def test_a_store_that_is_away_is_503(agent: Client) -> None:
    ask(agent)

    def away(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        raise OperationalError("the database went away")

    with connection.execute_wrapper(away):
        answer = ask(agent)
    assert (answer.status_code, answer["Retry-After"]) == (503, "1")

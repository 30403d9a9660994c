"""Which environment a request is about, who asks, and what every template is told."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.sessions.backends.db import SessionStore
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.http import HttpRequest
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext

from events.keys import create_key
from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.context_processors import template_context
from recovery_ops.control.core.actors import system_actor
from recovery_ops.control.core.environment import actor_of, environment_of, known_environments
from recovery_ops.rules.enums import State
from recovery_ops.rules.events import InstanceHeartbeat
from recovery_ops.rules.policy.scope import Scope
from tests.support.actions import trip
from tests.support.fleet import seen_now, today_fleet
from tests.support.stories import Story, moved

pytestmark = pytest.mark.django_db


@pytest.fixture
def ana() -> User:
    return User.objects.create_user("ana", first_name="Ana", last_name="Lima")


def grant(user: User, role: str, environment: str) -> None:
    RoleGrant.objects.create(user=user, environment=environment, role=role)


def request_by(user: User | AnonymousUser, path: str = "/", session: Any = None, **meta: Any) -> HttpRequest:
    request = RequestFactory().get(path, **meta)
    request.user = user
    request.session = session if session is not None else SessionStore()
    return request


def test_environments_are_those_that_somebody_uses_ours_first() -> None:
    assert known_environments() == ["dev"]
    create_key("demonstration fleet", ["ingest"], "demo")
    assert known_environments() == ["dev", "demo"]
    for environment in ("test", "dev", "alpha"):
        create_key("agent", ["ingest"], environment)
    trip(environment="intent", by=system_actor("tests"), ahead=True)
    assert known_environments() == ["dev", "alpha", "demo", "intent", "test"]


def test_the_first_one_that_a_person_may_see_is_theirs(ana: User) -> None:
    for environment in ("dev", "alpha", "beta"):
        create_key("agent", ["ingest"], environment)
    grant(ana, "viewer", "beta")
    grant(ana, "operator", "alpha")
    assert environment_of(request_by(ana)) == "alpha"
    told = template_context(request_by(ana))
    assert (told["environments"], told["role"], told["may"]["trip"]) == (("alpha", "beta"), "operator", True)
    told = template_context(request_by(ana, "/?environment=beta"))
    assert (told["environment"], told["role"], told["may"]["trip"]) == ("beta", "viewer", False)


def test_the_choice_is_remembered(ana: User) -> None:
    grant(ana, "viewer", "*")
    create_key("agent", ["ingest"], "dev")
    create_key("agent", ["ingest"], "prod")
    session = SessionStore()
    assert environment_of(request_by(ana, "/?environment=prod", session)) == "prod"
    assert environment_of(request_by(ana, "/", session)) == "prod"


@pytest.mark.parametrize(("role_in", "asked"), [("dev", "prod"), ("*", "no such environment")])
def test_a_place_that_is_closed_or_not_there_is_refused(ana: User, role_in: str, asked: str) -> None:
    grant(ana, "admin", role_in)
    request = request_by(ana, f"/?environment={asked}")
    with pytest.raises(PermissionDenied):
        environment_of(request)
    assert template_context(request)["environment"] == "dev"
    assert "environment" not in request.session


def test_who_holds_no_role_sees_nothing(ana: User) -> None:
    with pytest.raises(PermissionDenied):
        environment_of(request_by(ana))
    told = template_context(request_by(ana))
    assert (told["role"], told["environments"], any(told["may"].values())) == ("no role", (), False)
    assert told["nav"] == {"breakers": 0, "agents": 0, "capacity": 0, "escalations": 0, "requests": 0}


def test_who_is_not_signed_in_is_told_nothing() -> None:
    assert template_context(request_by(AnonymousUser())) == {}
    assert template_context(RequestFactory().get("/")) == {}


def test_the_navigation_counts_what_does_not_flow_and_who_does_not_report(ana: User) -> None:
    grant(ana, "viewer", "dev")
    today_fleet()
    Story().tell(moved(State.OPEN), at=0, instance="r-0").store()
    seen_now()
    silent = InstanceHeartbeat(interval_s=15, uptime_s=1, revision=0, config_hash="", schema_version=1)
    Story().tell(silent, at=3600, instance="gone").store()
    told = template_context(request_by(ana))
    assert told["nav"]["breakers"] == 1
    assert told["nav"]["agents"] in (0, 1)
    trip(scope=Scope(operation="search_web"), now=None)
    assert template_context(request_by(ana))["revision"] == 1


def test_what_a_page_does_not_print_is_not_asked_for(ana: User) -> None:
    grant(ana, "viewer", "dev")
    with CaptureQueriesContext(
        connection,
    ) as asked:
        request = request_by(ana)
        template_context(request)
        environment_of(request)
        actor_of(request)
    assert len(asked) <= 3


def test_an_actor_is_the_person_and_where_they_came_from(ana: User) -> None:
    grant(ana, "operator", "dev")
    meta = {"HTTP_USER_AGENT": "a browser\x00" + "x" * 400, "HTTP_X_REQUEST_ID": "not an id", "REMOTE_ADDR": "::1"}
    actor = actor_of(request_by(ana, "/", None, **meta))
    assert (actor.name, actor.kind, actor.channel, actor.user_id) == ("Ana Lima", "person", "web", ana.pk)
    assert actor.id == str(ana.pk)
    assert actor.may("trip", "dev")
    assert not actor.may("trip", "prod")
    assert (actor.ip, len(actor.user_agent), len(actor.request_id)) == ("::1", 300, 32)

"""Who made a key, and from where it was last used: on the page, for programs, and on the command line."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from events import keys
from events.models import AgentKey
from recovery_ops.control.access.services.keys import make_key, rotate_key
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person
from tests.support.api_client import Program
from tests.support.pages import signed_in, text_of
from tests.support.processes import eventually

pytestmark = pytest.mark.django_db

PLACE = "192.0.2.7"


@pytest.fixture
def used() -> AgentKey:
    made = make_key(**asked(by=person(Role.ADMIN, name="ana"), now=timezone.now()), name="billing", scopes=["ingest"])
    AgentKey.objects.update(last_used_at=timezone.now(), last_used_from=PLACE)
    return AgentKey.objects.get(pk=made.object.key.pk)


def test_the_page_says_who_made_a_key_and_to_admins_from_where_it_was_used(used: AgentKey) -> None:
    told = text_of(signed_in(Role.ADMIN, "eve").get("/settings/keys"))
    assert "by ana" in told
    assert f"from {PLACE}" in told
    told = text_of(signed_in(Role.VIEWER, "vic").get("/settings/keys"))
    assert "by ana" in told
    assert PLACE not in told


def test_programs_are_told_the_same(used: AgentKey) -> None:
    def told(*scopes: str) -> tuple[str, str | None]:
        _, answer = Program(*scopes).get(f"keys/{used.prefix}")
        return answer["key"]["made_by"], answer["key"]["last_used_from"]

    assert told("read", "admin") == ("ana", PLACE)
    assert told("read") == ("ana", None)


def test_the_servers_command_line_says_it_too(used: AgentKey) -> None:
    said = StringIO()
    call_command("key", "list", stdout=said)
    assert f" from {PLACE}" in said.getvalue()
    assert "billing, made by ana" in said.getvalue()


def test_who_replaces_a_key_made_the_new_one(used: AgentKey) -> None:
    by = person(Role.ADMIN, name="eve")
    done = rotate_key(**asked(by=by, now=timezone.now()), prefix=used.prefix)
    assert (done.object.key.made_by, done.object.key.last_used_from) == ("eve", "")


@pytest.mark.parametrize(("path", "scope"), [("/api/v1/breakers", "read"), ("/api/v1/desired", "desired")])
def test_every_door_notes_where_a_request_comes_from(path: str, scope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keys.forget_keys()  # of a key of another test with the same number
    noted: list[tuple[int, str]] = []
    monkeypatch.setattr(keys, "_note_use", lambda *said: noted.append(said))
    key, token = keys.create_key("program", [scope], "dev")
    client = Client(REMOTE_ADDR=PLACE, headers={"authorization": f"Bearer {token}"})
    client.get(path)
    eventually(lambda: noted == [(key.pk, PLACE)], what="the note")

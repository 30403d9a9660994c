"""What strangers sent is shown on request alone, to who may see it, and only once it is written down who asked."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client

from events.keys import create_key
from events.models import Quarantine
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.rules.enums import Category
from recovery_ops.rules.roles import Role
from tests.support.html import Shown
from tests.support.pages import HOSTILE, signed_in, text_of
from tests.support.stories import Story, failed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

WORDS = "dear customer, your appointment is on Monday"


@pytest.fixture
def line() -> Quarantine:
    """A record of `dev` that could not be taken in."""
    Story().tell(
        failed(Category.TIMEOUT, fingerprint="one", request_id=WORDS), at=30, instance="r-0", run="run-1"
    ).store()
    return Quarantine.objects.create(
        environment="dev", received_us=1, reason="is broken", size_bytes=1, content=f"{WORDS} {HOSTILE}", signal="logs"
    )


DOORS = ("line on the page", "line by API", "facts on the page", "facts by API")


def look(door: str, line: Quarantine, role: Role = Role.RESPONDER, environment: str = "dev") -> Any:
    client = signed_in(role, f"{role} of {environment}", environment)
    suffix = f"?environment={environment}"
    if door == "line on the page":
        return client.post(f"/agents/intake{suffix}", {"act": "show", "line": str(line.pk), "environment": environment})
    if door == "line by API":
        return client.post(f"/api/v1/quarantine/{line.pk}/show{suffix}", {}, "application/json")
    if door == "facts on the page":
        return client.post(f"/runs/run-1{suffix}&tab=attributes", {"environment": environment})
    return client.post(f"/api/v1/runs/run-1/show{suffix}", {}, "application/json")


def said(answer: Any) -> str:
    return str(answer.content.decode())


@pytest.mark.parametrize("door", DOORS)
def test_who_asks_is_written_down_and_shown_it(door: str, line: Quarantine) -> None:
    answer = look(door, line)
    assert answer.status_code == 200
    assert WORDS in said(answer)
    assert HOSTILE not in said(answer) or "API" in door
    assert "no-store" in answer.headers["Cache-Control"]
    entry = AuditEntry.objects.get()
    about = f"quarantined record {line.pk}" if door.startswith("line") else "the events of run run-1"
    assert (entry.verb, entry.object, entry.actor_name, entry.result) == (
        "content.show",
        about,
        "responder of dev",
        "ok",
    )
    assert entry.channel == ("api" if "API" in door else "web")
    assert entry.ip == "127.0.0.1"
    assert audit.verify_chain("dev").is_whole
    page = text_of(signed_in(Role.VIEWER).get("/audit"))
    assert about in page


@pytest.mark.parametrize("door", DOORS)
def test_who_may_not_sees_nothing_and_that_is_written_down(door: str, line: Quarantine) -> None:
    answer = look(door, line, Role.VIEWER)
    assert answer.status_code == 403
    assert WORDS not in said(answer)
    entry = AuditEntry.objects.get()
    assert (entry.verb, entry.result, entry.code) == ("content.show", "refused", "forbidden")


@pytest.mark.parametrize("door", DOORS)
def test_what_is_elsewhere_is_not_there(door: str, line: Quarantine) -> None:
    create_key("elsewhere", ["ingest"], "prod")
    answer = look(door, line, Role.ADMIN, "prod")
    assert answer.status_code == 404
    assert WORDS not in said(answer)
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("door", DOORS)
def test_without_an_entry_nothing_is_sent(door: str, line: Quarantine, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise DatabaseError("the disk is full")

    monkeypatch.setattr(audit, "append", full)
    client = signed_in()
    client.raise_request_exception = False
    monkeypatch.setattr("tests.control.audit.test_guarded_content.signed_in", lambda *_: client)
    answer = look(door, line)
    assert answer.status_code >= 500
    assert WORDS not in said(answer)


@pytest.mark.parametrize("door", DOORS)
def test_the_entry_is_there_before_anything_is_sent(
    door: str, line: Quarantine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever fails afterwards: the entry has a transaction of its own."""
    monkeypatch.setattr("recovery_ops.control.self_monitoring.views.intake.add_never_cache_headers", _fails)
    monkeypatch.setattr("recovery_ops.control.runs.views.run.add_never_cache_headers", _fails)
    monkeypatch.setattr("recovery_ops.control.self_monitoring.api.shown_record_document", _fails)
    monkeypatch.setattr("recovery_ops.control.runs.serializers.run_event_document", _fails)
    client = signed_in()
    client.raise_request_exception = False
    monkeypatch.setattr("tests.control.audit.test_guarded_content.signed_in", lambda *_: client)
    assert look(door, line).status_code == 500
    assert AuditEntry.objects.get().verb == "content.show"


def _fails(*_: object) -> None:
    raise RuntimeError("the line to the browser broke")


def test_nobody_sees_it_by_looking(line: Quarantine) -> None:
    client = signed_in(Role.ADMIN)
    for address in ("/agents/intake", "/runs/run-1?tab=attributes", "/api/v1/quarantine", "/api/v1/runs/run-1"):
        answer = client.get(address)
        assert answer.status_code == 200
        assert WORDS not in said(answer), address
    assert "recovery.request.id" in said(client.get("/runs/run-1?tab=attributes")), "the names are shown"
    assert not AuditEntry.objects.exists()


def test_the_buttons_are_forms_that_need_no_script(line: Quarantine) -> None:
    shown = Shown(signed_in(Role.RESPONDER).get("/agents/intake"))
    [button] = [one.attributes for one in shown.root.all() if one.attributes.get("form") == "show"]
    assert (button["name"], button["value"]) == ("line", str(line.pk))
    assert shown.within("id", "show").root.attributes["method"] == "post"
    address = "/runs/run-1?tab=attributes"
    for role, is_offered in ((Role.RESPONDER, True), (Role.VIEWER, False)):
        page = Shown(signed_in(role, f"a {role}").get(address))
        assert (address in [one.attributes.get("action") for one in page.root.all()]) == is_offered
    unshown = Shown(signed_in(Role.VIEWER, "vic").get("/agents/intake"))
    assert ("show" in unshown.ids, "line" in unshown.fields) == (False, False)


def test_a_key_that_reads_is_refused_and_one_that_acts_is_named(line: Quarantine) -> None:
    def asked(*scopes: str) -> int:
        _, token = create_key("script", list(scopes), "dev")
        client = Client(headers={"Authorization": f"Bearer {token}"})
        return client.post(f"/api/v1/quarantine/{line.pk}/show", {}, "application/json").status_code

    assert asked("read") == 403
    assert asked("read", "act") == 200
    entry = AuditEntry.objects.filter(result="ok").get()
    assert (entry.actor_kind, entry.actor_name) == ("key", "script")

"""Notes on causes of failures: one by one, of what was merged together, and the same for programs."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from events import keys
from recovery_ops import cli
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core.actors import Actor
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.issues.models import FailureCase, FailureGrouping, FailureNote
from recovery_ops.control.issues.services.issues import merge_failures, undo_grouping
from recovery_ops.control.issues.services.notes import note_on_cause
from recovery_ops.rules.enums import Category
from recovery_ops.rules.roles import Role
from tests.support.api_client import Program
from tests.support.command_line import Operator, operator
from tests.support.pages import hidden, signed_in, text_of
from tests.support.stories import NOW, Story, failed

__all__ = ["operator"]  # the fixture

pytestmark = pytest.mark.django_db
at_a_time = pytest.mark.usefixtures("now", "storm")
lately = pytest.mark.usefixtures("recent_storm")

TEXT = "Their status page says a <fibre> was cut."
WHY = {"reason": "it is the same database behind both"}


@pytest.fixture
def storm() -> None:
    """Three causes."""
    tell(500)


@pytest.fixture
def recent_storm() -> None:
    """The same, by the real clock, which the API goes by."""
    keys.forget_keys()
    tell((NOW - timezone.now()).total_seconds() + 500)


def tell(ago_s: float) -> None:
    story = Story()
    for place, name in enumerate(("one", "two", "three")):
        story.tell(failed(Category.TIMEOUT, "crm.update", fingerprint=name, message=f"{name} broke"), at=ago_s - place)
    story.store()


def who(**more: Any) -> dict[str, Any]:
    user, _ = get_user_model().objects.get_or_create(username="ana")
    by = Actor(name="ana", kind="person", channel="web", may=lambda permission, environment: True, user_id=user.pk)
    return {"by": by, "environment": "dev", "reason": TEXT, "now": NOW} | more


def sent(name: str = "one", text: str = TEXT, role: Role = Role.RESPONDER) -> Any:
    client = signed_in(role)
    form = client.get("/failures/act/note", {"fingerprint": name})
    if form.status_code != 200:
        return form
    return client.post("/failures/act/note", {"fingerprint": name, "key": hidden(form, "key"), "reason": text})


@at_a_time
def test_a_note_stands_on_the_page_in_the_log_and_in_the_list() -> None:
    assert sent().status_code == 303
    client = signed_in(Role.VIEWER)
    page = client.get("/failures/one?range=1h").content.decode()
    assert "&lt;fibre&gt;" in page
    assert "<fibre>" not in page
    assert TEXT in text_of(client.get("/failures/one?range=1h&tab=log"))
    assert "1 note" in text_of(client.get("/failures?range=1h"))
    assert "1 note" not in text_of(client.get("/failures/two?range=1h"))
    [entry] = AuditEntry.objects.all()
    assert (entry.verb, entry.object, entry.reason) == ("failure.note", "one", TEXT)
    assert audit.verify_chain("dev").is_whole


@at_a_time
def test_a_note_decides_nothing() -> None:
    sent()
    assert not FailureCase.objects.exists()


@at_a_time
@pytest.mark.parametrize(("name", "text", "status"), [("one", "short", 422), ("moon", TEXT, 422)])
def test_what_cannot_be_noted_is_said_on_the_form(name: str, text: str, status: int) -> None:
    assert sent(name, text).status_code == status
    assert not FailureNote.objects.exists()


@at_a_time
def test_who_may_only_look_notes_nothing_and_is_not_offered_to() -> None:
    assert sent(role=Role.VIEWER).status_code == 403
    assert "Note…" not in text_of(signed_in(Role.VIEWER).get("/failures/one?range=1h"))
    with pytest.raises(CommandRejected) as refused:
        note_on_cause(**who(by=Actor(name="eve", kind="key", channel="api", may=lambda *_: False)), fingerprint="one")
    assert refused.value.status == 403
    assert AuditEntry.objects.get().result == AuditEntry.REFUSED


@at_a_time
def test_a_note_is_about_one_cause() -> None:
    client = signed_in(Role.RESPONDER)
    answer = client.get("/failures/act/note", {"fingerprint": ["one", "two"]})
    assert answer.status_code == 303
    assert len(list(client.get("/failures").context["messages"])) == 1


@at_a_time
def test_merged_causes_show_the_notes_of_their_parts_until_they_are_apart_again() -> None:
    note_on_cause(**who(reason="what the first is about"), fingerprint="one")
    note_on_cause(**who(reason="what the second is about"), fingerprint="two")
    merge_failures(**who(), fingerprints=["one", "two"])
    assert note_on_cause(**who(reason="what both are about"), fingerprint="two").object.fingerprint == "one"
    page = text_of(signed_in(Role.VIEWER).get("/failures/one?range=1h"))
    assert [words in page for words in ("the first is", "the second is", "both are", ", on two")] == [True] * 4
    assert "3 notes" in text_of(signed_in(Role.VIEWER).get("/failures?range=1h"))
    undo_grouping(**who(), grouping=FailureGrouping.objects.get().pk)
    page = text_of(signed_in(Role.VIEWER).get("/failures/two?range=1h"))
    assert [words in page for words in ("the first is", "the second is", "both are")] == [False, True, False]


@at_a_time
def test_causes_are_sorted_and_exported_with_their_notes() -> None:
    for name in ("two", "two", "three"):
        note_on_cause(**who(), fingerprint=name)
    client = signed_in(Role.VIEWER)
    page = text_of(client.get("/failures?range=1h&sort=-notes"))
    assert page.index("two broke") < page.index("three broke") < page.index("one broke")
    rows = client.get("/failures?range=1h&format=json").json()["rows"]
    assert {row["fingerprint"]: row["notes"] for row in rows} == {"one": 0, "two": 2, "three": 1}


@lately
def test_programs_note_too() -> None:
    program = Program()
    assert program.post("failures/notes", {"reason": TEXT, "fingerprint": "one", "dry_run": True})[1]["dry_run"]
    assert program.get("failures/notes", fingerprint="one")[1]["notes"] == []
    made = program.post("failures/notes", {"reason": TEXT, "fingerprint": "one"})[1]["note"]
    assert (made["fingerprint"], made["text"]) == ("one", TEXT)
    program.post("failures/merge", WHY | {"fingerprints": ["two", "one"]})
    found = program.get("failures/notes", fingerprint="one")[1]
    assert (found["fingerprint"], [one["text"] for one in found["notes"]]) == ("two", [TEXT])
    assert {row["fingerprint"]: row["notes"] for row in program.get("failures")[1]["failures"]} == {
        "two": 1,
        "three": 0,
    }
    assert program.get("failures/notes", fingerprint="moon")[0] == 404
    assert program.get("failures/notes")[0] == 400
    assert Program("read").post("failures/notes", {"reason": TEXT, "fingerprint": "one"})[0] == 403


@lately
def test_the_command_line_notes_and_tells(operator: Operator) -> None:
    assert operator.run("failures", "notes", "one") == cli.DONE
    [nothing] = operator.said
    assert "one" in nothing
    assert operator.run("failures", "note", "one", "--reason", TEXT) == cli.DONE
    operator.said.clear()
    assert operator.run("failures", "notes", "one") == cli.DONE
    assert (operator.said[0].endswith(TEXT), nothing in operator.said) == (True, False)
    operator.said.clear()
    assert operator.run("failures", "list") == cli.DONE
    assert sum("1 note;" in line for line in operator.said) == 1

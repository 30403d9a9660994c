"""Annotations: noted by every door, seen beside the facts, ended, removed; by those alone who may."""

from __future__ import annotations

from datetime import timedelta
from html import unescape

import pytest

from events import keys
from events.pages.window import Window
from events.timelines.marks import marks_band
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.dashboard.marks import marks_in
from recovery_ops.control.dashboard.models import Annotation
from recovery_ops.control.dashboard.services import annotate, end_annotation, remove_annotation
from recovery_ops.rules.roles import Role
from tests.support.actions import asked
from tests.support.api_client import Program
from tests.support.html import Shown
from tests.support.isolated import rolled_back
from tests.support.pages import HOSTILE, signed_in, text_of, troubled_fleet
from tests.support.stories import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

HOUR = Window(start=NOW - timedelta(hours=1), end=NOW + timedelta(seconds=1))
RANGE = "from=2026-11-21T13:26:19Z&to=2026-11-21T14:26:19Z"


def noted(**given: object) -> Annotation:
    return annotate(**asked(**{"text": "deploy 2.8.1", **given})).object


def test_a_person_notes_a_deploy_and_everybody_sees_it_on_the_time_axis() -> None:
    troubled_fleet()
    client = signed_in(Role.RESPONDER)
    assert "Annotate" in text_of(client.get("/timelines"))
    said = {"text": "deploy 2.8.1", "at": "2026-11-21 14:00:00", "lasts": "moment", "tags": "Deploy, eu,"}
    answer = client.post("/timelines/annotate", said)
    assert (answer.status_code, answer["Location"]) == (303, "/timelines")
    one = Annotation.objects.get()
    assert (one.at, one.tag_names, one.by) == (NOW.replace(minute=0, second=0), ["deploy", "eu"], "ana")
    page = unescape(signed_in(Role.VIEWER, "eva").get(f"/timelines?{RANGE}&view=table").content.decode())
    assert f'href="/timelines/annotations/{one.number}"' in page
    assert "deploy 2.8.1" in page
    entry = AuditEntry.objects.get(verb="annotation.add")
    assert (entry.object, entry.after["tags"]) == ("deploy 2.8.1", ["deploy", "eu"])


def test_what_goes_on_is_there_until_somebody_ends_it_and_what_is_removed_is_gone() -> None:
    one = noted(goes_on=True, at=NOW - timedelta(hours=3))
    assert [(mark.word, mark.until) for mark in marks_in("dev", HOUR, "")] == [("deploy 2.8.1", HOUR.end)]
    client = signed_in(Role.RESPONDER)
    page = f"/timelines/annotations/{one.number}"
    buttons = [one.attributes for one in Shown(client.get(page)).root.all() if one.attributes.get("name") == "act"]
    assert [one["value"] for one in buttons] == ["end", "remove"], "it goes on"
    assert client.post(page, {"act": "end", "seen": "one"}).status_code == 409, "an unreadable version is none of its"
    assert client.post(page, {"act": "end"}).status_code == 303
    one.refresh_from_db()
    assert (one.until, one.goes_on) == (NOW, False)
    assert client.post(page, {"act": "end"}).status_code == 409, "it has ended already"
    assert client.post(page, {"act": "remove"}).status_code == 303
    assert client.get(page).status_code == 404
    assert marks_in("dev", HOUR, "") == []
    verbs = AuditEntry.objects.filter(result=AuditEntry.OK).order_by("number").values_list("verb", flat=True)
    assert list(verbs) == ["annotation.add", "annotation.end", "annotation.remove"]


def test_annotation_that_begins_later_ends_at_its_beginning() -> None:
    one = noted(goes_on=True, at=NOW + timedelta(hours=3))
    assert end_annotation(**asked(number=one.number)).object.until == one.at


SPANS = (
    # begin and end in minutes before the window's end, and whether the window of an hour has it
    (30, None, True),
    (90, None, False),
    (90, 30, True),
    (90, 61, False),
    (30, -30, True),
    (-30, -60, False),
)


def test_window_has_what_touches_it(subtests: pytest.Subtests) -> None:
    for begun_min, ended_min, is_shown in SPANS:
        with subtests.test(begun=begun_min, ended=ended_min), rolled_back():
            until = None if ended_min is None else NOW - timedelta(minutes=ended_min)
            noted(at=NOW - timedelta(minutes=begun_min), until=until)
            marks = marks_in("dev", HOUR, "")
            band = marks_band(marks, start=HOUR.start, end=HOUR.end)
            assert (len(marks), len(band.lanes), len(band.table.rows)) == (is_shown, is_shown, is_shown)


def test_of_a_breaker_its_own_and_those_of_the_whole_environment_are_shown() -> None:
    for operation in ("search_web", "embed", ""):
        noted(text=f"about {operation or 'all'}", operation=operation)
    noted(text="long ago", at=NOW - timedelta(days=2), until=NOW - timedelta(days=1))
    assert {mark.word for mark in marks_in("dev", HOUR, "embed")} == {"about embed", "about all"}
    assert len(marks_in("dev", HOUR, "")) == 3


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"text": " "}, "text"),
        ({"text": "x" * 201}, "text"),
        ({"at": NOW + timedelta(days=60)}, "at"),
        ({"until": NOW - timedelta(days=1)}, "until"),
        ({"until": NOW + timedelta(hours=1), "goes_on": True}, "until"),
        ({"tags": ["a|b"]}, "tags"),
    ],
)
def test_what_cannot_be_noted_is_refused_by_field(given: dict[str, object], field: str) -> None:
    with pytest.raises(CommandRejected) as refused:
        noted(**given)
    assert (refused.value.status, list(refused.value.fields)) == (400, [field])
    assert not Annotation.objects.exists()


def test_a_form_keeps_what_was_typed_and_says_what_is_wrong() -> None:
    client = signed_in(Role.RESPONDER)
    answer = client.post("/timelines/annotate", {"text": "freeze", "lasts": "span", "at": "noon"})
    told = Shown(answer)
    assert answer.status_code == 422
    assert told.fields["text"] == "freeze"
    errors = answer.context["form"].errors
    assert set(errors) == {"at", "until"}
    assert all(one[0] in text_of(answer) for one in errors.values())


def test_a_viewer_sees_and_does_not_note() -> None:
    one = noted()
    client = signed_in(Role.VIEWER)
    assert "Annotate" not in text_of(client.get("/timelines"))
    assert client.get("/timelines/annotate").status_code == 403
    assert client.get(f"/timelines/annotations/{one.number}").status_code == 200
    assert client.post(f"/timelines/annotations/{one.number}", {"act": "remove"}).status_code == 403
    with pytest.raises(CommandRejected):
        remove_annotation(**asked(number=99))
    with pytest.raises(CommandRejected) as refused:
        end_annotation(**asked(number=one.number))
    assert refused.value.status == 409


def test_programs_note_list_end_and_remove() -> None:
    keys.forget_keys()
    program = Program()
    status, answer = program.post("annotations", {"reason": "the pipeline did it", "note": "deploy", "goes_on": True})
    assert (status, answer["annotation"]["goes_on"]) == (200, True)
    number = answer["annotation"]["number"]
    assert program.post("annotations", {"reason": "the pipeline did it", "note": "x", "tags": ["eu"]})[0] == 200
    found = program.get("annotations?tag=eu")[1]["annotations"]
    assert [one["note"] for one in found] == ["x"]
    assert len(program.get("annotations")[1]["annotations"]) == 2
    assert program.post(f"annotations/{number}/end", {"reason": "the pipeline did it"})[0] == 200
    assert program.post(f"annotations/{number}/remove", {"reason": "the pipeline did it"})[0] == 200
    assert program.get(f"annotations/{number}")[0] == 404


def test_what_was_typed_stays_text() -> None:
    troubled_fleet()
    one = noted(text=HOSTILE[:200])
    client = signed_in(Role.RESPONDER)
    for page in (f"/timelines?{RANGE}&view=table", f"/timelines/annotations/{one.number}"):
        assert "<img" not in client.get(page).content.decode()


def test_form_key_beyond_its_length_is_rejected() -> None:
    """Cut to its length, it would be the key of another request."""
    one = noted()
    address, client = f"/timelines/annotations/{one.number}", signed_in(Role.RESPONDER)
    assert client.post(address, {"act": "remove", "key": "k" * 65}).status_code == 400
    assert client.post(address, {"act": "remove", "key": "k" * 64}).status_code == 303

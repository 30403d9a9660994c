"""The story of a question: entries at their own time, its kinds of lines, what ended similar ones."""

from __future__ import annotations

from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client

from events import keys
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.escalations.models import Escalation, EscalationNote
from recovery_ops.control.escalations.services.actions import respond
from recovery_ops.rules.roles import Role
from tests.support.actions import asked as of_ana
from tests.support.escalation_pages import questions
from tests.support.html import Shown
from tests.support.pages import signed_in
from tests.support.stories import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

SWITCHED = "the card network was switched"


@pytest.fixture
def one() -> Escalation:
    [found] = questions("charge_card")
    return found


def shown(one: Escalation, query: str = "", role: Role = Role.RESPONDER) -> str:
    return unescape(signed_in(role).get(f"/escalations/{one.pk}{query}").content.decode())


def by_program() -> Client:
    keys.forget_keys()
    return Client(headers={"authorization": f"Bearer {keys.create_key('a', ['read', 'act'], 'dev')[1]}"})


def test_an_entry_stands_where_it_was_and_says_when_it_was_written(one: Escalation) -> None:
    respond("note", **of_ana(number=one.pk, reason="a word of now"))
    earlier = NOW - timedelta(hours=2)
    client = signed_in(Role.RESPONDER)
    why = "the vendor changed its limits"
    said = {"number": one.pk, "happened_at": f"{earlier:%Y-%m-%dT%H:%M:%S}", "reason": why}
    client.post("/escalations/act/entry", said)
    note = EscalationNote.objects.get(verb="entry")
    assert (note.happened_at, note.at, note.by) == (earlier, NOW, "ana")
    page = shown(one)
    assert page.index("a word of now") < page.index(why), "newest first"
    assert (f"{earlier:%H:%M:%S}" in page, f"{NOW:%H:%M:%S}" in page) == (True, True)
    page = shown(one, "?order=oldest")
    assert page.index(why) < page.index("a word of now")
    assert AuditEntry.objects.get(verb="escalation.entry", result=AuditEntry.OK).reason == why
    assert audit.verify_chain("dev").is_whole


@pytest.mark.parametrize("off", [timedelta(days=-8), timedelta(minutes=1), timedelta(days=400)])
def test_an_entry_lies_within_the_life_of_its_question(one: Escalation, off: timedelta) -> None:
    with pytest.raises(CommandRejected) as refused:
        respond("entry", **of_ana(number=one.pk, reason="it was then", happened_at=NOW + off))
    assert refused.value.fields.keys() == {"happened_at"}
    said = {"number": one.pk, "happened_at": f"{NOW + off:%Y-%m-%dT%H:%M:%S}", "reason": "the vendor changed it"}
    answer = signed_in(Role.RESPONDER).post("/escalations/act/entry", said)
    assert answer.status_code == 422
    assert f"{one.opened_at - timedelta(days=7):%Y-%m-%d}" in Shown(answer).one("problem").text


def test_an_entry_moves_no_clock_and_may_follow_the_answer(one: Escalation) -> None:
    respond("resolve", **of_ana(number=one.pk, reason="the vendor mended it"))
    later = NOW + timedelta(days=2)
    respond("entry", **of_ana(number=one.pk, reason="the vendor told why", happened_at=later, now=later))
    one.refresh_from_db()
    assert one.resolution == "resolved"
    with pytest.raises(CommandRejected):
        respond("entry", **of_ana(number=one.pk, reason="long after it", now=NOW + timedelta(days=90)))


@pytest.mark.parametrize(("kind", "lines"), [("said", 1), ("done", 1), ("itself", 1), ("moon", 3)])
def test_the_timeline_is_narrowed_to_a_kind(one: Escalation, kind: str, lines: int) -> None:
    respond("acknowledge", **of_ana(number=one.pk, reason="I look at it now"))
    respond("note", **of_ana(number=one.pk, reason="the vendor was told"))
    assert shown(one, f"?kind={kind}").count('data-key="note-') == lines


def test_who_may_not_respond_reads_and_changes_nothing(one: Escalation) -> None:
    client = signed_in(Role.VIEWER)
    said = {"number": one.pk, "happened_at": f"{NOW:%Y-%m-%dT%H:%M:%S}", "reason": "the vendor changed it"}
    assert client.post("/escalations/act/entry", said).status_code == 403
    page = shown(one, role=Role.VIEWER)
    assert "/escalations/act/entry" not in page


def test_programs_do_the_same(one: Escalation) -> None:
    client = by_program()
    here = f"/api/v1/escalations/{one.pk}"
    send: dict[str, Any] = {"content_type": "application/json"}

    def post(path: str, **body: Any) -> Any:
        return client.post(f"{here}/{path}", {"reason": "for the post-mortem"} | body, **send).json()

    at = (NOW - timedelta(hours=1)).isoformat()
    post("entry", reason="the vendor changed its limits", happened_at=at)
    story = client.get(here).json()["story"]
    [entry] = [line for line in story if line["verb"] == "entry"]
    assert entry["at"][:19] == at[:19]
    assert post("entry", happened_at="moon")["fields"].keys() == {"happened_at"}
    assert post("entry", happened_at="2026-01-01T00:00:00")["fields"].keys() == {"happened_at"}, "of no zone"


def test_similar_questions_say_what_ended_them_and_runs_how_they_went(
    one: Escalation, django_assert_max_num_queries: Any
) -> None:
    respond("resolve", **of_ana(number=one.pk, reason=SWITCHED))
    Escalation.objects.filter(pk=one.pk).update(key="over")
    [again] = [two for two in questions("charge_card", at=10) if two.is_open]
    page = shown(again)
    assert SWITCHED in page
    assert 'href="/runs/run-charge_card"' in page
    assert 'id="recovered-title"' in page
    client = signed_in(Role.RESPONDER)
    with django_assert_max_num_queries(18):
        client.get(f"/escalations/{again.pk}")

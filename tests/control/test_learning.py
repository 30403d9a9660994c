"""What people keep of a question to learn from it: entries at their own time, stars, follow-ups, what ended others."""

from __future__ import annotations

from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client

from events import keys
from recovery_ops.control import audit
from recovery_ops.control.actions.escalations import respond
from recovery_ops.control.models import AuditEntry, Escalation, EscalationNote, EscalationStar
from recovery_ops.control.refusals import Refused
from recovery_ops.control.roles import Role
from tests.support.actions import asked as of_ana
from tests.support.escalation_pages import questions
from tests.support.html import Shown
from tests.support.pages import HOSTILE, signed_in
from tests.support.stories import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

LEARNT = "this is what to learn"
SWITCHED = "the card network was switched"
TODO = {"text": "ask the vendor for a higher limit", "owner": "li", "due_on": "2027-01-31"}


@pytest.fixture
def one() -> Escalation:
    [found] = questions("charge_card")
    return found


def shown(one: Escalation, query: str = "", role: Role = Role.RESPONDER) -> str:
    return unescape(signed_in(role).get(f"/escalations/{one.pk}{query}").content.decode())


def faulty(answer: Any) -> str:
    """The fields for which nothing was done, as the one message of an answer has them."""
    [message] = answer.context["messages"]
    return str(message.extra_tags)


def by_program() -> Client:
    keys.forget_keys()
    return Client(headers={"authorization": f"Bearer {keys.create_key('a', ['read', 'act'], 'dev')[1]}"})


# -- entries at their own time -----------------------------------------------------------------------------------------
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
    assert audit.verify("dev").is_whole


@pytest.mark.parametrize("off", [timedelta(days=-8), timedelta(minutes=1), timedelta(days=400)])
def test_an_entry_lies_within_the_life_of_its_question(one: Escalation, off: timedelta) -> None:
    with pytest.raises(Refused) as refused:
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
    with pytest.raises(Refused):
        respond("entry", **of_ana(number=one.pk, reason="long after it", now=NOW + timedelta(days=90)))


# -- stars -------------------------------------------------------------------------------------------------------------
def test_a_line_is_starred_for_the_post_mortem_and_found_by_it(one: Escalation) -> None:
    respond("note", **of_ana(number=one.pk, reason=LEARNT))
    note = EscalationNote.objects.get(verb="note")
    client = signed_in(Role.RESPONDER)
    for _ in range(2):
        client.post(f"/escalations/{one.pk}/star", {"star": note.pk})
    page = shown(one, "?kind=starred")
    assert LEARNT in page
    assert f'name="unstar" value="{note.pk}"' in page
    assert EscalationStar.objects.get().by == "ana"
    assert page.count('data-key="note-') == 1
    told = client.get(f"/escalations/{one.pk}?format=md&kind=starred").content.decode()
    assert "★" in told
    timeline = told[told.index("## Timeline") : told.index("## Who took part")]
    assert timeline.count("| opened |") == 1, "the post-mortem tells all of it"
    client.post(f"/escalations/{one.pk}/star", {"unstar": note.pk})
    assert 'data-key="note-' not in shown(one, "?kind=starred")
    verbs = AuditEntry.objects.filter(verb__contains="star", result=AuditEntry.OK).values_list("verb", flat=True)
    assert list(verbs.order_by("number")) == ["escalation.star", "escalation.unstar"]


def test_a_line_of_another_question_is_not_starred_here(one: Escalation) -> None:
    [other] = questions("search_web")
    note = other.notes.get()
    client = signed_in(Role.RESPONDER)
    for number in (note.pk, "moon"):
        told = client.post(f"/escalations/{one.pk}/star", {"star": number}, follow=True)
        assert faulty(told) == "note"
    assert not EscalationStar.objects.exists()
    assert client.post("/escalations/999999/star", {"star": note.pk}).status_code == 404


@pytest.mark.parametrize(("kind", "lines"), [("said", 1), ("done", 1), ("itself", 1), ("moon", 3)])
def test_the_timeline_is_narrowed_to_a_kind(one: Escalation, kind: str, lines: int) -> None:
    respond("acknowledge", **of_ana(number=one.pk, reason="I look at it now"))
    respond("note", **of_ana(number=one.pk, reason="the vendor was told"))
    assert shown(one, f"?kind={kind}").count('data-key="note-') == lines


# -- follow-ups --------------------------------------------------------------------------------------------------------
def test_follow_ups_have_owners_and_stand_in_the_post_mortem(one: Escalation) -> None:
    client = signed_in(Role.RESPONDER)
    client.post(f"/escalations/{one.pk}/follow-ups", TODO)
    client.post(f"/escalations/{one.pk}/follow-ups", TODO | {"text": f"read {HOSTILE} again"})
    first, second = one.follow_ups.order_by("pk")
    client.post(f"/escalations/{one.pk}/follow-ups", {"done": second.pk})
    page = shown(one)
    lines = [unescape(Shown(page).one("key", f"follow-up-{one.pk}").text) for one in (first, second)]
    assert [("li" in line, "2027-01-31" in line) for line in lines] == [(True, True)] * 2
    assert ["ana" in line for line in lines] == [False, True], "who did it"
    told = client.get(f"/escalations/{one.pk}?format=md").content.decode()
    assert f"| {TODO['text']} | li | 2027-01-31 | – |" in told
    told = client.get(f"/escalations/{one.pk}?format=json").json()
    assert [(row["owner"], row["done_at"] is None) for row in told["follow_ups"]] == [("li", True), ("li", False)]
    client.post(f"/escalations/{one.pk}/follow-ups", {"undo": second.pk})
    second.refresh_from_db()
    assert second.done_at is None
    assert first.made_by == "ana"
    assert audit.verify("dev").is_whole


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"text": ""}, "text"),
        ({"text": "short"}, "text"),
        ({"owner": ""}, "owner"),
        ({"due_on": "moon"}, "due_on"),
        ({"due_on": "1066-10-14"}, "due_on"),
    ],
)
def test_a_follow_up_that_says_too_little_is_told_so(one: Escalation, changed: dict[str, str], field: str) -> None:
    client = signed_in(Role.RESPONDER)
    answer = client.post(f"/escalations/{one.pk}/follow-ups", TODO | changed, follow=True)
    assert faulty(answer) == field
    assert not one.follow_ups.exists()


def test_who_may_not_respond_reads_and_changes_nothing(one: Escalation) -> None:
    client = signed_in(Role.VIEWER)
    assert client.post(f"/escalations/{one.pk}/follow-ups", TODO).status_code == 403
    assert client.post(f"/escalations/{one.pk}/star", {"star": one.notes.get().pk}).status_code == 403
    page = shown(one, role=Role.VIEWER)
    assert not {"star", "text", "owner", "due_on"} & Shown(page).fields.keys()


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
    starred = post("star", note=entry["number"], starred=True)["story"]
    assert [line["number"] for line in starred if line["is_starred"]] == [entry["number"]]
    assert post("star", note=0, starred=True)["code"] == "unknown_note"
    [todo] = post("follow-ups", **TODO)["follow_ups"]
    assert post("follow-ups", **TODO)["was_already"]
    [done] = post("follow-ups/done", follow_up=todo["number"], done=True)["follow_ups"]
    assert done["done_by"]
    assert post("follow-ups/done", follow_up=0, done=True)["code"] == "unknown_follow_up"
    assert client.get(here).json()["follow_ups"] == [done]


# -- what is like it, and its runs -------------------------------------------------------------------------------------
def test_similar_questions_say_what_ended_them_and_runs_how_they_went(
    one: Escalation, django_assert_max_num_queries: Any
) -> None:
    respond("resolve", **of_ana(number=one.pk, reason=SWITCHED))
    Escalation.objects.filter(pk=one.pk).update(key="over")
    [again] = [two for two in questions("charge_card", at=10) if two.is_open]
    page = shown(again)
    assert SWITCHED in page
    assert 'href="/runs/run-charge_card"' in page
    assert 'id="ladders-title"' in page
    client = signed_in(Role.RESPONDER)
    with django_assert_max_num_queries(18):
        client.get(f"/escalations/{again.pk}")

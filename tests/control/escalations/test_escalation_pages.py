"""The queue in the browser's hands: what stands where, what the buttons send, and that many are done at once."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from events.pages.empties import Why
from events.pages.window import Window
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.selectors.queue import row_of, title_of
from recovery_ops.control.escalations.selectors.subject import paragraph_of
from recovery_ops.control.escalations.selectors.timeline import questions_in
from recovery_ops.control.escalations.services.actions import RESPONSES
from recovery_ops.control.escalations.services.due import keep_deadlines
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.escalations.terms import asks_of, matter_of, then_of
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import BudgetExhausted
from recovery_ops.rules.roles import Role
from tests.support.escalation_pages import questions
from tests.support.escalations import asked
from tests.support.html import Shown
from tests.support.pages import HOSTILE, hidden, signed_in, text_of
from tests.support.stories import NOW, Story, failed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

REASON = "the customer agreed on the phone"
DOWN = "the bank *says* | it is down"


def told(queue: Any) -> dict[str, str]:
    """What the head of the queue counts."""
    return Shown(queue).one("untaken").data


def operations(queue: Any) -> list[str]:
    """What the rows of the queue are about, in their order."""
    keys = [one.removeprefix("escalation-") for one in Shown(queue).values("key") if one.startswith("escalation-")]
    return [Escalation.objects.get(pk=int(key)).operation for key in keys]


def notices(answer: Any) -> list[str]:
    """What a page says was done before."""
    return [
        one.text
        for one in Shown(answer).within("id", "toasts").root.all()
        if "notice" in one.attributes.get("class", "").split()
    ]


def acts(page: Any) -> set[str]:
    """The acts that a page links to."""
    queue = "/escalations/act/"
    return {link.removeprefix(queue).partition("?")[0] for link in Shown(page).links if link.startswith(queue)}


def test_timelines_call_not_taken_what_the_queue_does() -> None:
    held, let_lie, put_off = questions("charge_card", "publish", "refund")
    taken = {"first_acknowledged_at": NOW - timedelta(minutes=10)}
    Escalation.objects.filter(pk=held.pk).update(acknowledged_at=NOW, acknowledged_by="ana", **taken)
    Escalation.objects.filter(pk=let_lie.pk).update(**taken)
    Escalation.objects.filter(pk=put_off.pk).update(snoozed_until=NOW + timedelta(hours=1))
    client = signed_in(Role.RESPONDER)
    assert told(client.get("/escalations"))["untaken"] == "1"
    found = questions_in("dev", Window(start=NOW - timedelta(hours=1), end=NOW + timedelta(hours=1)), "")
    assert [one.name for one in found if one.is_untaken] == [f"ESC-{let_lie.pk}"]
    story = client.get(f"/escalations/{held.pk}").content.decode()
    assert re.search(r'#i-system"/></svg><div><strong>console</strong>', story), "the console bears no person's sign"


def test_the_queue_says_what_is_asked_and_what_comes_next() -> None:
    [one] = questions("charge_card", category=Category.POLICY_DENIED)
    page = signed_in(Role.RESPONDER).get("/escalations")
    said, head = text_of(page), Shown(page).one("untaken")
    assert [head.data[name] for name in ("asked", "untaken", "late", "next")] == ["1", "1", "0", str(one.pk)]
    assert "15m 00s" in head.text
    assert title_of(one) in said
    assert asks_of(one.reason, one.category) in said
    assert [row.assigned_to for row in Escalation.objects.all()] == [""]


def test_what_is_late_comes_first_and_says_by_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    questions("late")
    monkeypatch.setattr(timezone, "now", lambda: NOW + timedelta(minutes=16))
    story = Story().tell(asked(operation="new"), at=1)
    story.store()
    open_escalations("dev", NOW + timedelta(minutes=16))
    page = signed_in(Role.RESPONDER).get("/escalations")
    assert told(page)["late"] == "1"
    assert "1m 00s" in text_of(page)
    assert operations(page) == ["late", "new"]


def test_tabs_hold_what_they_say() -> None:
    first, second, third = questions("one", "two", "three")
    client = signed_in(Role.RESPONDER)
    client.post("/escalations/act/acknowledge", {"number": first.pk})
    client.post("/escalations/act/snooze", {"number": second.pk, "for_s": 900})
    client.post("/escalations/act/reject", {"number": third.pk})
    shown = {
        tab: operations(client.get(f"/escalations?tab={tab}"))
        for tab in ("open", "unacknowledged", "mine", "snoozed", "resolved")
    }
    assert shown == {
        "open": ["one"],
        "unacknowledged": [],
        "mine": ["one"],
        "snoozed": ["two"],
        "resolved": ["three"],
    }


def test_a_queue_is_chosen_by_its_name() -> None:
    questions("one", queue="billing")
    questions("two", queue="security")
    assert operations(signed_in(Role.RESPONDER).get("/escalations?queue=billing")) == ["one"]


def test_a_severity_is_chosen_and_says_what_it_hides() -> None:
    questions("one", category=Category.POLICY_DENIED)
    questions("two")
    client = signed_in(Role.RESPONDER)
    page = client.get("/escalations?severity=high")
    assert operations(page) == ["one"]
    here = [one.attributes.get("href") for one in Shown(page).root.all() if "aria-current" in one.attributes]
    assert "?severity=high" in here
    empty = client.get("/escalations?severity=low&queue=unclassified").context["empty"]
    assert (empty.why, empty.total, empty.left, empty.href) == (Why.NO_MATCH, 2, 2, "?queue=unclassified")
    assert len(operations(client.get("/escalations?severity=loud"))) == 2, "no such severity hides nothing"


def test_the_next_deadline_is_the_soonest_whatever_matters_more() -> None:
    [high] = questions("one", category=Category.POLICY_DENIED)
    [soon] = questions("two")
    Escalation.objects.filter(pk=soon.pk).update(acknowledge_by=NOW + timedelta(minutes=3))
    page = signed_in(Role.RESPONDER).get("/escalations")
    said, head = text_of(page), Shown(page).one("untaken")
    assert head.data["next"] == str(soon.pk)
    assert "3m 00s" in head.text
    assert said.index(f"ESC-{high.pk}", said.index("Question")) < said.rindex(f"ESC-{soon.pk}")


@pytest.mark.parametrize("tab", ["open", "unacknowledged", "mine", "snoozed", "resolved"])
def test_an_empty_tab_says_which_kind_of_empty_it_is(tab: str) -> None:
    answer = signed_in(Role.VIEWER).get(f"/escalations?tab={tab}")
    assert answer.status_code == 200
    assert 'class="empty"' in answer.content.decode()


def test_twenty_are_taken_with_one_press() -> None:
    many = questions(*(f"tool-{number}" for number in range(20)))
    client = signed_in(Role.RESPONDER)
    answer = client.post("/escalations/act/acknowledge", {"number": [one.pk for one in many], "back": "/escalations"})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/escalations")
    assert set(Escalation.objects.values_list("acknowledged_by", flat=True)) == {"ana"}
    [notice] = notices(client.get("/escalations"))
    assert [f"ESC-{one.pk}" in notice for one in many[4:6]] == [True, False], "five are named"
    assert "15" in notice


@pytest.mark.parametrize(
    "verb", ["acknowledge", "resolve", "snooze", "assign", "escalate", "approve", "reject", "note"]
)
def test_of_many_the_refused_stay_chosen_and_say_why(verb: str) -> None:
    closed, waiting, open_ = questions("one", "two", "three")
    client = signed_in(Role.RESPONDER)
    client.post("/escalations/act/reject", {"number": closed.pk})
    given = {"reason": REASON, "for_s": 900, "to": "ana" if verb == "assign" else "payments", "text": "kept words"}
    numbers = [closed.pk, waiting.pk, open_.pk, 999_999]
    answer = client.post(f"/escalations/act/{verb}", given | {"number": numbers, "back": "/escalations?queue=a"})
    page = answer.content.decode()
    is_refused = verb != "note"  # a comment may be made on a closed one
    assert answer.status_code == 422
    refused = [closed.pk, 999_999] if is_refused else [999_999]
    assert [int(one) for one in re.findall(r'name="number" value="(\d+)"', page)] == refused
    assert Shown(answer).values("refused") == ["closed", "unknown_escalation"][-len(refused) :]
    assert REASON in page, "what was typed stays"
    back = unescape(re.findall(r'href="([^"]*)"[^>]*>Back to the queue', page)[0])
    assert back == "/escalations?" + urlencode([("queue", "a"), *(("chosen", number) for number in refused)])


def test_every_act_is_offered_on_the_queue_for_many_at_once() -> None:
    closed, _, into = questions("one", "two", "three")
    client = signed_in(Role.RESPONDER)
    client.post("/escalations/act/resolve", {"number": closed.pk, "reason": REASON})
    pages = [client.get(f"/escalations?tab={tab}").content.decode() for tab in ("open", "resolved")]
    offered = {verb for page in pages for verb in re.findall(r'formaction="/escalations/act/(\w+)"', page)}
    assert offered == set(RESPONSES)
    assert f'name="number" value="{closed.pk}"' in pages[1]
    given = {"number": [closed.pk, into.pk], "reason": REASON, "back": "/escalations?tab=resolved"}
    assert client.post("/escalations/act/reopen", given).status_code == 422, "one of them is open"
    assert Escalation.objects.get(pk=closed.pk).is_open


def test_the_queue_keeps_chosen_what_its_address_names() -> None:
    one, two = questions("one", "two")
    page = signed_in(Role.RESPONDER).get(f"/escalations?chosen={two.pk}&chosen=x&chosen=9").content.decode()
    assert re.findall(r'value="(\d+)" checked', page) == [str(two.pk)]
    assert f'value="{one.pk}" data-keep' in page


def test_all_two_hundred_rows_of_the_queue_can_be_chosen_at_once() -> None:
    [one] = questions("one")
    numbers = [*range(900_000, 900_199), one.pk]
    answer = signed_in(Role.RESPONDER).post("/escalations/act/acknowledge", {"number": numbers})
    assert Escalation.objects.get(pk=one.pk).acknowledged_by == "ana"
    assert Shown(answer).values("refused") == ["unknown_escalation"] * 199


def test_all_that_match_are_shown_before_anything_is_done() -> None:
    first, second = questions("one", "two")
    client = signed_in(Role.RESPONDER)
    form = client.post("/escalations/act/acknowledge", {"matching": "q=one"})
    assert re.findall(r'name="number" value="(\d+)"', form.content.decode()) == [str(first.pk)]
    assert not Escalation.objects.exclude(acknowledged_at=None)
    both = client.get("/escalations/act/resolve?matching=").content.decode()
    assert re.findall(r'name="number" value="(\d+)"', both) == [str(first.pk), str(second.pk)]


def test_more_than_a_page_takes_its_number() -> None:
    [one] = questions("one")
    given = {"number": [*range(900_000, 900_200), one.pk], "reason": REASON}
    client = signed_in(Role.RESPONDER)
    answer = client.post("/escalations/act/resolve", given)
    assert (answer.status_code, list(answer.context["form"].errors)) == (422, ["confirm"])
    one.refresh_from_db()
    assert one.resolved_at is None
    client.post("/escalations/act/resolve", given | {"confirm": "201"})
    one.refresh_from_db()
    assert one.resolved_at is not None


def test_the_form_keeps_what_was_typed_and_says_what_is_wrong() -> None:
    [one] = questions("one")
    client = signed_in(Role.RESPONDER)
    form = client.get(f"/escalations/act/approve?number={one.pk}").content.decode()
    assert f'name="version" value="{one.version}"' in form
    answer = client.post("/escalations/act/approve", {"number": one.pk, "text": "typed words", "reason": "x" * 501})
    assert answer.status_code == 422
    assert "typed words" in text_of(answer)
    assert 'role="alert"' in answer.content.decode()
    assert client.post("/escalations/act/approve", {"number": one.pk, "reason": REASON}).status_code == 303
    assert Escalation.objects.get(pk=one.pk).resolution == "approved"


def test_an_old_page_is_refused_with_who_was_faster() -> None:
    [one] = questions("one")
    signed_in(Role.RESPONDER, "li").post("/escalations/act/acknowledge", {"number": one.pk})
    client = signed_in(Role.RESPONDER)
    answer = client.post("/escalations/act/approve", {"number": one.pk, "version": 1, "reason": REASON, "key": "late"})
    assert answer.status_code == 409
    assert answer.context["is_stale"]
    assert re.search(r"\bli\b", Shown(answer).one("problem").text)
    assert f'href="/escalations/{one.pk}"' in answer.content.decode()
    sent_again = {name: hidden(answer, name) for name in ("number", "version", "key")} | {"reason": REASON}
    assert client.post("/escalations/act/approve", sent_again).status_code == 303
    assert Escalation.objects.get(pk=one.pk).resolution == "approved"


def test_nothing_chosen_is_said_and_nothing_done() -> None:
    client = signed_in(Role.RESPONDER)
    assert client.post("/escalations/act/acknowledge", {}).status_code == 303
    assert len(notices(client.get("/escalations"))) == 1


@pytest.mark.parametrize("back", ["https://evil.example/", "//evil.example", "/escalationsx", "javascript:alert(1)"])
def test_nobody_is_sent_elsewhere(back: str) -> None:
    [one] = questions("one")
    answer = signed_in(Role.RESPONDER).post("/escalations/act/acknowledge", {"number": one.pk, "back": back})
    assert answer.headers["Location"] == "/escalations"


def test_a_viewer_sees_the_queue_and_no_button() -> None:
    [one] = questions("one")
    client = signed_in(Role.VIEWER)
    for path in ("/escalations", f"/escalations/{one.pk}"):
        page = client.get(path)
        assert title_of(one) in text_of(page)
        assert "/escalations/act/" not in page.content.decode()
    assert client.post("/escalations/act/acknowledge", {"number": one.pk}).status_code == 403


def test_one_question_tells_everything_a_manager_needs() -> None:
    Story().tell(failed(Category.POLICY_DENIED, "refund", message="refused by hook"), at=1100).store()
    [one] = questions("refund", category=Category.POLICY_DENIED, escalation_id="t-9", deadline_s=3000.0)
    get_user_model().objects.get_or_create(username="li")
    page = signed_in(Role.RESPONDER).get(f"/escalations/{one.pk}")
    said, paragraph = text_of(page), page.context["paragraph"]
    assert paragraph in said
    known = ("refund", "research", matter_of(one.reason, one.category), "“teapot”", "14:59:38 UTC", then_of(one))
    assert [word for word in known if word not in paragraph] == []
    assert "refused by hook" in said
    assert "run-refund" in said
    assert acts(page) >= {"approve", "reject"}
    assert "resolve" not in acts(page)
    one.ticket = ""
    assert paragraph_of(row_of(one, NOW), NOW) != paragraph, "it tells that a run waits"


def test_a_run_that_spent_its_errors_says_whose_it_was_and_what_failed_in_it() -> None:
    story = Story()
    story.tell(failed(Category.NOT_FOUND, "read_archive", message="record 7 is gone."), at=1010, run="run-7")
    story.tell(failed(Category.TIMEOUT, "search_web", message="of another run"), at=1010, run="run-8")
    story.tell(BudgetExhausted(budget="errors", spent=10, limit=10), at=1000, run="run-7").store()
    open_escalations("dev", NOW)
    one = Escalation.objects.get()
    client = signed_in(Role.RESPONDER)
    assert title_of(one) in text_of(client.get("/escalations"))
    assert "research" in title_of(one)
    page = client.get(f"/escalations/{one.pk}")
    said, paragraph = text_of(page), page.context["paragraph"]
    assert ("research" in paragraph, "10 of 10" in paragraph) == (True, True)
    assert "record 7 is gone." in said
    assert "of another run" not in said
    assert 'href="/runs/run-7"' in page.content.decode()


def test_more_runs_than_are_named_are_at_least_so_many() -> None:
    story = Story()
    for number in range(25):
        story.tell(asked(operation="refund"), at=1000, run=f"run-{number}")
    story.store()
    open_escalations("dev", NOW)
    said = text_of(signed_in(Role.VIEWER).get(f"/escalations/{Escalation.objects.get().pk}"))
    assert "25 times" in said
    assert "≥ 20" in said
    assert "15 more" in said


@pytest.mark.parametrize(("verb", "other"), [("approve", "reject"), ("reject", "approve")])
def test_the_form_says_what_becomes_of_the_words_to_the_run(verb: str, other: str) -> None:
    [one] = questions("refund", escalation_id="t-9", deadline_s=3000.0)
    client = signed_in(Role.RESPONDER)
    page, beside = (Shown(client.get(f"/escalations/act/{name}?number={one.pk}")) for name in (verb, other))
    hints = [shown.within("id", "text-hint").root.text for shown in (page, beside)]
    assert all(hints)
    assert hints[0] != hints[1]
    assert "required" not in page.within("id", "reason").root.attributes


def test_a_decided_one_says_by_whom_and_what_came_before() -> None:
    [one] = questions("refund")
    client = signed_in(Role.RESPONDER)
    client.post("/escalations/act/reject", {"number": one.pk, "reason": REASON})
    page = client.get(f"/escalations/{one.pk}")
    said = text_of(page)
    assert (page.context["one"].resolution, page.context["one"].resolved_by) == ("rejected", "ana")
    assert REASON in said
    [again] = [two for two in questions("refund", at=10) if two.is_open]
    assert f"ESC-{one.pk}" in text_of(client.get(f"/escalations/{again.pk}"))


def test_what_silence_did_is_written_down() -> None:
    [one] = questions("refund", category=Category.POLICY_DENIED, escalation_id="t")
    keep_deadlines("dev", NOW + timedelta(hours=1))
    page = signed_in(Role.VIEWER).get(f"/escalations/{one.pk}")
    assert (page.context["one"].resolution, page.context["one"].resolved_by) == ("rejected", "deadline")
    note = one.notes.get(verb="default")
    assert then_of(one) in note.text
    assert note.text in text_of(page)


def test_an_old_number_leads_to_the_one_it_was_merged_into() -> None:
    first, second = questions("one", "two")
    client = signed_in(Role.RESPONDER)
    client.post("/escalations/act/merge", {"number": second.pk, "into": first.pk})
    client.get("/escalations")  # which says that it was merged
    for fragment in ("peek", "escalation"):
        assert client.get(f"/escalations/{second.pk}", headers={"X-Fragment": fragment}).status_code == 302
    assert notices(client.get("/escalations")) == [], "a message about another page"
    assert client.get(f"/escalations/{second.pk}").headers["Location"] == f"/escalations/{first.pk}"
    [notice] = notices(client.get(f"/escalations/{first.pk}"))
    assert f"ESC-{second.pk}" in notice


def test_another_environment_has_another_queue() -> None:
    [one] = questions("one")
    Escalation.objects.update(environment="prod")
    client = signed_in(Role.RESPONDER)
    assert client.get(f"/escalations/{one.pk}").status_code == 404
    assert told(client.get("/escalations"))["asked"] == "0"


def test_what_agents_say_is_shown_and_never_run() -> None:
    [one] = questions(HOSTILE, message=HOSTILE, queue=HOSTILE)
    client = signed_in(Role.RESPONDER)
    for path in ("/escalations", f"/escalations/{one.pk}", f"/escalations/act/approve?number={one.pk}"):
        assert "<img" not in client.get(path).content.decode()


def test_what_an_agent_asks_in_its_own_words_is_the_question() -> None:
    [one] = questions(
        "refund",
        queue="refunds",
        reason="question",
        message="May 120 EUR be refunded?",
        escalation_id="t",
        deadline_s=1300.0,
        default_action="deny",
    )
    client = signed_in(Role.RESPONDER)
    page = client.get("/escalations")
    head = Shown(page).one("untaken").text
    assert ("5m 00s" in head, then_of(one) in head) == (True, True)
    assert "May 120 EUR be refunded?" in text_of(page)
    page = client.get(f"/escalations/{one.pk}")
    said = text_of(page)
    assert re.search(r"^refund\b.*\bresearch\b.*\brefunds\b", page.context["paragraph"])
    assert "failed" not in said.partition("Decision")[2].partition("Timeline")[0]


@pytest.mark.parametrize(
    ("text", "resolution", "answer"),
    [("80 EUR,\r\nby card", "approved", ""), ("", "approved", ""), ("60 EUR", "edited", "60 EUR")],
)
def test_a_proposal_is_shown_to_be_approved_as_it_is_or_changed(text: str, resolution: str, answer: str) -> None:
    [one] = questions("refund", reason="question", message="May it?", proposal="80 EUR,\nby card", escalation_id="t")
    client = signed_in(Role.RESPONDER)
    for path in ("/escalations", f"/escalations/{one.pk}"):
        assert "80 EUR, by card" in text_of(client.get(path))
    form = client.get(f"/escalations/act/approve?number={one.pk}").content.decode()
    assert ">80 EUR,\nby card</textarea>" in form
    client.post("/escalations/act/approve", {"number": one.pk, "reason": REASON, "text": text})
    one.refresh_from_db()
    assert (one.resolution, one.answer) == (resolution, answer)


def test_a_post_mortem_tells_what_the_page_tells_and_who_did_what() -> None:
    Story().tell(failed(Category.POLICY_DENIED, "refund", message="refused by hook"), at=1100).store()
    [one] = questions("refund", category=Category.POLICY_DENIED)
    client = signed_in(Role.RESPONDER)
    client.post("/escalations/act/note", {"number": one.pk, "reason": DOWN})
    client.post("/escalations/act/resolve", {"number": one.pk, "reason": REASON})
    answer = client.get(f"/escalations/{one.pk}", {"format": "md"})
    assert answer.headers["Content-Disposition"].partition("filename=")[2] == f'"post-mortem-esc-{one.pk}.md"'
    said = answer.content.decode()
    assert said.startswith(f"# Post-mortem of ESC-{one.pk}: ")
    timeline = said[said.index("## Timeline") : said.index("## Newest failures")]
    assert timeline.index("it is down") < timeline.index(REASON), "oldest first"
    assert re.sub(r"([*|])", r"\\\1", DOWN) in timeline
    assert "refused by hook" in said
    document = client.get(f"/escalations/{one.pk}", {"format": "json"}).json()
    of_it = document["escalation"]
    assert (of_it["resolution"], of_it["resolved_by"]) == ("resolved", "ana")
    assert (len(of_it["runs"]), len(of_it["instances"]), of_it["occurrences"]) == (1, 1, 1)
    assert [line for line in document["impact"] if line not in said] == []
    assert any("ana" in line for line in document["impact"])
    assert document["timeline"][-1]["text"] == REASON
    assert document["participants"][-1] == "ana"
    assert document["address"] == f"http://testserver/escalations/{one.pk}"

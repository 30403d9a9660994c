"""The post-mortem of a question: one source for the page, Markdown and JSON, complete and safe to print."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest
from django.utils import timezone

from events.capacity.detection import look
from events.capacity.models import CapacityEvent
from events.capacity.reach import read_reach
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.services.actions import respond
from recovery_ops.rules.enums import Category
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.roles import Role
from tests.support.actions import REASON, asked, small_fleet, trip
from tests.support.capacity import storm
from tests.support.escalation_pages import questions
from tests.support.pages import HOSTILE, signed_in, text_of
from tests.support.stories import NOW, Story, failed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

NO_PAYMENTS = "nothing is to be paid out for now"
HEADINGS = re.compile(r"^## (.+)$", re.MULTILINE)


@pytest.fixture
def one() -> Escalation:
    """A question that was taken, acted on and resolved."""
    Story().tell(failed(Category.POLICY_DENIED, "refund", message="refused by hook"), at=1010).store()
    [found] = questions("refund", category=Category.POLICY_DENIED)
    trip(scope=Scope(operation="ref*"), reason=NO_PAYMENTS)
    small_fleet()
    trip(scope=Scope(operation="search_web"), reason="has nothing to do with it")
    respond("acknowledge", **asked(number=found.pk, reason=""))
    respond("note", **asked(number=found.pk, reason="the bank says it is down"))
    respond("resolve", **asked(number=found.pk, reason=REASON))
    found.refresh_from_db()
    return found


def cells(page: str) -> set[str]:
    found = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", page, re.DOTALL)
    return {unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in found} - {""}


def markdown_cells(told: str) -> set[str]:
    lines = [line for line in told.splitlines() if line.startswith("| ") and "---" not in line]
    return {unescape(re.sub(r"\\(.)", r"\1", cell)).strip() for line in lines for cell in line[2:-2].split(" | ")} - {
        ""
    }


def test_the_page_says_what_the_files_say(one: Escalation) -> None:
    client, here = signed_in(Role.VIEWER, "rita"), f"/escalations/{one.pk}/post-mortem"
    page = client.get(here).content.decode()
    said = client.get(here, {"format": "md"}).content.decode()
    document = client.get(here, {"format": "json"}).json()
    assert cells(page) == markdown_cells(said)
    assert set(HEADINGS.findall(said)) <= set(re.findall(r'<h2 id="table-\d+">(.+?)</h2>', page))
    text = unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page)))
    for line in (document["summary"], *document["impact"], *document["facts"].values()):
        assert line in text
        assert line in unescape(re.sub(r"\\(.)", r"\1", said))
    assert document["title"] == f"Post-mortem of ESC-{one.pk}: refund: policy denied"
    assert document["address"] == f"http://testserver{here}"


def test_it_tells_when_what_was_done_by_whom(one: Escalation) -> None:
    client = signed_in(Role.VIEWER, "rita")
    document = client.get(f"/escalations/{one.pk}/post-mortem", {"format": "json"}).json()
    assert [line["verb"] for line in document["timeline"]] == ["opened", "acknowledge", "note", "resolve"]
    assert document["participants"] == ["console", "ana"]
    assert (document["escalation"]["resolution"], document["escalation"]["resolved_by"]) == ("resolved", "ana")
    answer = client.get(f"/escalations/{one.pk}/post-mortem")
    did = [note.did for note in answer.context["told"].story if note.by == "ana"]
    assert len(did) == 3
    page = text_of(answer)
    assert ", ".join(did) in page, "what ana did"
    assert "refused by hook" in page


def test_what_was_changed_meanwhile_is_what_reaches_the_operation(one: Escalation) -> None:
    document = signed_in(Role.VIEWER, "rita").get(f"/escalations/{one.pk}/post-mortem?format=json").json()
    [change] = document["actions"]
    assert (change["verb"], change["object"], change["by"]) == ("breaker.trip", "ref*", "ana")
    assert change["reason"] == NO_PAYMENTS


def test_its_failures_are_those_of_then_however_late_it_is_read(
    one: Escalation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timezone, "now", lambda: NOW + timedelta(days=9))
    Story().tell(failed(Category.POLICY_DENIED, "refund", message="of another week"), at=-8 * 86_400).store()
    page = text_of(signed_in(Role.VIEWER, "rita").get(f"/escalations/{one.pk}/post-mortem"))
    assert "refused by hook" in page
    assert "of another week" not in page


def test_an_open_question_says_so() -> None:
    [one] = questions("refund", category=Category.POLICY_DENIED)
    client, here = signed_in(Role.VIEWER), f"/escalations/{one.pk}/post-mortem"
    document = client.get(here, {"format": "json"}).json()
    assert document["escalation"]["resolved_at"] is None
    page = client.get(here)
    assert document["escalation"]["if_ignored"] in text_of(page)


def test_what_strangers_wrote_is_text_on_the_page() -> None:
    [one] = questions("refund", reason="question", message=HOSTILE)
    page = signed_in(Role.VIEWER).get(f"/escalations/{one.pk}/post-mortem").content.decode()
    assert HOSTILE not in page
    assert HOSTILE in unescape(page)


def test_the_number_of_a_merged_question_leads_to_the_whole() -> None:
    first, second = questions("refund", "search_web")
    respond("merge", **asked(number=second.pk, into=first.pk))
    client = signed_in(Role.VIEWER)
    answer = client.get(f"/escalations/{second.pk}/post-mortem?format=md")
    assert answer.headers["Location"] == f"/escalations/{first.pk}/post-mortem?format=md"
    assert client.get("/escalations/999/post-mortem").status_code == 404


def test_the_question_and_the_outage_lead_to_it() -> None:
    storm(Story(), since=400, until=300).store()
    look("dev", NOW)
    read_reach("dev", NOW)
    event = CapacityEvent.objects.get()
    client = signed_in(Role.RESPONDER)
    client.post(
        f"/capacity/{event.pk}/ask",
        {"queue": "vendors", "severity": "high", "question": "Is this in their contract?", "reason": REASON},
    )
    one = Escalation.objects.get()
    href = f'href="/escalations/{one.pk}/post-mortem"'
    assert href in client.get(f"/escalations/{one.pk}").content.decode()
    assert href in client.get(f"/capacity/{event.pk}").content.decode()
    told = client.get(f"/escalations/{one.pk}/post-mortem?format=json").json()
    assert told["capacity_events"] == [f"CE-{event.pk}"]
    assert any(f"CE-{event.pk}," in line for line in told["impact"])


def test_a_program_is_told_what_the_page_tells_as_json_and_as_markdown(one: Escalation) -> None:
    client, path = signed_in(), f"/escalations/{one.pk}/post-mortem"
    page = client.get(f"{path}?format=json").json()
    told = client.get(f"/api/v1{path}").json()
    assert (told["environment"], told["number"]) == ("dev", one.pk)
    assert told["post_mortem"] == {name: value for name, value in page.items() if name != "address"}
    text = client.get(f"/api/v1{path}?as=md")
    assert text["Content-Type"] == "text/markdown; charset=utf-8"
    said = client.get(f"{path}?format=md").content.decode()
    assert text.content.decode().splitlines() == said.splitlines()
    refused = client.get(f"/api/v1{path}?as=pdf")
    assert (refused.status_code, refused.json()["fields"]) == (400, {"as": "is json or md"})
    assert client.get("/api/v1/escalations/999999/post-mortem").status_code == 404


def test_of_what_was_merged_a_program_is_told_the_whole() -> None:
    part, between, whole = questions("charge", "refund", "search_web", category=Category.TIMEOUT)
    respond("merge", **asked(number=part.pk, into=between.pk, reason=REASON))
    respond("merge", **asked(number=between.pk, into=whole.pk, reason=REASON))
    path = f"/api/v1/escalations/{part.pk}/post-mortem"
    assert signed_in().get(path).json()["number"] == whole.pk
    Escalation.objects.filter(pk=whole.pk).update(merged_into=part)
    assert signed_in().get(path).status_code == 200, "also where they go round in a circle"

"""A person asks a queue about a cause of failures: one question a cause, found from both sides."""

from __future__ import annotations

from html import unescape
from typing import Any

import pytest
from django.test import Client

from events import keys
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.services.actions import respond
from recovery_ops.control.escalations.services.raising import QUEUE_CHARS
from recovery_ops.control.issues.services.issues import merge_failures
from recovery_ops.control.issues.views.facets import ASKED_WORDS
from recovery_ops.rules.enums import Category
from recovery_ops.rules.roles import Role
from tests.support.actions import asked as of_ana
from tests.support.html import Shown
from tests.support.pages import signed_in, text_of
from tests.support.stories import Story, failed
from tests.support.told import untold

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

ASKS = {
    "queue": "vendors",
    "severity": "high",
    "question": "Should the CRM stay switched off?",
    "reason": "it fails for everybody since the deploy",
}


@pytest.fixture(autouse=True)
def storm() -> None:
    """Two causes, one of them in two runs."""
    story = Story()
    story.tell(*[failed(Category.TIMEOUT, "crm.update", fingerprint="one")] * 3, at=500, run="run-1")
    story.tell(failed(Category.TIMEOUT, "crm.update", fingerprint="one"), at=450, run="run-2")
    story.tell(failed(Category.BUG, "search_web", fingerprint="two"), at=300)
    story.store()


def escalated(client: Client, *fingerprints: str, **changed: Any) -> Any:
    return client.post("/failures/act/escalate", {"fingerprint": list(fingerprints)} | ASKS | changed)


def test_a_cause_is_asked_about_and_both_pages_lead_to_each_other() -> None:
    client = signed_in(Role.RESPONDER)
    answer = escalated(client, "one")
    [one] = Escalation.objects.all()
    assert answer.headers["Location"] == f"/escalations/{one.pk}"
    assert (one.queue, one.severity, one.message, one.fingerprint) == ("vendors", "high", ASKS["question"], "one")
    assert (one.operation, one.category, one.service) == ("crm.update", "timeout", "research")
    assert (set(one.runs), one.ticket, one.default_action) == ({"run-1", "run-2"}, "", "")
    assert one.notes.get().text == ASKS["reason"]
    entry = AuditEntry.objects.get(result=AuditEntry.OK)
    assert (entry.verb, entry.object, entry.reason) == ("failure.escalate", "one", ASKS["reason"])
    assert audit.verify_chain("dev").is_whole

    page = unescape(client.get("/failures/one?range=1h").content.decode())
    assert f'href="/escalations/{one.pk}">{one}</a>' in page
    row = Shown(client.get("/failures?range=1h")).within("key", "failure-one")
    assert f"/escalations/{one.pk}" in row.links
    page = unescape(client.get(f"/escalations/{one.pk}").content.decode())
    [href] = [part.partition('"')[0] for part in page.split('href="') if part.startswith("/failures/one?")]
    assert client.get(href).status_code == 200
    assert ASKS["question"] in page
    assert ASKS["reason"] in text_of(client.get("/failures/one?range=1h&tab=log"))


def test_its_evidence_is_failures_of_that_kind_and_not_whatever_else_failed_there() -> None:
    story = Story().tell(failed(Category.TIMEOUT, "crm.update", fingerprint="one"), at=100)
    story.tell(failed(Category.OVERLOADED, "crm.update", message="says something else"), at=100).store()
    escalated(signed_in(Role.RESPONDER), "one")
    page = signed_in(Role.RESPONDER).get(f"/escalations/{Escalation.objects.get().pk}")
    assert {one.category for one in page.context["failures"]} == {Category.TIMEOUT}
    assert "says something else" not in text_of(page)


def test_a_cause_that_failed_days_ago_is_still_led_to() -> None:
    Story().tell(failed(Category.BUG, "", fingerprint="old"), at=2 * 86_400).store()
    client = signed_in(Role.RESPONDER)
    escalated(client, "old")
    one = Escalation.objects.get()
    page = unescape(client.get(f"/escalations/{one.pk}").content.decode())
    [href] = [part.partition('"')[0] for part in page.split('href="') if part.startswith("/failures/old?")]
    assert client.get(href).status_code == 200
    assert "last seen in" not in text_of(client.get(f"/escalations/{one.pk}")), "it named no operation"


def test_one_that_cannot_be_asked_about_keeps_none_of_the_others_from_it() -> None:
    client = signed_in(Role.RESPONDER)
    page = client.get(escalated(client, "one", "never told", "two").headers["Location"])
    assert set(Escalation.objects.values_list("fingerprint", flat=True)) == {"one", "two"}
    [message] = [str(one) for one in page.context["messages"]]
    assert untold(message, 2, 0, 1) == [], "asked, asked already, not asked"


def test_while_a_question_about_a_cause_is_open_there_is_no_second_one() -> None:
    client = signed_in(Role.RESPONDER)
    escalated(client, "one")
    [one] = Escalation.objects.all()
    answer = escalated(client, "one", queue="another")
    assert answer.headers["Location"] == f"/escalations/{one.pk}"
    held = Shown(client.get("/failures/act/escalate?fingerprint=one")).one("held", str(one.pk))
    assert untold(held.text, one, "vendors") == []

    respond("resolve", **of_ana(number=one.pk, reason="the vendor mended it"))
    escalated(client, "one", queue="another")
    assert Escalation.objects.filter(resolved_at=None).get().queue == "another"


def test_a_question_is_followed_into_what_it_and_its_cause_were_merged_with() -> None:
    client = signed_in(Role.RESPONDER)
    escalated(client, "one", "two")
    one, two = Escalation.objects.order_by("pk")
    assert (one.fingerprint, two.fingerprint) == ("one", "two")
    respond("merge", **of_ana(number=two.pk, into=one.pk, reason="the same database"))
    assert escalated(client, "two").headers["Location"] == f"/escalations/{one.pk}"
    merge_failures(**of_ana(fingerprints=["two", "one"], reason="the same database"))
    assert escalated(client, "two").headers["Location"] == f"/escalations/{one.pk}"
    assert f"/escalations/{one.pk}" in client.get("/failures?range=1h").content.decode()


@pytest.mark.parametrize(
    "changed",
    [{"queue": ""}, {"queue": "a\tb"}, {"question": "short"}, {"reason": "x" * 501}, {"severity": "moon"}],
    ids=str,
)
def test_what_cannot_be_asked_is_said_beside_its_field(changed: dict[str, str]) -> None:
    answer = escalated(signed_in(Role.RESPONDER), "one", **changed)
    assert answer.status_code in (400, 422)
    [name] = changed
    assert {one for one in Shown(answer).ids if one.endswith("-error")} == {f"{name}-error"}
    assert not Escalation.objects.exists()


@pytest.mark.parametrize(("length", "questions"), [(QUEUE_CHARS, 1), (QUEUE_CHARS + 1, 0)])
def test_queue_name_has_a_longest_length(length: int, questions: int) -> None:
    escalated(signed_in(Role.RESPONDER), "one", queue="q" * length)
    assert Escalation.objects.filter(queue="q" * length).count() == Escalation.objects.count() == questions


def test_a_cause_that_nobody_told_of_is_not_asked_about() -> None:
    client = signed_in(Role.RESPONDER)
    assert escalated(client, "moon").status_code == 404
    assert escalated(client, "x" * 999).status_code == 404
    assert client.get("/failures/act/escalate").headers["Location"] == "/failures"
    assert not Escalation.objects.exists()


def test_who_may_not_ask_people_is_not_offered_to() -> None:
    client = signed_in(Role.VIEWER)
    assert "Escalate…" not in text_of(client.get("/failures/one?range=1h"))
    assert "Escalate…" not in text_of(client.get("/failures?range=1h"))
    assert escalated(client, "one").status_code == 403
    assert not Escalation.objects.exists()


def test_programs_ask_about_causes_too() -> None:
    keys.forget_keys()
    client = Client(headers={"authorization": f"Bearer {keys.create_key('a', ['read', 'act'], 'dev')[1]}"})
    send: dict[str, Any] = {"content_type": "application/json"}
    body = ASKS | {"fingerprint": "one"}

    def post(**changed: Any) -> Any:
        return client.post("/api/v1/failures/escalate", body | changed, **send).json()

    assert post(dry_run=True)["dry_run"]
    assert not Escalation.objects.exists()
    made = post()
    assert (made["was_already"], made["escalation"]["fingerprint"]) == (False, "one")
    again = post(queue="another")
    assert (again["was_already"], again["escalation"]["number"]) == (True, made["escalation"]["number"])
    assert post(fingerprint="moon")["code"] == "unknown_failure"
    assert post(fingerprint="two", severity="moon")["fields"].keys() == {"severity"}
    told = {one["fingerprint"]: one["escalation"] for one in client.get("/api/v1/failures").json()["failures"]}
    assert told == {"one": made["escalation"]["number"], "two": None}


def test_causes_are_narrowed_by_whether_people_are_asked_about_them() -> None:
    client = signed_in(Role.RESPONDER)
    escalated(client, "one")
    for asked, shown, hidden in (("yes", "one", "two"), ("no", "two", "one")):
        page = client.get(f"/failures?range=1h&asked={asked}").content.decode()
        assert f'data-key="failure-{shown}"' in page
        assert f'data-key="failure-{hidden}"' not in page
    assert 'data-key="failure-two"' in client.get("/failures?range=1h&asked=moon").content.decode()
    nothing = client.get("/failures?range=1h&asked=no&operation=crm.update")
    assert ASKED_WORDS["no"] in text_of(nothing)


def test_a_provider_and_a_model_are_chosen_apart() -> None:
    story = Story().tell(failed(Category.BUG, "a", fingerprint="small", provider="sol", model="small"), at=100)
    story.tell(failed(Category.BUG, "a", fingerprint="large", provider="sol", model="large"), at=100).store()
    client = signed_in(Role.RESPONDER)
    page = unescape(client.get("/failures?range=1h&provider=sol").content.decode())
    assert 'data-key="failure-small"' in page
    assert 'data-key="failure-large"' in page
    assert 'data-key="failure-one"' not in page
    assert "model=large" in page
    assert 'data-key="failure-small"' not in client.get("/failures?range=1h&model=large").content.decode()

"""The terms of questions come from the live policy at the moment of opening: severity, queue, times and default."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.selectors.queue import row_of
from recovery_ops.control.escalations.selectors.report import report_of, weeks_before
from recovery_ops.control.escalations.services.actions import respond
from recovery_ops.control.escalations.services.due import keep_deadlines
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.escalations.services.raising import raise_about
from recovery_ops.control.escalations.terms import then_of
from recovery_ops.control.notifications.detectors.escalations import severity_of
from recovery_ops.control.policies.models.policies import PolicyProposal, PolicyRelease
from recovery_ops.control.policies.services import proposals
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import Escalated
from recovery_ops.rules.policy.escalation_terms import BUILT_IN_TERMS
from recovery_ops.rules.policy.model import BUILT_IN, document_of
from recovery_ops.rules.roles import Role
from tests.support import actions as cast
from tests.support.api_client import Program
from tests.support.escalations import act
from tests.support.html import Shown
from tests.support.pages import REASON, signed_in, text_of
from tests.support.policy_pages import NEW, typed
from tests.support.stories import NOW, Story, failed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

SPENT = {"severity": "high", "queue": "money", "acknowledge_in_s": 120, "resolve_in_s": 300, "default_action": "reject"}


def policy(terms: dict[str, Any]) -> None:
    """Let a policy with these terms live."""
    given = cast.asked(by=cast.person(Role.EDITOR, "eva"), title="terms", document={"escalation_terms": terms})
    proposals.release_proposal(**cast.asked(number=proposals.propose(**given).object.number))


def spent(operation: str = "charge_card", **more: Any) -> Escalation:
    """A run whose error budget is spent, as our runtime says it."""
    said: dict[str, Any] = {
        "queue": "errors",
        "reason": "errors",
        "default_action": "deny",
        "deadline_s": 86_400.0,
    } | more
    Story().tell(Escalated(operation=operation, message="too many", **said), at=10, run="run-1").store()
    open_escalations("dev", NOW)
    return Escalation.objects.latest("pk")


def minutes_of(one: Escalation) -> tuple[float, float]:
    return (one.acknowledge_by - NOW).total_seconds() / 60, (one.resolve_by - NOW).total_seconds() / 60


def test_where_the_policy_says_nothing_the_built_in_table_holds() -> None:
    one = spent()
    assert (one.severity, one.queue, one.default_action, minutes_of(one)) == ("normal", "errors", "abort", (15, 30))


def test_a_question_is_opened_under_the_terms_of_the_live_policy() -> None:
    policy({"errors": SPENT})
    one = spent()
    assert (one.severity, one.queue, one.default_action, minutes_of(one)) == ("high", "money", "reject", (2, 5))
    assert severity_of(one) == "critical"
    other = spent(reason="large_refund")
    assert (other.severity, other.queue, minutes_of(other)) == ("normal", "errors", (15, 30))
    page = signed_in(Role.RESPONDER).get(f"/escalations/{one.pk}")
    assert ("14:31:18 UTC" in page.context["paragraph"], then_of(one) in page.context["paragraph"]) == (True, True)
    assert "Severity high" in text_of(page)
    _, found = Program("read").get(f"escalations/{one.pk}")
    assert (found["escalation"]["severity"], found["escalation"]["queue"]) == ("high", "money")


def test_the_default_is_carried_out_at_the_deadline_of_the_policy() -> None:
    policy({"errors": SPENT})
    one = spent()
    assert keep_deadlines("dev", NOW + timedelta(seconds=299)) == 0
    assert keep_deadlines("dev", NOW + timedelta(seconds=300)) == 1
    assert then_of(one) in one.notes.get(verb="default").text


def test_a_run_that_waits_without_words_of_its_own_is_answered_by_the_table() -> None:
    policy({"quota_exhausted": {"default_action": "allow", "acknowledge_in_s": 60, "resolve_in_s": 400}})
    said: dict[str, Any] = {"reason": "quota_exhausted", "queue": "quota", "default_action": "", "deadline_s": None}
    one = spent(category=Category.QUOTA_EXHAUSTED, escalation_id="t-1", **said)
    assert one.resolve_by == NOW + timedelta(seconds=390)  # counted from when it asked
    keep_deadlines("dev", one.resolve_by)
    one.refresh_from_db()
    assert (one.resolution, one.resolved_by) == ("approved", "deadline")


def test_what_a_run_that_waits_said_goes_first() -> None:
    policy({"quota_exhausted": {"default_action": "allow", "resolve_in_s": 4000}})
    said: dict[str, Any] = {"reason": "quota_exhausted", "deadline_s": 610.0, "default_action": "deny"}
    one = spent(escalation_id="t-1", **said)
    assert (one.default_action, one.resolve_by, one.acknowledge_by) == (
        *("reject", NOW + timedelta(seconds=600)),
        NOW + timedelta(seconds=600),
    )


def test_an_open_question_keeps_its_terms_and_is_not_asked_twice() -> None:
    first = spent()
    policy({"errors": SPENT})
    assert spent().pk == first.pk
    first.refresh_from_db()
    assert (first.severity, first.queue, minutes_of(first), first.occurrences) == ("normal", "errors", (15, 30), 2)
    later = NOW + timedelta(minutes=3)
    moved = act("escalate", first, to="security", reason="this is theirs to judge", now=later)
    assert moved.acknowledge_by == later + timedelta(minutes=15)
    act("resolve", moved, reason="it was mended", now=later)
    again = act("reopen", moved, reason="it came back at once", now=later)
    assert again.resolve_by == later + timedelta(minutes=30)


def test_what_is_opened_again_has_all_of_its_time() -> None:
    one = act("resolve", spent(), reason="it was mended")
    later = NOW + timedelta(days=1)
    again = act("reopen", one, reason="it came back on Monday", now=later)
    assert row_of(again, later).resolving.share_left == 1.0
    assert row_of(again, later + timedelta(minutes=15)).resolving.share_left == 0.5


def test_a_person_asks_under_the_terms_of_questions() -> None:
    policy({"question": {"severity": "low", "queue": "desk", "acknowledge_in_s": 60, "resolve_in_s": 180}})
    Story().tell(failed(Category.TIMEOUT), at=5, run="run-7").store()
    who = cast.person(Role.RESPONDER)
    one = raise_about(**cast.asked(by=who, run="run-7", queue="owners", reason="why does it do that?")).object
    assert (one.severity, one.queue, minutes_of(one), one.default_action) == ("low", "owners", (1, 3), "")


def test_the_report_goes_by_the_terms_of_each() -> None:
    policy({"errors": SPENT})
    one = spent()
    for verb, after_s in (("acknowledge", 130), ("resolve", 290)):
        now = NOW + timedelta(seconds=after_s)
        respond(verb, number=one.pk, by=cast.person(), environment="dev", reason="mended for good", now=now)
    start, end = weeks_before(NOW + timedelta(hours=1), 1)
    week = report_of("dev", start=start, end=end, now=NOW + timedelta(hours=1)).total
    assert (week.acknowledged_in_time.kept, week.acknowledged_in_time.of) == (0, 1)
    assert (week.resolved_in_time.kept, week.resolved_in_time.of) == (1, 1)
    client = signed_in(Role.VIEWER)
    page = client.get("/report")
    assert re.findall(r"\d+m \d+s", page.context["terms"]) == ["2m 00s", "15m 00s", "5m 00s", "30m 00s"]
    assert page.context["terms"] in text_of(page)


def test_a_document_of_a_version_that_allowed_more_opens_questions_all_the_same() -> None:
    policy({"errors": SPENT})
    older = PolicyRelease.objects.get()
    older.pk, older.version = None, older.version + 1
    older.document = {"escalation_terms": {"errors": SPENT, "other": {"severity": "urgent"}, "gremlins": {}}}
    PolicyRelease.objects.bulk_create([older])
    assert (spent().severity, spent(reason="large_refund").severity) == ("high", "normal")


# -- the document ------------------------------------------------------------------------------------------------------
def test_the_form_shows_the_table_and_keeps_what_is_typed() -> None:
    client = signed_in(Role.EDITOR)
    page = client.get(NEW)
    hint = Shown(page).within("id", "escalation_terms.policy_denied.severity-hint").root.text
    assert BUILT_IN_TERMS["policy_denied"].severity in hint
    filled = typed(page) | {
        "escalation_terms.errors.queue": "money",
        "escalation_terms.errors.resolve_in_s": "600",
        "escalation_terms.policy_denied.severity": "normal",
    }
    wrong = client.post(NEW, filled | {"act": "check"})
    fault = Shown(wrong).within("id", "escalation_terms.errors.acknowledge_in_s-error").root.text
    assert ("600 s" in fault, "900 s" in fault) == (True, True)
    filled |= {"escalation_terms.errors.acknowledge_in_s": "120"}
    as_json = client.post(NEW, filled | {"act": "json"})
    terms = {
        "policy_denied": {"severity": "normal"},
        "errors": {"queue": "money", "acknowledge_in_s": 120, "resolve_in_s": 600},
    }
    assert json.loads(typed(as_json)["text"])["escalation_terms"] == terms
    client.post(NEW, filled | {"act": "save", "title": "money matters", "reason": REASON})
    assert PolicyProposal.objects.get().document["escalation_terms"] == terms


def test_the_program_is_told_each_fault_and_each_change() -> None:
    wrong = {"escalation_terms": {"gremlins": {}, "unknown": {"default_action": "allow"}}}
    _, found = Program("read").post("policies/check", {"document": wrong})
    assert [one["path"] for one in found["problems"]] == [
        "escalation_terms.gremlins",
        "escalation_terms.unknown.default_action",
    ]
    right = {**document_of(BUILT_IN), "escalation_terms": {"errors": {"resolve_in_s": 1200}}}
    _, found = Program("read").post("policies/check", {"document": right})
    assert [(one["path"], one["before"], one["after"]) for one in found["changes"]] == [
        ("escalation_terms.errors.resolve_in_s", 1800, 1200)
    ]

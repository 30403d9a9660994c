"""Questions by the API: what people do on the page, one or many at once, tried first, and never stale."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from events import keys
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.escalations.api import VERBS
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.escalations.terms import then_of
from recovery_ops.rules.enums import Category
from recovery_ops.rules.policy.escalation_terms import STAY_CLOSED
from recovery_ops.rules.roles import Role
from tests.support.api_client import Program
from tests.support.channels import channel
from tests.support.escalation_policies import chain
from tests.support.escalations import asked
from tests.support.pages import signed_in
from tests.support.stories import NOW, Story

pytestmark = pytest.mark.django_db
WHY = {"reason": "decided by the deploy script"}


@pytest.fixture(autouse=True)
def _fresh_keys() -> None:
    keys.forget_keys()


def question(**more: Any) -> Escalation:
    """Asked by the clock that the API goes by."""
    now = timezone.now()
    Story().tell(asked(**more), at=(NOW - now).total_seconds() + 400, run="run-1").store()
    open_escalations("dev", now)
    return Escalation.objects.latest("pk")


def test_a_question_is_read_with_its_clocks_and_its_story() -> None:
    one = question()
    program = Program("read")
    status, found = program.get("escalations")
    assert (status, found["counts"]["open"]) == (200, 1)
    [row] = found["escalations"]
    assert (row["number"], row["title"]) == (one.pk, "charge_card: unknown")
    assert (one.default_action, row["if_ignored"]) == (STAY_CLOSED, then_of(one))
    assert row["resolving"]["is_running"]
    status, found = program.get(f"escalations/{one.pk}")
    assert (status, [note["verb"] for note in found["story"]]) == (200, ["opened"])
    assert program.get("escalations/999")[1]["code"] == "unknown_escalation"
    assert program.get("escalations", tab="all")[1]["fields"].keys() == {"tab"}


def test_one_severity_is_asked_for() -> None:
    high = question(operation="a", category=Category.POLICY_DENIED)
    normal = question(operation="b")
    program = Program("read")
    found = {
        word: [one["number"] for one in program.get("escalations", severity=word)[1]["escalations"]]
        for word in ("high", "normal", "low")
    }
    assert found == {"high": [high.pk], "normal": [normal.pk], "low": []}
    assert program.get("escalations", severity="loud")[1]["fields"].keys() == {"severity"}


def test_every_act_of_the_page_is_there() -> None:
    signed_in(Role.RESPONDER, "bob")
    program = Program()
    chain((0, channel()), (15, channel(name="lead")))
    acts: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("acknowledge", {}, {"acknowledged_by": "deployer"}),
        ("assign", {"to": "bob"}, {"assigned_to": "bob"}),
        ("snooze", {"for_s": 600}, {}),
        ("escalate", {"to": "payments"}, {"queue": "payments", "assigned_to": ""}),
        ("step", {"step": 2}, {"acknowledged_by": ""}),
        ("note", {}, {}),
        ("entry", {}, {}),
        ("label", {"labels": "vip, billing"}, {"labels": ["billing", "vip"]}),
        ("resolve", {}, {"resolution": "resolved"}),
        ("reopen", {}, {"resolution": ""}),
        ("edit", {"text": "12 EUR"}, {"resolution": "edited", "answer": "12 EUR"}),
    ]
    one = question()
    for verb, fields, expected in acts:
        status, done = program.post(f"escalations/{one.pk}/{verb}", WHY | fields)
        assert status == 200, done
        assert {name: done["escalation"][name] for name in expected} == expected
    other, into = question(operation="a"), question(operation="b")
    assert program.post(f"escalations/{other.pk}/merge", WHY | {"into": into.pk})[0] == 200
    assert program.post(f"escalations/{into.pk}/reject", WHY)[1]["escalation"]["resolution"] == "rejected"
    assert program.post(f"escalations/{question(operation='c').pk}/approve", WHY)[0] == 200
    assert {entry.verb.partition(".")[2] for entry in AuditEntry.objects.filter(channel="api")} == set(VERBS) - {"edit"}


def test_what_was_looked_at_before_somebody_acted_is_refused() -> None:
    one, program = question(), Program()
    assert program.post(f"escalations/{one.pk}/note", WHY, if_match=f'"{one.version}"')[0] == 200
    status, problem = program.post(f"escalations/{one.pk}/approve", WHY, if_match=f'"{one.version}"')
    assert (status, problem["code"]) == (409, "stale")


def test_a_dry_run_changes_nothing_and_a_key_is_one_change() -> None:
    one, program = question(), Program()
    status, done = program.post(f"escalations/{one.pk}/approve", WHY | {"dry_run": True})
    assert (status, done["dry_run"], done["escalation"]["resolution"]) == (200, True, "approved")
    assert Escalation.objects.get(pk=one.pk).is_open
    for _ in range(2):
        program.post(f"escalations/{one.pk}/note", WHY, idempotency_key="once")
    assert AuditEntry.objects.filter(verb="escalation.note").count() == 1


def test_of_many_each_is_done_or_refused_by_itself() -> None:
    one, waiting = question(), question(escalation_id="t-1", deadline_s=3600.0)
    program = Program()
    body = WHY | {"verb": "resolve", "numbers": [one.pk, waiting.pk, 999]}
    status, found = program.post("escalations", body, idempotency_key="many")
    assert (status, found["refused"]) == (200, 2)
    assert found["results"][0]["done"]["escalation"]["resolution"] == "resolved"
    assert [row["problem"]["code"] for row in found["results"][1:]] == ["waited_for", "unknown_escalation"]
    again = program.post("escalations", body, idempotency_key="many")[1]
    assert again["results"][0]["done"]["was_already"]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("escalations", {"verb": "shout", "numbers": [1]}, "verb"),
        ("escalations", {"verb": "note", "numbers": ["1"]}, "numbers"),
        ("escalations", {"verb": "note", "numbers": []}, "numbers"),
        ("escalations/1/edit", {"text": " "}, "text"),
        ("escalations/1/snooze", {"for_s": "long"}, "for_s"),
        ("escalations/1/assign", {}, "to"),
        ("escalations/{}/snooze", {"for_s": -5}, "for_s"),
        ("escalations/{}/snooze", {"for_s": 1e12}, "for_s"),
        ("escalations/{}/assign", {"to": "nobody\0"}, "to"),
        ("escalations/{}/assign", {"to": "looker"}, "to"),
        ("escalations/{}/escalate", {"to": " "}, "to"),
        ("escalations/{}/escalate", {"to": "x" * 65}, "to"),
        ("escalations/{}/merge", {"into": 0}, "into"),
        ("escalations/{}/merge", {"into": 999_999}, "into"),
        ("escalations/{}/approve", {"text": "yes\0"}, "text"),
        ("escalations/{}/approve", {"text": "x" * 4001}, "text"),
        ("escalations/{}/note", {"reason": "short"}, "reason"),
        ("escalations/{}/note", {"reason": "a long enough \0 reason"}, "reason"),
        ("escalations", {"verb": "note", "numbers": [1], "for_s": 60}, "for_s"),
        ("escalations", {"verb": "assign", "numbers": [1]}, "to"),
        ("escalations", {"verb": "snooze", "numbers": [1]}, "for_s"),
        ("escalations", {"verb": "snooze", "numbers": [1], "for_s": -5}, "for_s"),
        ("escalations", {"verb": "note", "numbers": [1], "reason": "short"}, "reason"),
    ],
)
def test_what_is_missing_or_no_such_thing_is_named(path: str, body: dict[str, Any], field: str) -> None:
    signed_in(Role.VIEWER, "looker")
    one = question() if "{}" in path else None
    status, problem = Program().post(path.format(one.pk if one else ""), WHY | body)
    assert (status in (400, 404), list(problem["fields"])) == (True, [field])


def test_a_key_that_may_only_read_decides_nothing() -> None:
    one = question(category=Category.POLICY_DENIED)
    assert Program("read").post(f"escalations/{one.pk}/approve", WHY)[0] == 403
    assert timedelta() < one.resolve_by - one.opened_at

"""Each act on an escalation changes these fields of its row and no other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.services.actions import RESPONSES, respond
from recovery_ops.control.escalations.services.due import keep_deadlines
from recovery_ops.rules.roles import Role
from tests.support.actions import REASON, person
from tests.support.channels import channel
from tests.support.escalation_policies import chain
from tests.support.isolated import rolled_back
from tests.support.rows import row
from tests.support.stories import NOW

pytestmark = pytest.mark.django_db

AT, MINUTE = NOW + timedelta(seconds=90), timedelta(minutes=1)
AWAKE: dict[str, Any] = {"snoozed_until": None}
UNACKNOWLEDGED: dict[str, Any] = {"acknowledged_at": None, "acknowledged_by": ""}
FREE: dict[str, Any] = {**UNACKNOWLEDGED, "assignee": None, "assigned_to": ""}
TIME_ANEW: dict[str, Any] = {"acknowledge_by": AT + 7 * MINUTE, **AWAKE}
OVER: dict[str, Any] = {"resolved_at": AT, "resolved_by": "ana", **AWAKE}
_OPEN: dict[str, Any] = {"resolved_at": None, "resolved_by": "", "resolution": "", "answer": ""}

INTO = "the other one"
DUE = "what is due is done"
DECIDER = person(Role.APPROVER)

CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "acknowledge": ("acknowledge", {}, {}, {"acknowledged_at": AT, "acknowledged_by": "ana", **AWAKE}),
    "acknowledge first": (
        "acknowledge",
        {},
        {**FREE, "first_acknowledged_at": None},
        {
            "acknowledged_at": AT,
            "acknowledged_by": "ana",
            "first_acknowledged_at": AT,
            "assigned_to": "ana",
            **AWAKE,
        },
    ),
    "assign": ("assign", {"to": "ana"}, {}, {"assignee": "ana", "assigned_to": "ana"}),
    "snooze": ("snooze", {"for_s": 300.0}, {}, {"snoozed_until": AT + 5 * MINUTE}),
    "escalate": ("escalate", {"to": "payments"}, {}, {"queue": "payments", **FREE, **TIME_ANEW}),
    "step": ("step", {"step": 2}, {}, {**UNACKNOWLEDGED, **TIME_ANEW}),
    "note": ("note", {}, {}, {}),
    "label": ("label", {"labels": "VIP, -old"}, {"labels": "|kept|old|"}, {"labels": "|kept|vip|"}),
    "resolve": ("resolve", {}, {}, {**OVER, "resolution": "resolved"}),
    "reopen": (
        "reopen",
        {},
        {"resolved_at": NOW, "resolved_by": "bob", "resolution": "resolved", "answer": "x", "default_done_at": NOW},
        {
            **_OPEN,
            **UNACKNOWLEDGED,
            **TIME_ANEW,
            "default_done_at": None,
            "resolve_by": AT + 11 * MINUTE,
        },
    ),
    "approve": ("approve", {}, {}, {**OVER, "resolution": "approved"}),
    "edit": ("approve", {"text": "12 EUR"}, {}, {**OVER, "resolution": "edited", "answer": "12 EUR"}),
    "reject": ("reject", {"text": "no"}, {}, {**OVER, "resolution": "rejected", "answer": "no"}),
    "merge": ("merge", {"into": INTO}, {}, {**OVER, "resolution": "merged", "merged_into": INTO}),
    "entry": ("entry", {}, {}, {}),
    "deadline decides": (
        DUE,
        {},
        {"resolve_by": AT, "default_action": "reject", "snoozed_until": AT},
        {**OVER, "resolved_by": "deadline", "resolution": "rejected", "default_done_at": AT},
    ),
    "deadline decides nothing": (DUE, {}, {"resolve_by": AT, "default_action": "stay_closed"}, {"default_done_at": AT}),
    "acknowledgement expires": (
        DUE,
        {},
        {"resolve_in_s": 180.0},
        {**UNACKNOWLEDGED, "acknowledge_by": AT + 7 * MINUTE},
    ),
    "acknowledgement expires late": (
        DUE,
        {},
        {"resolve_in_s": 180.0, "resolve_by": AT + MINUTE},
        {**UNACKNOWLEDGED, "acknowledge_by": AT + MINUTE},
    ),
    "snooze ends": (DUE, {}, {"snoozed_until": AT}, AWAKE),
}
"""The act, what is said, what stood in the row, and what stands there afterwards."""


def fields(one: Escalation) -> dict[str, Any]:
    found = {link.name: getattr(one, link.name) for link in one._meta.concrete_fields}
    return found | {"assignee": one.assignee and one.assignee.get_username()}


def test_act_changes_its_fields_alone(subtests: pytest.Subtests) -> None:
    assert {verb for verb, *_ in CASES.values()} == {*RESPONSES, DUE}
    ana, bob = (get_user_model().objects.create(username=name) for name in ("ana", "bob"))
    RoleGrant.objects.create(user=ana, environment="dev", role=Role.RESPONDER)
    chain((0, channel()), (15, channel(name="lead")), name="owners")
    for told, (verb, said, before, changed) in CASES.items():
        with subtests.test(told), rolled_back():
            held: dict[str, Any] = {
                "environment": "dev",
                "queue": "owners",
                "acknowledge_in_s": 420.0,
                "resolve_in_s": 660.0,
                "opened_at": NOW,
                "seen_at": NOW,
                "acknowledge_by": NOW + MINUTE,
                "resolve_by": NOW + 60 * MINUTE,
                "acknowledged_at": NOW,
                "acknowledged_by": "bob",
                "first_acknowledged_at": NOW,
                "assignee": bob,
                "assigned_to": "bob",
                "snoozed_until": NOW + 5 * MINUTE,
            }
            one, into = row(Escalation, **held | before), row(Escalation, **held, key="other")
            old = fields(Escalation.objects.get(pk=one.pk))
            if verb == DUE:
                keep_deadlines("dev", AT - timedelta(microseconds=1))
                assert fields(Escalation.objects.get(pk=one.pk)) == old
                assert keep_deadlines("dev", AT) == 1
            else:
                words: dict[str, Any] = {name: into.pk if value == INTO else value for name, value in said.items()}
                respond(verb, number=one.pk, by=DECIDER, environment="dev", reason=REASON, now=AT, **words)
            expected = {name: into if value == INTO else value for name, value in changed.items()}
            new = fields(Escalation.objects.get(pk=one.pk))
            versions = old.pop("version"), new.pop("version")
            assert versions[1] == versions[0] + (verb != DUE or "default_done_at" in changed)
            assert {name: value for name, value in new.items() if value != old[name]} == {
                name: value for name, value in expected.items() if value != old[name]
            }

"""Every act on a question, through every door, for one and for many, with a row of the audit log for each.

The doors are the page and the queue (forms), the API for one and for many; tests/cli/test_cli_escalations.py goes
through the same verbs on the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest
from django.utils import timezone

from events import keys
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.escalations.api import EDIT, VERBS
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.services.actions import RESPONSES, respond
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.rules.notifications.escalation_levels import GOES_ON
from recovery_ops.rules.roles import Role
from tests.support.api_client import Program
from tests.support.channels import channel
from tests.support.escalation_policies import chain
from tests.support.escalations import asked, person
from tests.support.isolated import rolled_back
from tests.support.pages import signed_in
from tests.support.stories import NOW, Story

pytestmark = pytest.mark.django_db
REASON = "The customer agreed on the phone."
Door = Callable[[str, Sequence[int], dict[str, Any]], None]


def by_form(verb: str, numbers: Sequence[int], words: dict[str, Any]) -> None:
    """On the page an approval with other words is an edit."""
    act = "approve" if verb == EDIT else verb
    sent = {"number": list(numbers), "reason": REASON, "for_s": 900, **words}
    answer = signed_in(Role.RESPONDER).post(f"/escalations/act/{act}", sent)
    assert answer.status_code == 303, answer.content


def by_api_each(verb: str, numbers: Sequence[int], words: dict[str, Any]) -> None:
    program = Program()
    for number in numbers:
        status, answer = program.post(f"escalations/{number}/{verb}", {"reason": REASON, **words})
        assert status == 200, answer


def by_api_at_once(verb: str, numbers: Sequence[int], words: dict[str, Any]) -> None:
    body = {"verb": verb, "numbers": list(numbers), "reason": REASON, **words}
    status, answer = Program().post("escalations", body)
    assert (status, answer["refused"]) == (200, 0), answer


def questions(*operations: str) -> list[Escalation]:
    """Asked by the clock that the API goes by."""
    now, story = timezone.now(), Story()
    for operation in operations:
        story.tell(asked(operation=operation), at=(NOW - now).total_seconds() + 400, run=f"run-{operation}")
    story.store()
    open_escalations("dev", now)
    return list(Escalation.objects.order_by("pk"))


CHANGED: dict[str, dict[str, Any]] = {
    "assign": {"assigned_to": "bob"},
    "escalate": {"queue": "payments"},
    "merge": {"resolution": "merged"},
    "approve": {"resolution": "approved"},
    EDIT: {"resolution": "edited", "answer": "12 EUR"},
    "reject": {"resolution": "rejected"},
    "resolve": {"resolution": "resolved"},
    "reopen": {"resolution": ""},
    "note": {"resolution": ""},
    "label": {"labels": "|billing|vip|"},
}
"""What stands in the row afterwards; who took it and until when it sleeps is looked at below."""


@pytest.mark.full
def test_every_act_is_done_by_every_door_for_one_and_for_many(subtests: pytest.Subtests) -> None:
    for verb, many, door in product(VERBS, (1, 3), (by_form, by_api_each, by_api_at_once)):
        with subtests.test(verb=verb, many=many, door=door.__name__), rolled_back():
            does(verb, many, door)


def does(verb: str, many: int, door: Door) -> None:
    """One act through one door, on a store of its own."""
    keys.forget_keys()
    signed_in(Role.RESPONDER, "bob")
    *ours, into = questions(*(f"tool-{number}" for number in range(many)), "into")
    if verb == "reopen":
        for one in ours:
            respond("resolve", number=one.pk, by=person(), environment="dev", reason=REASON)
    if verb == GOES_ON:
        chain((0, channel()), (15, channel(name="lead")))
    words: dict[str, dict[str, Any]] = {
        GOES_ON: {"step": 2},
        "assign": {"to": "bob"},
        "escalate": {"to": "payments"},
        "snooze": {"for_s": 900},
        "label": {"labels": "VIP, billing"},
        "merge": {"into": into.pk},
        EDIT: {"text": "12 EUR"},
    }
    before = AuditEntry.objects.count()
    door(verb, [one.pk for one in ours], words.get(verb, {}))
    name = "approve" if verb == EDIT else verb
    rows = AuditEntry.objects.order_by("number")[before:]
    assert [(one.verb, one.object, one.reason, one.result) for one in rows] == [
        (f"escalation.{name}", str(one), REASON, AuditEntry.OK) for one in ours
    ]
    for one in ours:
        one.refresh_from_db()
        assert {field: getattr(one, field) for field in CHANGED.get(verb, {})} == CHANGED.get(verb, {})
        assert one.notes.filter(verb=name, text=REASON).count() == 1, "and its story tells it"
        assert bool(one.acknowledged_by) == (verb == "acknowledge")
        assert (one.snoozed_until is not None) == (verb == "snooze")


def test_no_act_is_forgotten() -> None:
    assert set(VERBS) == {*RESPONSES, EDIT}

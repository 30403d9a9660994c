"""Labels of escalations, what the queue is narrowed by, and who else looks at one."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from events.pages.empties import Why
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.rules.roles import Role
from tests.support.escalation_pages import questions
from tests.support.html import Shown
from tests.support.pages import signed_in
from tests.support.stories import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def label(one: Escalation, labels: str, **more: str) -> int:
    form = {"number": str(one.pk), "labels": labels, **more}
    return int(signed_in(Role.RESPONDER).post("/escalations/act/label", form).status_code)


def shown(path: str) -> list[int]:
    page = signed_in(Role.RESPONDER).get(path).content.decode()
    return sorted(map(int, re.findall(r'data-key="escalation-(\d+)"', page)))


def beside(answer: Any) -> list[str]:
    """Who else looks at it."""
    return [one.text for one in Shown(answer).root.all() if one.tag == "strong"]


def test_labels_come_go_and_stand_in_the_queue_the_page_and_the_log() -> None:
    [one] = questions("charge_card")
    assert label(one, "VIP,  billing , vip") == 303
    one.refresh_from_db()
    assert one.label_names == ["billing", "vip"]
    assert label(one, "-vip, spring") == 303
    one.refresh_from_db()
    assert one.label_names == ["billing", "spring"]
    assert AuditEntry.objects.latest("number").after["labels"] == ["billing", "spring"]
    client = signed_in(Role.RESPONDER)
    for path in ("/escalations", f"/escalations/{one.pk}"):
        assert '<span class="tag">spring</span>' in client.get(path).content.decode()


@pytest.mark.parametrize("labels", ["", " , ", "a|b", "x" * 41, ",".join(f"l{n}" for n in range(11))])
def test_what_is_no_label_is_refused_and_kept_in_the_form(labels: str) -> None:
    [one] = questions("charge_card")
    assert label(one, labels) == 422
    one.refresh_from_db()
    assert one.labels == ""


def test_a_closed_one_is_labelled_too() -> None:
    [one] = questions("charge_card")
    Escalation.objects.update(resolved_at=NOW, resolved_by="ana", resolution="resolved")
    assert label(one, "post-mortem") == 303


def test_the_queue_is_narrowed_by_label_owner_words_and_what_is_due() -> None:
    first, second, third = questions("charge_card", "publish", "crm")
    label(first, "vip")
    label(second, "vipers")
    Escalation.objects.filter(pk=second.pk).update(assigned_to="bob")
    late, soon = NOW - timedelta(minutes=1), NOW + timedelta(minutes=5)
    later = NOW + timedelta(hours=9)
    for one, due in ((first, late), (second, soon), (third, later)):
        Escalation.objects.filter(pk=one.pk).update(resolve_by=due, acknowledge_by=later)
    assert shown("/escalations?label=vip") == [first.pk]
    assert shown("/escalations?owner=bob") == [second.pk]
    assert shown("/escalations?owner=nobody") == [first.pk, third.pk]
    assert shown("/escalations?q=CHARGE") == [first.pk]
    assert shown("/escalations?due=late") == [first.pk]
    assert shown("/escalations?due=soon") == [second.pk]
    empty = signed_in(Role.RESPONDER).get("/escalations?label=vip&owner=bob").context["empty"]
    assert (empty.why, empty.total, empty.left) == (Why.NO_MATCH, 3, 1)


def test_the_queue_is_narrowed_by_agent_and_cause() -> None:
    first, second = questions("charge_card", "publish")
    Escalation.objects.filter(pk=second.pk).update(category="policy_denied", service="editorial")
    page = signed_in(Role.RESPONDER).get("/escalations").content.decode()
    assert '<select id="of-service"' in page
    assert "<option>policy_denied</option>" in page
    assert shown("/escalations?service=editorial") == [second.pk]
    assert shown("/escalations?category=policy_denied") == [second.pk]
    assert shown(f"/escalations?service={first.service}") == [first.pk]
    none = signed_in(Role.RESPONDER).get(f"/escalations?service={first.service}&category=policy_denied")
    assert none.context["narrowed"].given == {"service": "research", "category": "policy_denied"}
    assert (none.context["empty"].total, none.context["empty"].left) == (2, 1)

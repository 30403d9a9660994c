"""Every tab and filter of the queue keeps the rows that a slow recount keeps, in its order, and counts as many."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from recovery_ops.control.escalations.models import Escalation
from recovery_ops.rules.roles import Role
from tests.support.pages import signed_in
from tests.support.rows import row
from tests.support.stories import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

Keeps = Callable[[Escalation], bool]
SEVERITIES = ("low", "normal", "high")
SOON, WEEK = timedelta(minutes=15), timedelta(days=7)


def in_s(seconds: float | None) -> datetime | None:
    return None if seconds is None else NOW + timedelta(seconds=seconds)


def nth(number: int, *values: Any) -> Any:
    return values[number % len(values)]


@pytest.fixture
def queue() -> list[Escalation]:
    """Questions whose fields cycle through their values, boundaries included; as many in another environment."""
    people = [get_user_model().objects.create(username=name) for name in ("ana", "bob")]
    made = [
        row(
            Escalation,
            environment=environment,
            key=f"{environment}-{number}",
            queue=nth(number, "owners", "billing"),
            severity=nth(number, "normal", "high", "low"),
            reason=nth(number, "policy", "budget", "unknown"),
            category=nth(number, "timeout", "overloaded"),
            operation=nth(number, "search_web", "refund", "charge", "crm"),
            message=nth(number, "", "Pay 40 EUR?"),
            proposal=nth(number, "", "", "40 CHF"),
            service=nth(number, "research", "payments", "search"),
            opened_at=in_s(nth(number, -3600, -3599, -3601, -60)),
            seen_at=NOW,
            acknowledge_by=in_s(nth(number, 0, -1, 1, 900, 899, 901, 5000)),
            resolve_by=in_s(nth(number // 2, 900, 7200, 899, 0, -1, 901, 3)),
            acknowledged_at=in_s(nth(number // 3, None, -0.5, None)),
            assignee=(holder := nth(number, None, *people)),
            assigned_to="" if holder is None else holder.username,
            snoozed_until=in_s(nth(number // 2, None, 0, None, 1, None, -1)),
            labels=nth(number, "", "|billing|vip|", "|vips|", "|vip|"),
            default_done_at=in_s(nth(number, None, None, None, None, -10)),
            resolved_at=in_s(nth(number // 4, None, None, -10, None, -WEEK.total_seconds() - number % 2)),
        )
        for environment in ("dev", "test")
        for number in range(84)
    ]
    return [one for one in made if one.environment == "dev"]


def is_late(one: Escalation) -> bool:
    return one.resolve_by < NOW or (one.acknowledged_at is None and one.acknowledge_by < NOW)


def is_soon(one: Escalation) -> bool:
    near = NOW + SOON
    return one.resolve_by < near or (one.acknowledged_at is None and one.acknowledge_by < near)


def is_awake(one: Escalation) -> bool:
    return one.resolved_at is None and (one.snoozed_until is None or one.snoozed_until <= NOW)


TABS: dict[str, Keeps] = {
    "open": is_awake,
    "unacknowledged": lambda one: is_awake(one) and one.acknowledged_at is None,
    "mine": lambda one: one.resolved_at is None and one.assigned_to == "ana",
    "snoozed": lambda one: one.resolved_at is None and not is_awake(one),
    "resolved": lambda one: one.resolved_at is not None and one.resolved_at >= NOW - WEEK,
}
FILTERS: dict[tuple[str, str], Keeps] = {
    ("queue", "owners"): lambda one: one.queue == "owners",
    ("severity", "high"): lambda one: one.severity == "high",
    ("owner", "bob"): lambda one: one.assigned_to == "bob",
    ("owner", "nobody"): lambda one: one.assigned_to == "",
    ("label", "VIP"): lambda one: "vip" in one.labels.split("|"),
    ("due", "late"): lambda one: one.resolved_at is None and one.default_done_at is None and is_late(one),
    ("due", "soon"): lambda one: (
        one.resolved_at is None and one.default_done_at is None and is_soon(one) and not is_late(one)
    ),
    ("service", "search"): lambda one: one.service == "search",
    ("category", "timeout"): lambda one: one.category == "timeout",
    ("age", "1h"): lambda one: one.opened_at <= NOW - timedelta(hours=1),
    ("q", "REFUND"): lambda one: one.operation == "refund",
    ("q", "research"): lambda one: one.service == "research",
    ("q", "overload"): lambda one: one.category == "overloaded",
    ("q", "budget"): lambda one: one.reason == "budget",
    ("q", "40 eur"): lambda one: one.message != "",
    ("q", "40 chf"): lambda one: one.proposal != "",
}


def test_each_filter_keeps_the_rows_of_a_recount(queue: list[Escalation], subtests: pytest.Subtests) -> None:
    client = signed_in(Role.OPERATOR, "ana")
    for (name, value), keeps in FILTERS.items():
        for tab, is_in in TABS.items():
            with subtests.test(tab=tab, name=name, value=value):
                answer = client.get("/api/v1/escalations", {"tab": tab, name: value, "limit": "200"}).json()
                found = [one["number"] for one in answer["escalations"]]
                assert sorted(found) == sorted(one.pk for one in queue if is_in(one) and keeps(one))


def test_each_tab_keeps_and_counts_the_rows_of_a_recount(queue: list[Escalation], subtests: pytest.Subtests) -> None:
    client = signed_in(Role.OPERATOR, "ana")
    for tab, is_in in TABS.items():
        with subtests.test(tab=tab):
            answer = client.get("/api/v1/escalations", {"tab": tab, "limit": "200"}).json()
            found = [one["number"] for one in answer["escalations"]]
            wanted = [one for one in queue if is_in(one)]
            assert found == [one.pk for one in sorted(wanted, key=ended if tab == "resolved" else urgency)]
            assert answer["counts"][tab] == len(wanted)


def ended(one: Escalation) -> Any:
    assert one.resolved_at is not None
    return -one.resolved_at.timestamp(), one.pk


def urgency(one: Escalation) -> Any:
    """Defaulted ones last, late ones first; then the gravest, then what is due next."""
    is_defaulted = one.default_done_at is not None
    is_over = one.resolve_by < NOW or (one.acknowledged_at or NOW) > one.acknowledge_by
    standing = 2 if is_defaulted else 0 if is_over else 1
    takes = one.acknowledged_at is None and not is_defaulted
    due = min(one.acknowledge_by, one.resolve_by) if takes else one.resolve_by
    return standing, -SEVERITIES.index(one.severity), due, one.pk

"""What a total counts, row by row: what holds at the moment, and not what has ended, comes later or is elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import models as columns

from events.capacity.asking import count_going_on, events_going_on
from events.capacity.models import CapacityEvent
from events.models import Agent
from events.moments import to_us
from events.queries.fleet import STOPPED, count_silent, fleet, silent_since_us
from recovery_ops.control import models
from recovery_ops.control.escalations.selectors import queue
from recovery_ops.control.notifications.escalation_policies import open_under
from recovery_ops.control.notifications.models.mutes import NoticeSnooze
from recovery_ops.rules.incidents.detection import BOUNDS
from tests.support.isolated import rolled_back
from tests.support.rows import row
from tests.support.stories import NOW

pytestmark = pytest.mark.django_db

JUST = timedelta(microseconds=1)
HOUR = timedelta(hours=1)
Ask = Callable[[], Mapping[str, int]]
Cases = tuple[tuple[dict[str, Any], tuple[str, ...]], ...]
"""What differs of a row, and the totals that it is in."""


def difference(ask: Ask, model: type[columns.Model], said: dict[str, Any]) -> dict[str, int]:
    """By how much each total grows with a row."""
    before = ask()
    row(model, **said)
    return {name: count - before[name] for name, count in ask().items() if count != before[name]}


def in_force(began: str) -> Cases:
    """Of what has a beginning and an end, and may end earlier."""
    return (
        ({}, ("in force",)),
        ({began: NOW}, ("in force",)),
        ({began: NOW + JUST}, ()),
        ({"expires_at": NOW + JUST}, ("in force",)),
        ({"expires_at": NOW}, ()),
        ({"ended_at": NOW - HOUR}, ()),
        ({"environment": "test"}, ()),
    )


def force_of(model: Any) -> Ask:
    return lambda: {"in force": model.objects.in_force("dev", NOW).count()}


def of_proposals() -> dict[str, int]:
    found = models.PolicyProposal.objects
    return {"open": found.open("dev").count(), "due": found.due(NOW).count()}


def of_escalations() -> dict[str, int]:
    """Each tab by its total, by its list and by the total of its list: they agree."""
    by = User.objects.get_or_create(username="ana")[0].pk
    counts = queue.counts_of("dev", by=by, now=NOW)
    for tab, count in counts.items():
        listed = len(queue.rows_of("dev", tab, by=by, now=NOW))
        assert count == listed == queue.count_of("dev", tab, by=by, now=NOW), tab
    alone = {"navigation": queue.unacknowledged("dev", NOW), "policy": open_under("billing", "dev")}
    return counts | alone | {"every policy": open_under("*", "dev")}


def of_incidents() -> dict[str, int]:
    count = count_going_on("dev", now=NOW)
    assert count == len(events_going_on("dev", now=NOW))
    return {"active": count}


def of_agents() -> dict[str, int]:
    count = count_silent("dev", now=NOW)
    assert count == sum(not one.is_reachable for one in fleet("dev", now=NOW))
    return {"unreachable": count}


LASTS: dict[str, Any] = {"environment": "dev", "expires_at": NOW + HOUR}
ESCALATION = {"environment": "dev", "seen_at": NOW, "acknowledge_by": NOW, "resolve_by": NOW, "queue": "billing"}
_OPEN = ("open", "policy", "every policy")
_UNTAKEN = (*_OPEN, "unacknowledged", "navigation")
QUIET_US = int(BOUNDS.quiet_s * 1e6)
SILENT_US = silent_since_us(NOW)

TOTALS: tuple[tuple[str, Ask, Any, dict[str, Any], Cases], ...] = (
    ("override", force_of(models.Override), models.Override, LASTS | {"starts_at": NOW - HOUR}, in_force("starts_at")),
    ("shedding", force_of(models.LoadShed), models.LoadShed, LASTS | {"starts_at": NOW - HOUR}, in_force("starts_at")),
    ("mute", force_of(NoticeSnooze), NoticeSnooze, LASTS | {"started_at": NOW - HOUR}, in_force("started_at")),
    (
        "pause",
        force_of(models.WorkPause),
        models.WorkPause,
        LASTS,
        (*in_force("at")[:2], *in_force("at")[3:], ({"expires_at": None}, ("in force",))),
    ),
    (
        "approval request",
        lambda: {"waiting": models.ApprovalRequest.objects.waiting("dev", NOW).count()},
        models.ApprovalRequest,
        LASTS | {"state": models.ApprovalRequest.WAITING, "number": 1},
        (
            ({}, ("waiting",)),
            ({"expires_at": NOW + JUST}, ("waiting",)),
            ({"expires_at": NOW}, ()),
            ({"environment": "test"}, ()),
            *(({"state": one}, ()) for one in models.ApprovalRequest.STATES if one != models.ApprovalRequest.WAITING),
        ),
    ),
    (
        "proposal",
        of_proposals,
        models.PolicyProposal,
        {"environment": "dev", "number": 1},
        (
            *(({"state": one}, ("open",)) for one in models.PolicyProposal.OPEN),
            *(({"state": one}, ()) for one in models.PolicyProposal.STATES if one not in models.PolicyProposal.OPEN),
            ({"state": models.PolicyProposal.SCHEDULED, "go_live_at": NOW}, ("open", "due")),
            ({"state": models.PolicyProposal.SCHEDULED, "go_live_at": NOW + JUST}, ("open",)),
            ({"state": models.PolicyProposal.APPROVED, "go_live_at": NOW}, ("open",)),
            ({"environment": "test"}, ()),
        ),
    ),
    (
        "escalation",
        of_escalations,
        models.Escalation,
        ESCALATION,
        (
            ({}, _UNTAKEN),
            ({"queue": "other"}, tuple(name for name in _UNTAKEN if name != "policy")),
            ({"acknowledged_at": NOW, "acknowledged_by": "ben"}, _OPEN),
            ({"snoozed_until": NOW}, _UNTAKEN),
            ({"snoozed_until": NOW + JUST}, ("snoozed", "policy", "every policy")),
            ({"resolved_at": NOW}, ("resolved",)),
            ({"resolved_at": NOW - queue.RESOLVED_FOR}, ("resolved",)),
            ({"resolved_at": NOW - queue.RESOLVED_FOR - JUST}, ()),
            ({"resolved_at": NOW, "snoozed_until": NOW + HOUR}, ("resolved",)),
            ({"environment": "test"}, ()),
        ),
    ),
    (
        "incident",
        of_incidents,
        CapacityEvent,
        {"environment": "dev", "provider": "helios", "model": "m", "started_us": to_us(NOW) - QUIET_US - 10_000_000},
        (
            ({"last_us": to_us(NOW)}, ("active",)),
            ({"last_us": to_us(NOW) - QUIET_US}, ("active",)),
            ({"last_us": to_us(NOW) - QUIET_US - 1}, ()),
            ({"last_us": to_us(NOW), "environment": "test"}, ()),
        ),
    ),
    (
        "instance",
        of_agents,
        Agent,
        {"environment": "dev", "service": "research", "instance": "r-1", "last_seen_us": SILENT_US - 1},
        (
            ({}, ("unreachable",)),
            ({"last_seen_us": SILENT_US}, ()),
            ({"status": STOPPED}, ()),
            ({"retired_us": SILENT_US - 1}, ()),
            ({"retired_us": SILENT_US - 2}, ("unreachable",)),
            ({"environment": "test"}, ()),
        ),
    ),
)


def test_total_counts_what_holds_now(subtests: pytest.Subtests) -> None:
    for name, ask, model, said, cases in TOTALS:
        for changed, counted in cases:
            with subtests.test(name, **{key: str(value) for key, value in changed.items()}), rolled_back():
                assert difference(ask, model, said | changed) == dict.fromkeys(counted, 1)

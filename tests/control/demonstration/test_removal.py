"""Removal of the demonstration: everything of its environment goes, and nothing of another."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from events.keys import KeyRefused, authenticate, create_key
from events.models import Fact
from recovery_ops.control.core.audit_log import verify_chain
from recovery_ops.control.core.environment import known_environments
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.demonstration.history import generate_history
from recovery_ops.control.demonstration.models import Demonstration
from recovery_ops.control.demonstration.services import empty_removed, may_start, remove_demonstration
from recovery_ops.rules.roles import Role
from tests.control.every_route import Try, everything
from tests.control.test_other_environment import OTHER, copied, rows, tables
from tests.support.actions import person
from tests.support.foreign_objects import world
from tests.support.stories import NOW

__all__ = ["everything", "world"]  # the fixtures

pytestmark = pytest.mark.django_db

KEPT = {"Demonstration", "RoleGrant"}
LATE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def demo(settings: Any) -> Demonstration:
    """The demonstration's environment, whose rows are copies of those of `dev`."""
    settings.DEMO_ENVIRONMENT = OTHER
    return Demonstration.objects.create(
        environment=OTHER, history_start=NOW - timedelta(hours=2), history_end=NOW - timedelta(hours=1)
    )


def removed(role: Role = Role.ADMIN, **more: Any) -> Demonstration:
    asked: dict[str, Any] = {"environment": OTHER, "reason": "It has served.", "now": NOW, "confirm": OTHER}
    return remove_demonstration(by=person(role, environment=OTHER), **{**asked, **more}).object


def test_removal_empties_one_environment_alone(everything: list[Try], settings: Any) -> None:
    settings.DEMO_ENVIRONMENT = OTHER
    assert copied() > 100
    before = rows("dev", tables())
    filled = {table for table, found in rows(OTHER, tables()).items() if found}
    assert len(filled) > 40

    removed()
    assert empty_removed(NOW + LATE) == 1
    connection.check_constraints()

    left = {table.__name__ for table, found in rows(OTHER, tables()).items() if found}
    assert left <= KEPT
    assert rows("dev", tables()) == before
    assert OTHER not in known_environments()
    assert verify_chain(OTHER).is_whole
    assert AuditEntry.objects.filter(environment=OTHER, verb="demonstration.remove").exists()
    assert AuditEntry.objects.filter(environment="dev", verb="demonstration.empty").exists()


def test_late_events_are_removed_too() -> None:
    create_key("agents", ["ingest"], OTHER)
    removed()
    assert empty_removed(NOW) == 0
    Fact.objects.create(environment=OTHER, uid=b"1" * 16, agent_id=1, event="log", at_us=1, received_us=1)
    assert empty_removed(NOW + LATE) == 1
    assert not Fact.objects.exists()
    assert empty_removed(NOW + LATE) == 0


def test_removal_revokes_keys_at_once() -> None:
    _, token = create_key("agents", ["ingest"], OTHER)
    _, own = create_key("own", ["ingest"], "dev")
    removed()
    with pytest.raises(KeyRefused):
        authenticate(f"Bearer {token}", "ingest")
    assert authenticate(f"Bearer {own}", "ingest").environment == "dev"


@pytest.mark.parametrize(
    ("role", "more", "status"),
    [
        (Role.OPERATOR, {}, 403),
        (Role.ADMIN, {"confirm": "dev"}, 400),
        (Role.ADMIN, {"environment": "dev", "confirm": "dev"}, 403),
    ],
)
def test_removal_is_rejected(role: Role, more: dict[str, Any], status: int) -> None:
    with pytest.raises(CommandRejected) as caught:
        removed(role, **more)
    assert caught.value.status == status
    assert Demonstration.objects.get().removed_at is None


def test_removed_demonstration_starts_on_demand_alone() -> None:
    assert may_start(OTHER, is_wanted=False)
    removed()
    assert not may_start(OTHER, is_wanted=False)
    assert generate_history(OTHER, NOW) == 0
    assert may_start(OTHER, is_wanted=True)
    assert not Demonstration.objects.exists()

"""No background task of one environment depends on another, which holds objects of the same names and worse trouble."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta
from typing import Any

import pytest
from celery import Task
from django.apps import apps
from django.conf import settings
from django.db import models
from django.utils import timezone

from events import tasks as events_tasks
from events.keys import create_key
from recovery_ops.celery import app
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.bases import EVERYWHERE
from recovery_ops.control.notifications.services.digests import set_digest
from recovery_ops.control.notifications.triggers import TRIGGERS
from recovery_ops.control.policies.services.proposals import approve, schedule, submit
from recovery_ops.rules.enums import Category, State
from recovery_ops.rules.events import DegradationStarted, Escalated, RunStarted
from recovery_ops.rules.roles import Role
from tests.control.every_route import Try, everything
from tests.control.test_other_environment import OTHER, copied, tables, wish
from tests.support.actions import asked
from tests.support.capacity import storm
from tests.support.channels import EVA, channel, rule
from tests.support.foreign_objects import world
from tests.support.isolated import rolled_back
from tests.support.pages import signed_in
from tests.support.proposals import TOM, act, propose
from tests.support.retries import ended, retried, there
from tests.support.runs import retry
from tests.support.stories import NOW, Story, counted, failed, heartbeat, moved

__all__ = ["everything", "world"]  # the fixtures

pytestmark = pytest.mark.django_db

ELSEWHERE = {
    "send_messages": "by channel, over the network",
    "start_replays": "in a process of its own",
    "start_exports": "in a process of its own",
}
"""Tasks with tests of their own in their rooms."""
BARE = "bare"
"""An environment without any object of intent, in which the same is reported."""
FOUND_IN_BARE = {"AuditEntry", "BurnAlert", "Escalation", "NotifyLook", "RetryBudget"}
"""What the tasks write where nobody wanted anything."""
CHANGED = {
    *("ApprovalRequest", "AuditEntry", "BurnAlert", "CapacityEvent", "Delivery", "Escalation", "FailureCase"),
    *("LoadShed", "Notification", "Override", "PolicyProposal", "PolicyRelease", "PolicyRollout", "QuorumWatch"),
    *("RecoveryDay", "ResetRamp", "RetryBudget", "Revision", "RunRetry", "SeenFailure", "WorkPause"),
}
"""What the tasks write where there is something of every kind."""
REPORTED = {"Agent", "AgentKey", "BreakerState", "Degradation", "EscalationSource", "Fact", "Run"}
"""What agents reported, with numbers that no two stories share."""
MOMENTS_S = (2, 70, 1000, 4000, 20_000)
QUORUM = {"quorum": [{"operation": "search_web", "share": 0.1, "minimum_count": 1, "hold_s": 0}]}
NUMBER = r"(?<=[-/])\d+\b|(?<=burn )\d+\b|(?<=')[0-9a-f]{32}\b"
"""The number of a row in a text or an address, or of a fact."""
Rows = dict[str, list[str]]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """The moment that all rooms read."""
    at = [NOW]
    monkeypatch.setattr(timezone, "now", lambda: at[0])
    monkeypatch.setattr(events_tasks, "PAUSE_S", 0)
    return at


def background() -> list[Task[Any, Any]]:
    """Every task that the scheduler starts, in its order."""
    app.loader.import_default_modules()
    names = [one["task"] for one in settings.CELERY_BEAT_SCHEDULE.values()]
    return [app.tasks[name] for name in names if name.rpartition(".")[2] not in ELSEWHERE]


def set_up() -> None:
    """Something of every kind that becomes due, or is looked for, in `dev`."""
    there("r-0", "r-1", at=0.5)
    client = signed_in(Role.ADMIN, "zed", EVERYWHERE)
    wish(client)
    ended("run-7")
    retried("run-7")
    made = propose(QUORUM, title="quorum")
    act(submit, made)
    act(approve, made, TOM)
    act(schedule, made, TOM, go_live_at=NOW + timedelta(seconds=600))
    to = channel()
    rule(to, *TRIGGERS, name="all", failures=2, within_min=15)
    set_digest(**asked(by=EVA, number=to.pk, at=time(15, 10), tells_calm=True))


def trouble(environment: str, at_s: float, times: int) -> None:
    """What agents report at a moment; the more of it, the worse."""
    story, at = Story(environment), -at_s
    for number in range(times):
        beat = heartbeat(takes_retries=True)
        again = [retry(1, 0.5)] * 12
        story.tell(beat, moved(State.OPEN), counted(10, attempts=22), *again, at=at, instance=f"r-{number}")
        story.tell(failed(Category.TIMEOUT, fingerprint="one"), at=at, run=f"run-{number}", instance=f"r-{number}")
        story.tell(failed(Category.BUG, fingerprint=f"new at {at_s:.0f}"), at=at, run=f"run-{number}", instance="r-0")
    story.tell(RunStarted(), at=at, run="run-7", instance="r-0")
    story.tell(DegradationStarted(operation="search_web", kind="fallback", reason="open"), at=at, instance="r-0")
    question = Escalated(operation="charge", category=Category.UNKNOWN, queue="unclassified", reason="unknown")
    story.tell(question, at=at, run=f"run-{at_s:.0f}")
    storm(story, since=at + 40 * times, until=at)
    story.store()


def worked(clock: list[datetime], environments: dict[str, int]) -> None:
    """Some rounds of all tasks, while so much trouble is reported in each environment."""
    for at_s in MOMENTS_S:
        clock[0] = NOW + timedelta(seconds=at_s)
        for environment, times in environments.items():
            trouble(environment, at_s - 1, times)
        for task in background():
            task()


def snapshot(environment: str) -> Rows:
    """What stands in an environment, without the numbers of rows and facts."""
    found: Rows = {}
    for model in tables():
        if model.__name__ not in REPORTED:
            names = [one.attname for one in model._meta.concrete_fields if not _is_number(one)]
            rows = model._base_manager.filter(environment=environment).values_list(*names)
            found[model.__name__] = sorted(re.sub(NUMBER, "n", repr(row)) for row in rows)
    done = AuditEntry.objects.filter(environment=environment).order_by("number")
    return found | {"AuditEntry": [str(one) for one in done.values_list("verb", "result", "actor_name")]}


def _is_number(column: models.Field[Any, Any]) -> bool:
    is_link = column.primary_key or isinstance(column, models.ForeignKey)
    return is_link or column.name in ("number", "counted_to", "kind", "digest", "event")


def differing(one: Rows, other: Rows) -> set[str]:
    """The tables in which something else stands."""
    return {name for name in one if one[name] != other[name]}


def test_tasks_depend_on_no_other_environment(everything: list[Try], clock: list[datetime]) -> None:
    """In the other environments are the same objects with more trouble, and the same trouble without any object."""
    set_up()
    before = snapshot("dev")
    with rolled_back():
        worked(clock, {"dev": 1})
        alone = snapshot("dev")
    assert differing(before, alone) >= CHANGED
    clock[0] = NOW
    with rolled_back():
        assert copied() > 100
        create_key(BARE, ["ingest"], BARE)
        worked(clock, {OTHER: 3, "dev": 1, BARE: 1})
        assert differing(alone, snapshot("dev")) == set()
        found = snapshot(BARE)
    intent = {model.__name__ for model in apps.get_app_config("control").get_models()}
    assert {name for name in found if name in intent and found[name]} == FOUND_IN_BARE

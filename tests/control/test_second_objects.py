"""What is asked about the newer of two objects of an environment is not about the older one of its kind."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import models
from django.test import Client

from events.capacity.models import CapacityArrangement, CapacityEvent
from events.models import AgentKey, Quarantine
from recovery_ops.control.breakers.models.ramps import ResetRamp
from recovery_ops.control.core.models.approval_requests import ApprovalRequest
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.bases import EVERYWHERE
from recovery_ops.control.dashboard.models import Annotation
from recovery_ops.control.dashboard.services import annotate
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.issues.models import FailureGrouping
from recovery_ops.control.notifications.models.mutes import NoticeSnooze
from recovery_ops.control.notifications.models.notifications import Channel, EscalationChain, NotificationRule
from recovery_ops.control.policies.models.feedback import Feedback
from recovery_ops.control.policies.models.policies import PolicyProposal, PolicyRelease
from recovery_ops.control.policies.models.rollouts import PolicyRollout
from recovery_ops.control.policies.services.rollouts import start_rollout
from recovery_ops.control.replay.models.golden import GoldenCase
from recovery_ops.control.replay.models.replays import Replay
from recovery_ops.control.replay.services.replays import start_replay
from recovery_ops.rules.roles import Role
from tests.control.every_route import Try, everything, tries
from tests.control.test_every_route import undrawn
from tests.support.actions import asked, person
from tests.support.foreign_objects import world
from tests.support.isolated import rolled_back
from tests.support.pages import signed_in
from tests.support.proposals import propose
from tests.support.stories import NOW, ago

__all__ = ["everything", "world"]  # the fixtures

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

OBJECTS: dict[str, type[models.Model]] = {
    "annotation": Annotation,
    "arrangement": CapacityArrangement,
    "capacity event": CapacityEvent,
    "chain": EscalationChain,
    "channel": Channel,
    "escalation": Escalation,
    "feedback": Feedback,
    "golden run": GoldenCase,
    "grouping": FailureGrouping,
    "key": AgentKey,
    "proposal": PolicyProposal,
    "quarantined record": Quarantine,
    "ramp": ResetRamp,
    "release": PolicyRelease,
    "replay": Replay,
    "request": ApprovalRequest,
    "rollout": PolicyRollout,
    "rule": NotificationRule,
    "snooze": NoticeSnooze,
}
CALLED = {AgentKey: "prefix", PolicyRelease: "version"}
"""The column that an address names, where it is neither `number` nor the primary key."""
ELSE: dict[type[models.Model], dict[str, Any]] = {
    AgentKey: {"prefix": "ro_00000002", "digest": "2"},
    Escalation: {"key": "another"},
    GoldenCase: {"run": "run-2"},
    NoticeSnooze: {"provider": "helios"},
    PolicyRollout: {"state": PolicyRollout.PROMOTED},
}
"""What two of one kind cannot share, beside number and name."""
LATER = 500
WITHOUT_NUMBER = {"api-escalation-steps"}
"""What is read of an object without its number: here no runbook has steps."""


def called(model: type[models.Model]) -> str:
    """The column that an address names."""
    has_number = any(one.name == "number" for one in model._meta.fields)
    return CALLED.get(model, "number" if has_number else "pk")


def another(model: type[models.Model], given: str) -> str:
    """Make a newer object like the one of this name; the name of it."""
    one: Any = model._default_manager.get(environment="dev", **{called(model): given})
    one.pk, one._state.adding = None, True
    for name in ("number", "version"):
        if called(model) == name:
            setattr(one, name, int(given) + LATER)
    if hasattr(one, "name"):
        one.name = f"{one.name} two"
    for name, value in ELSE.get(model, {}).items():
        setattr(one, name, value)
    one.save(force_insert=True)
    return str(getattr(one, called(model)))


def rows(names: dict[str, str]) -> dict[str, Any]:
    """The rows of objects, by kind."""
    return {
        kind: model._default_manager.filter(environment="dev", **{called(model): names[kind]}).values().first()
        for kind, model in OBJECTS.items()
    }


def sent(client: Client, one: Try) -> Any:
    """The answer to a try in `dev`."""
    if one.method == "get":
        return client.get(one.path, dict(one.body) | {"environment": "dev"})
    if one.is_api:
        return getattr(client, one.method)(f"{one.path}?environment=dev", dict(one.body), "application/json")
    return client.post(f"{one.path}?environment=dev", dict(one.body) | {"environment": "dev"})


def test_request_about_newer_object_leaves_the_older(
    everything: list[Try], world: dict[str, str], subtests: pytest.Subtests
) -> None:
    """A change leaves the older one as it was; what reads both finds two things."""
    client = signed_in(Role.ADMIN, "zed", EVERYWHERE)
    newer = world | {kind: another(model, world[kind]) for kind, model in OBJECTS.items()}
    before = rows(world)
    done = read = 0
    for old, new in zip(tries(world), tries(newer), strict=True):
        if (old.path, old.body) == (new.path, new.body):
            continue
        if new.method == "get":
            if new.is_api and new.name not in WITHOUT_NUMBER:
                with subtests.test(read=new.told):
                    assert sent(client, old).content != sent(client, new).content
                    read += 1
            continue
        with subtests.test(asked=new.told), rolled_back(), undrawn():
            if sent(client, new).status_code < 400:
                done += 1
                after = rows(world)
                assert [kind for kind in OBJECTS if after[kind] != before[kind]] == []
    assert (done > 60, read > 10) == (True, True)


def test_numbers_of_an_environment_begin_at_one(world: dict[str, str]) -> None:
    """In the other environment is an object of each kind already."""
    there: dict[str, Any] = {"environment": "test", "by": person(Role.ADMIN, environment="test")}
    proposal = propose(**there)
    made: list[Any] = [
        proposal,
        annotate(**asked(text="a maintenance", goes_on=True, **there)).object,
        start_replay(**asked(number=proposal.number, start=ago(3600), end=NOW, **there)).object,
        start_rollout(**asked(number=proposal.number, share=0.5, for_s=600, **there)).object,
    ]
    assert [(type(one).__name__, one.number) for one in made if one.number != 1] == []
    assert AuditEntry.objects.filter(environment="test").earliest("number").number == 1

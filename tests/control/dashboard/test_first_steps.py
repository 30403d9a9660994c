"""The first steps in an environment: each is ticked by what is stored, and shown until all are taken."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from events.models import AgentKey
from recovery_ops.control.notifications.models.notifications import Channel
from recovery_ops.control.policies.models.policies import PolicyRelease
from recovery_ops.rules.desired_state import Desired, Pause
from recovery_ops.rules.enums import Category
from recovery_ops.rules.roles import Role
from recovery_ops.runtime.errors import RecoveryError
from recovery_ops.runtime.self_test import OPERATION, fail_once, outcome
from recovery_ops.runtime.testing import Lab
from tests.support.html import Shown
from tests.support.live_policy import obey
from tests.support.pages import edited, signed_in
from tests.support.query_counts import asked_of
from tests.support.stories import NOW, Story, failed, heartbeat

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def ticks(client: Client) -> list[str]:
    """What stands before each step; nothing where no steps are shown."""
    page = client.get("/").content.decode()
    steps = re.findall(r'data-key="step-\d"><span class="tag">(.*?)</span>', page, re.DOTALL)
    return [re.sub(r"<[^>]+>", "", word) for word in steps]


def done(client: Client) -> str:
    """What the head of the steps says."""
    found = re.search(r"\d of \d done", client.get("/").content.decode())
    return found[0] if found else ""


def test_steps_are_ticked_by_what_is_stored_and_go_once_all_are_taken() -> None:
    client = signed_in(Role.ADMIN)
    AgentKey.objects.create(environment="dev", name="a", scopes="ingest", created_at=NOW, prefix="a", digest="a")
    assert ticks(client) == ["waiting", "to do", "to do", "to do"]
    Story().tell(heartbeat(), at=5).store()
    assert (ticks(client), done(client)) == (["to do"] * 3, "1 of 4 done")
    assert asked_of(client, "/") <= 15
    Story().tell(failed(Category.TIMEOUT), at=4).store()
    edited(client, seen="0", max_retries="5")
    assert PolicyRelease.objects.exists()
    assert (ticks(client), done(client)) == (["to do"], "3 of 4 done"), "what is done takes no room beside what goes on"
    Channel.objects.create(environment="dev", name="ops", kind="email", changed_at=NOW)
    assert ticks(client) == []


def test_the_self_test_fails_once_and_recovers() -> None:
    lab = Lab()
    assert fail_once(lab.recovery) == 2
    told = {fact.operation for fact in lab.events if getattr(fact, "category", None) is Category.TIMEOUT}
    assert told == {OPERATION}


def test_a_self_test_that_a_pause_keeps_from_running_says_so() -> None:
    lab = Lab()
    lab.recovery.apply(
        Desired(
            revision=1, pauses=(Pause(id="pz-1", service=lab.recovery.instance.service, by="ana", reason="moving"),)
        )
    )
    said, has_failed = outcome(lab.recovery)
    assert ("ana" in said, "moving" in said) == (True, True)
    assert not has_failed
    lab.recovery.apply(Desired(revision=2))
    said, has_failed = outcome(lab.recovery)
    assert (OPERATION in said, re.findall(r"\d+", said)) == (True, ["2"])
    assert has_failed


def test_a_self_test_that_no_policy_makes_good_has_failed_all_the_same() -> None:
    lab = Lab()
    obey(lab, defaults={"operation": {"max_retries": 0}})
    said, has_failed = outcome(lab.recovery)
    assert has_failed
    with pytest.raises((RecoveryError, TimeoutError)) as ended:
        fail_once(lab.recovery)
    assert (OPERATION in said, str(ended.value) in said) == (True, True)


def test_demonstration_sends_agents_to_another_environment() -> None:
    signed_in(Role.ADMIN, environment="demo")
    client = signed_in(Role.ADMIN)
    there = Shown(client.get("/connect?environment=demo"))
    assert there.values("own") == ["dev"]
    assert Shown(client.get("/connect?environment=dev")).values("own") == []

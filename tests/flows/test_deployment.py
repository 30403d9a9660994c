"""The essential flows where it is run with N web processes and N workers, on PostgreSQL and Redis.

The browser asks one web process and the agents the other, so all that happens has to cross from one to the other.
"""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
from playwright.sync_api import Page, expect

from tests.flows.deployment import Deployment, deployed
from tests.support.agents import agent, provider
from tests.support.asking_agents import asking
from tests.support.main_job import (
    AGENTS,
    PATIENCE_MS,
    Stage,
    sign_in,
    the_failure_appears_live,
    the_policy_changes_the_attempts,
    the_reset_lets_them_flow,
    the_trip_stops_the_calls,
)
from tests.support.named_failures import a_failure_is_named
from tests.support.processes import eventually
from tests.support.webhook_receiver import Receiver, receiver

SET_UP = (
    "key create --name flow --scope ingest,desired",
    "key create --name setter --scope settings,read",
    "account create olga --role operator --generate",
    "key create --name desk --scope read,act",
)


UNFINISHED = "SELECT count(*) FROM control_delivery WHERE state IN ('waiting', 'claimed', 'sending')"


@dataclass(frozen=True)
class At:
    """One of the addresses of the console."""

    url: str


@dataclass
class Scene:
    """The deployment, a person, the agents' key, and who is told of what happens."""

    deployment: Deployment
    told: Receiver
    operator: tuple[str, str]
    key: str

    @property
    def seen_by_agents(self) -> At:
        """The web process that agents talk to; people talk to the other one."""
        return At(self.deployment.webs[1])

    def heard(self, subject: str, phase: str) -> int:
        """How often the receiver was told this of that."""
        things = [thing for got in list(self.told.got) for thing in got.said["things"]]
        return sum(thing["subject"].endswith(f":{subject}") and thing["phase"] == phase for thing in things)


@pytest.fixture
def scene(migrated_postgres_url: str, redis_url: str, tmp_path: Path) -> Iterator[Scene]:
    with (
        receiver() as told,
        deployed(migrated_postgres_url, redis_url, tmp_path, *SET_UP, RECOVERY_OPS_NOTIFY_HOSTS=told.host) as made,
    ):
        key, setter, password, _ = made.said
        notifications = f"{made.webs[0]}/api/v1/notifications"
        hook = {"name": "hook", "kind": "webhook", "address": told.url, "secret": "s" * 16}
        channel = post(f"{notifications}/channels", setter, hook)["channel"]["number"]
        rule = {"name": "all", "channel": channel, "triggers": ["escalation", "breaker_moved"], "group_s": 0}
        post(f"{notifications}/rules", setter, rule)
        yield Scene(made, told, ("olga", password), key)


def post(url: str, key: str, body: dict[str, Any]) -> Any:
    """What the API answers."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    content = json.dumps({"reason": "Set up for the flows."} | body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, content, headers), timeout=30) as answer:
        return json.load(answer)


def test_facts_clicks_answers_and_messages_cross_from_process_to_process(
    page: Page, scene: Scene, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        trouble = stack.enter_context(provider())
        for instance in AGENTS:
            stack.enter_context(agent(scene.seen_by_agents, scene.key, trouble, instance, tmp_path / instance))
        stage = Stage(At(scene.deployment.webs[0]), trouble, scene.deployment.store, scene.operator)
        sign_in(page, stage)
        a_question_is_answered(page, scene, tmp_path)
        the_failure_appears_live(page, stage)
        the_trip_stops_the_calls(page, stage)
        a_web_process_and_a_worker_are_killed(scene)
        the_reset_lets_them_flow(page, stage)
        the_policy_changes_the_attempts(page, stage)
        everything_was_told_once(scene)
        everybody_had_work(scene)


def test_an_unknown_failure_is_named_through_another_process(page: Page, scene: Scene, tmp_path: Path) -> None:
    people = At(scene.deployment.webs[0])
    a_failure_is_named(page, people, scene.seen_by_agents, scene.key, scene.operator[1], tmp_path)


def test_a_question_outlasts_the_death_of_every_process(scene: Scene, redis_url: str, tmp_path: Path) -> None:
    store, [desk] = scene.deployment.store, scene.deployment.said[-1:]
    with asking(scene.seen_by_agents, scene.key, "billing-1", tmp_path / "one") as first:
        eventually(lambda: scene.heard("ESC-1", "began") == 1, what="a message about the question")
        scene.deployment.kill()
        with redis.Redis.from_url(redis_url) as client:
            client.flushall()
        scene.deployment.start()
        url = f"{scene.deployment.webs[0]}/api/v1/escalations"
        post(f"{url}/1/edit", desk, {"reason": "The customer keeps the second item.", "text": "80 EUR"})
        first.said("told: True 80 EUR by desk")
        assert first.process.wait(20) == 0
    scene.deployment.kill()
    scene.deployment.start()
    with asking(scene.seen_by_agents, scene.key, "billing-2", tmp_path / "two") as again:
        again.said("told: True 80 EUR by desk")
        assert again.process.wait(20) == 0
    assert store.count("SELECT count(*) FROM control_escalation WHERE message LIKE 'May 120 EUR%'") == 1
    eventually(lambda: scene.heard("ESC-1", "ended") == 1, what="a message about the answer")
    assert scene.heard("ESC-1", "began") == 1


def a_question_is_answered(page: Page, scene: Scene, folder: Path) -> None:
    page.goto(f"{scene.deployment.webs[0]}/escalations")
    with asking(scene.seen_by_agents, scene.key, "billing-1", folder / "billing") as waiting:
        # No reload: the page hears of it.
        expect(page.get_by_text("May 120 EUR be refunded? Proposed: 120 EUR").first).to_be_visible(timeout=PATIENCE_MS)
        eventually(lambda: scene.heard("ESC-1", "began") == 1, what="a message about the question")
        page.keyboard.press("j")
        page.keyboard.press("y")
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Answer").fill("80 EUR")
        dialog.get_by_label("Reason").fill("The customer keeps the second item.")
        dialog.get_by_role("button", name="Approve").click()
        waiting.said("told: True 80 EUR by olga")
        assert waiting.process.wait(20) == 0


def a_web_process_and_a_worker_are_killed(scene: Scene) -> None:
    """Agents follow that web process, and find it again by themselves; what the worker was to do is looked for anew."""
    store, doomed = scene.deployment.store, ("web-2", "worker-1")
    eventually(lambda: store.count(UNFINISHED) == 0, what="an empty outbox")  # or a message would be in doubt
    scene.deployment.kill(*doomed)
    scene.deployment.start(*doomed)


def everything_was_told_once(scene: Scene) -> None:
    """Two workers look for what to tell, and each thing was told in one message."""
    eventually(lambda: scene.heard("breaker search_web", "began") > 0, what="a message about the breaker")
    eventually(lambda: scene.heard("ESC-1", "ended") > 0, what="a message about the answer")
    store = scene.deployment.store
    eventually(lambda: store.count(UNFINISHED) == 0, what="an empty outbox")
    assert [one for one, count in Counter(got.said["id"] for got in scene.told.got).items() if count > 1] == []
    assert scene.heard("ESC-1", "began") == scene.heard("ESC-1", "ended") == 1
    assert store.count("SELECT count(*) FROM control_delivery WHERE state <> 'sent'") == 0


def everybody_had_work(scene: Scene) -> None:
    """PostgreSQL has heard from each web process and each worker."""
    names = "application_name IN ('web-1', 'web-2', 'worker-1', 'worker-2')"
    at_work = f"SELECT count(DISTINCT application_name) FROM pg_stat_activity WHERE {names}"
    eventually(lambda: scene.deployment.store.count(at_work) == 4, what="work for two web processes and two workers")

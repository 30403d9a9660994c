"""Keys on the screens: Capacity says which are spent, on how many instances; an issue names those of its failures."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from events.capacity.detection import look
from events.capacity.models import CapacityEvent
from events.queries.resting_keys import keys_at_rest
from recovery_ops.rules.enums import Category, DelaySource
from recovery_ops.rules.events import GateClosed, GateOpened, RetryScheduled
from recovery_ops.rules.roles import Role
from tests.support.capacity import storm
from tests.support.html import Shown
from tests.support.pages import signed_in, text_of
from tests.support.stories import NOW, Story, ago, counted, failed
from tests.support.told import untold

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def rested(label: str | None = "team-a", category: Category = Category.QUOTA_EXHAUSTED) -> GateClosed:
    return GateClosed(operation="ask", wait_s=900.0, category=category, credential=label)


def opened(label: str = "team-a") -> GateOpened:
    return GateOpened(operation="ask", closed_s=100.0, category=Category.QUOTA_EXHAUSTED, credential=label)


def test_key_is_one_row_with_its_instances() -> None:
    story = Story().tell(rested(), at=1200, instance="i-1").tell(rested(), at=300, instance="i-1")
    story.tell(rested(), at=200, instance="i-2").tell(rested(), at=150, instance="i-3").tell(
        opened(), at=100, instance="i-3"
    )
    story.tell(rested("team-b", Category.AUTH), at=50, instance="i-1")
    story.tell(rested(None), rested("team-c", Category.RATE_LIMITED), at=40, instance="i-1").store()
    rejected, spent = keys_at_rest("dev", start=ago(3600), end=NOW)
    assert (rejected.label, rejected.reason, rejected.instances) == ("team-b", "rejected", {"i-1"})
    assert (spent.label, spent.reason, spent.instances) == ("team-a", "spent", {"i-1", "i-2", "i-3"})
    assert spent.resting == {"i-1", "i-2"}
    assert (spent.first_at, spent.last_at, spent.until) == (ago(1200), ago(100), ago(-700))


def test_panel_shows_keys_and_none() -> None:
    client: Client = signed_in(Role.VIEWER)
    assert Shown(client.get("/amplification")).within("id", "keys").values("empty") == ["keys"]
    Story().tell(rested(), at=60).store()
    [row] = Shown(client.get("/amplification")).within("id", "keys").having("credential")
    assert (row.data["credential"], row.data["instances"], row.data["resting"]) == ("team-a", "1", "1")


def breaker_keys(name: str) -> list[tuple[str, str]]:
    page = Shown(signed_in(Role.VIEWER).get(f"/breakers/{name}"))
    return [(one.data["key-at-rest"], one.data["resting"]) for one in page.having("key-at-rest")]


def test_breaker_page_names_keys_at_rest() -> None:
    story = Story().tell(counted(6, "ask"), counted(6, "rank"), at=60, instance="i-1")
    story.tell(rested(), at=50, instance="i-1").tell(rested(), at=45, instance="i-2")
    story.tell(rested("team-b", Category.RATE_LIMITED), at=40, instance="i-1")
    story.tell(rested("team-c", Category.AUTH), at=35, instance="i-1").tell(
        GateOpened(operation="ask", closed_s=5.0, category=Category.AUTH, credential="team-c"), at=30, instance="i-1"
    )
    story.tell(rested("team-d"), at=25, instance="o-1", service="other").tell(rested(None), at=20, instance="i-1")
    throttled = GateClosed(operation="ask", wait_s=1.0, category=Category.RATE_LIMITED, credential="team-a")
    story.tell(throttled, at=15, instance="i-1").store()  # its end is past; it is spent all the same
    assert breaker_keys("ask") == [("team-b", "1"), ("team-a", "2")]
    assert breaker_keys("rank") == [("team-a", "2")], "a throttled key rests for its own operation"


def test_breaker_page_without_keys_names_none() -> None:
    Story().tell(counted(6, "ask"), at=60).tell(rested(), at=1000).store()
    assert breaker_keys("ask") == []


def test_issue_names_the_keys_of_its_failures() -> None:
    story = Story()
    for instance in ("i-1", "i-2"):
        story.tell(failed(Category.QUOTA_EXHAUSTED, credential="team-a", fingerprint="spent"), at=60, instance=instance)
    story.tell(failed(Category.QUOTA_EXHAUSTED, fingerprint="spent"), at=50).store()
    shown = Shown(signed_in(Role.VIEWER).get("/failures/spent"))
    assert [(one.data["credential"], one.data["instances"]) for one in shown.having("credential")] == [("team-a", "2")]


def test_incident_names_the_keys_of_its_failures() -> None:
    storm(Story(), since=300, until=40, credential="team-a").store()
    look("dev", NOW)
    event = CapacityEvent.objects.get()
    [key] = Shown(signed_in(Role.VIEWER).get(f"/capacity/{event.pk}")).having("credential")
    assert key.data["credential"] == "team-a"


def test_run_tells_which_key_failed_and_which_followed() -> None:
    given: dict[str, Any] = {"run": "run-7", "source": "main_agent", "is_foreground": True}
    story = Story().tell(failed(Category.QUOTA_EXHAUSTED, credential="team-a"), at=50, **given)
    retry = RetryScheduled(
        operation="search_web",
        attempt=2,
        delay_s=0.0,
        delay_source=DelaySource.IMMEDIATE,
        category=Category.QUOTA_EXHAUSTED,
        credential="team-b",
    )
    story.tell(retry, at=50, **given).store()
    assert untold(text_of(signed_in(Role.VIEWER).get("/runs/run-7")), "team-a", "team-b") == []

"""The page of an issue: first seen, its course beside deployments, its failures from either end, its runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from events.capacity.detection import look
from events.capacity.models import CapacityEvent
from events.capacity.reach import read_reach
from events.models import Fact
from recovery_ops.control.issues.models import FailureGrouping
from recovery_ops.rules.enums import Category, RunStatus
from recovery_ops.rules.events import FallbackActivated, RunFinished, RunStarted
from recovery_ops.rules.roles import Role
from tests.support.capacity import storm
from tests.support.html import Shown
from tests.support.pages import signed_in
from tests.support.query_counts import asked_of
from tests.support.rows import row
from tests.support.stories import NOW, Story, ago, failed, heartbeat

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

DAYS_AGO_S, RECENT_S = 9 * 86_400, 600
MOST_QUERIES = 16
"""The aim of `recovery_ops.bench.pages`."""


def told(story: Story, *, at: float, service: str = "research", model: str = "large", **more: Any) -> Story:
    failure = failed(Category.TIMEOUT, more.pop("operation", "crm"), fingerprint="f00d", provider="helios", model=model)
    return story.tell(failure, at=at, service=service, instance=f"{service}-1", **more)


def shown(client: Client, query: str = "?range=1h") -> Shown:
    return Shown(client.get(f"/failures/f00d{query}"))


def listed(page: Shown) -> list[int]:
    """The numbers of the failures on a page, in its order."""
    return [int(one.removeprefix("fact-")) for one in page.values("key") if one.startswith("fact-")]


def seen(page: Shown) -> dict[str, datetime]:
    return {one.data["seen"]: datetime.fromisoformat(one.data["at"]) for one in page.having("seen")}


def test_first_and_last_are_of_all_time() -> None:
    told(told(told(Story(), at=DAYS_AGO_S), at=RECENT_S), at=RECENT_S - 100).store()
    client = signed_in(Role.VIEWER)
    whole = {"first": ago(DAYS_AGO_S), "last": ago(RECENT_S - 100)}
    assert seen(shown(client)) == whole
    elsewhere = shown(client, "?range=5m")
    assert seen(elsewhere) == whole, "no failure in the range"
    for which, moment in whole.items():
        [link] = [one for one in elsewhere.one("seen", which).all() if one.tag == "a"]
        page = client.get(link.attributes["href"].partition("#")[0])
        assert page.context["failures"].rows[0].at == moment


def test_first_and_last_are_of_what_belongs_to_it_now() -> None:
    told(Story(), at=DAYS_AGO_S, operation="search").store()
    told(told(Story(), at=RECENT_S), at=RECENT_S - 50).store()
    client = signed_in(Role.VIEWER)
    split = row(
        *(FailureGrouping,), environment="dev", kind=FailureGrouping.SPLIT, fingerprint="f00d", into="f00d~search",
        field="operation", value="search", made_at=NOW, made_by="ana", reason="another cause",
    )  # fmt: skip
    assert seen(shown(client))["first"] == ago(RECENT_S)
    apart = Shown(client.get(f"/failures/{quote('f00d~search')}?range=1h"))
    assert seen(apart) == {"first": ago(DAYS_AGO_S), "last": ago(DAYS_AGO_S)}
    FailureGrouping.objects.filter(pk=split.pk).update(ended_at=NOW)
    assert seen(shown(client))["first"] == ago(DAYS_AGO_S)


def test_every_failure_stands_on_one_page_from_either_end() -> None:
    story = Story()
    for number in range(47):
        told(story, at=RECENT_S - number // 3)  # three at each moment
    story.store()
    client = signed_in(Role.VIEWER)
    inorder = list(Fact.objects.filter(event="failure_classified").order_by("at_us", "pk").values_list("pk", flat=True))
    for query, expected in (("?range=1h", inorder[::-1]), ("?range=1h&order=oldest", inorder)):
        found, href, message = list[int](), query, set[str]()
        while href:
            answer = client.get(f"/failures/f00d{href}")
            found += listed(Shown(answer))
            href = answer.context["failures"].further_href
            message.add(answer.context["title"])
        assert found == expected
        assert len(message) == 1, "the title is of the newest, whatever is listed"


def test_bars_add_up_and_deployments_of_its_services_are_marked() -> None:
    story = Story()
    for at in (3000, 2000, 1000):
        story.tell(heartbeat(), at=at, service="research", instance="r-1", version="1" if at > 2500 else "2")
        story.tell(heartbeat(), at=at, service="other", instance="o-1", version="1" if at > 2500 else "2")
    for at in range(600, 1700, 100):
        told(story, at=at)
    story.store()
    page = shown(signed_in(Role.VIEWER))
    assert sum(map(int, page.values("bar"))) == 11
    assert page.values("deployed") == ["research 2"]
    pins = [one for one in page.root.all() if one.attributes.get("href") == "#g-hexagon"]
    assert len(pins) == 2, "in the drawing and in the legend"


def test_outcomes_are_of_all_runs_and_lead_to_them() -> None:
    story = Story()
    for number in range(60):
        run = f"run-{number}"
        story.tell(RunStarted(name="diligence"), at=900, run=run)
        told(story, at=800, run=run)
        if number % 3:
            story.tell(FallbackActivated(operation="crm", fallback="cache", level=1), at=790, run=run)
        if number:
            status = RunStatus.SUCCEEDED if number % 2 else RunStatus.FAILED
            story.tell(RunFinished(status=status, duration_s=20.0), at=700, run=run)
    story.store()
    client = signed_in(Role.VIEWER)
    answer = client.get("/failures/f00d?range=1h")
    page = Shown(answer)
    counts = {one.data["outcome"]: int(one.data["value"]) for one in page.having("outcome")}
    assert counts == {"recovered": 30, "failed": 29, "running": 1}
    assert {one.data["step"]: int(one.data["runs"]) for one in page.having("step")} == {
        "Retry": 20,
        "Fallback": 40,
    }
    for one in answer.context["outcomes"].heads:
        assert client.get(one.href).context["total"].value == one.count
    assert client.get(answer.context["runs_href"]).context["total"].value == answer.context["outcomes"].total == 60


def test_spread_counts_services_and_models() -> None:
    story = told(told(told(Story(), at=700), at=690, service="billing"), at=680, service="billing", model="small")
    story.store()
    page = shown(signed_in(Role.VIEWER))
    spread = {(one.data["spread"], one.data["value"]): int(one.data["count"]) for one in page.having("spread")}
    assert spread == {
        ("service", "billing"): 2,
        ("service", "research"): 1,
        ("backend", "helios / large"): 2,
        ("backend", "helios / small"): 1,
    }


def test_page_of_an_issue_in_an_incident_takes_few_queries() -> None:
    storm(Story(), since=400, until=300, every=3, fingerprint="f00d").store()
    look("dev", NOW)
    read_reach("dev", NOW)
    assert CapacityEvent.objects.exists()
    client = signed_in()
    client.get("/failures/f00d?range=1h")
    for query in ("?range=1h", "?range=1h&order=oldest"):
        assert asked_of(client, f"/failures/f00d{query}") <= MOST_QUERIES, query

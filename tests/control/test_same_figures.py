"""Figures of one fixed range are the same on every page and in the API: on generated history and on a seeded store."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import datetime, timedelta
from io import StringIO
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from events.capacity.detection import look, look_back
from events.capacity.models import CapacityEvent
from events.capacity.reach import read_reach
from events.seeding import Plan, seed
from recovery_ops.control.demonstration.history import generate_history
from recovery_ops.rules.enums import Category
from recovery_ops.rules.roles import Role
from tests.support.html import Shown
from tests.support.pages import REASON, signed_in
from tests.support.stories import NOW, Story, ago, failed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

END = NOW.replace(second=0)
START = END - timedelta(minutes=90)


@pytest.fixture(params=["history", pytest.param("seeded", marks=pytest.mark.full)])
def client(request: pytest.FixtureRequest, settings: Any) -> Client:
    """An admin who looks at the demonstration's history, or at ten thousand seeded events."""
    if request.param == "history":
        settings.DEMO_ENVIRONMENT = "dev"
        generate_history("dev", END)
    else:
        plan = Plan(facts=10_000, agents=8, breakers=8, runs=400, start=START, end=END, environment="dev")
        assert sum(1 for _ in seed(plan)) > 0
        look_back("dev", END)
        read_reach("dev", END)
    # A moment after the end of the range is in no figure of it.
    Story().tell(failed(Category.TIMEOUT, "crm.update"), at=(NOW - END).total_seconds() - 1, run="later").store()
    return signed_in(Role.ADMIN)


def query(start: datetime = START, end: datetime = END) -> str:
    return urlencode({"from": start.isoformat(), "to": end.isoformat()})


def listed(client: Client, path: str, key: str) -> Iterator[dict[str, Any]]:
    """All rows of a list of the API, page by page."""
    further: str | None = path
    while further is not None:
        answer = client.get(further).json()
        yield from answer[key]
        further = answer["next"]


def test_figures_of_range_agree(client: Client, subtests: Any) -> None:
    overview = Shown(client.get(f"/?{query()}"))
    tiles = {one.data["tile"]: one.data for one in overview.having("tile")}
    capacity = client.get(f"/capacity?{query()}")
    told = {one.name: one.told for one in capacity.context["tiles"]}

    with subtests.test("429 and 529"):
        short = told["429"]["failures"] + told["529"]["failures"]
        assert short > 0
        assert int(tiles["capacity"]["total"]) == short

    with subtests.test("failed attempts"):
        page = int(Shown(client.get(f"/failures?{query()}")).values("failures")[0])
        issues = sum(one["failures"] for one in listed(client, f"/api/v1/failures?{query()}", "failures"))
        amplified = sum(row.failures for row in client.get(f"/amplification?{query()}").context["found"].rows)
        assert page == issues == amplified > 0

    with subtests.test("runs"):
        page = int(Shown(client.get(f"/runs?{query()}")).values("total")[0])
        runs = len({one["run"] for one in listed(client, f"/api/v1/runs?{query()}", "runs")})
        assert page == runs > 0


def test_amplification_agrees_on_page_file_and_api(client: Client) -> None:
    found = client.get(f"/amplification?{query()}").context["found"]
    told = client.get(f"/api/v1/amplification?{query()}").json()
    lines = list(csv.DictReader(StringIO(client.get(f"/amplification.csv?{query()}").content.decode("utf-8-sig"))))
    names = ("calls", "attempted_calls", "attempts")
    page = (found.calls, found.attempted, found.attempts)
    assert page == tuple(told[name] for name in names)
    assert page == tuple(sum(int(line[name]) for line in lines) for name in names)
    assert found.extra == sum(int(line["spent_attempts"]) for line in lines)
    for row in found.rows:
        assert row.attempted > 0 or not row.retries
        assert row.attempted <= max(row.calls, row.attempts)


def test_incidents_agree_on_list_page_and_api(client: Client) -> None:
    rows = [row for row, *_ in client.get(f"/capacity?{query()}").context["rows"]]
    told = {one["number"]: one for one in listed(client, f"/api/v1/capacity/events?{query()}", "events")}
    assert {row.id for row in rows} == told.keys() != set()
    for row in rows:
        page = client.get(f"/capacity/{row.id}").context["row"]
        one = told[row.id]
        figures = (row.failures, row.instances, row.peak_per_min, row.owner.value)
        assert figures == (page.failures, page.instances, page.peak_per_min, page.owner.value)
        assert figures == (one["failures"], one["instances"], one["peak_per_min"], one["owner"])
        detail = client.get(f"/api/v1/capacity/events/{row.id}").json()["event"]
        assert row.runs == page.runs == one["runs"] == detail["runs"]


def test_runs_of_merged_incident_agree_everywhere(client: Client) -> None:
    """Two backends with a run in common: five runs and three instances, neither the sum nor the most of one."""
    for provider, runs in (("atlas", ("r-1", "r-2", "r-3")), ("borealis", ("r-3", "r-4", "r-5"))):
        story = Story()
        for number in range(24):
            instance = f"{'ab'[number % 2] if provider == 'atlas' else 'bc'[number % 2]}-1"
            event = failed(category=Category.OVERLOADED, operation=provider, provider=provider)
            story.tell(event, at=300 - 3 * number, instance=instance, run=runs[number % 3])
        story.store()
    look("dev", NOW)
    numbers = list(CapacityEvent.objects.filter(provider__in=("atlas", "borealis")).values_list("pk", flat=True))
    client.post("/capacity/arrange/merge", {"environment": "dev", "reason": REASON, "number": numbers})
    read_reach("dev", NOW)
    span, number = query(ago(900), NOW), min(numbers)
    [row] = [row for row, *_ in client.get(f"/capacity?{span}").context["rows"] if row.id == number]
    incident = client.get(f"/capacity/{number}")
    page, told = incident.context["row"], client.get(f"/api/v1/capacity/events/{number}").json()["event"]
    lines = csv.DictReader(StringIO(client.get(f"/capacity?{span}&format=csv").content.decode("utf-8-sig")))
    [line] = [line for line in lines if line["event"] == row.number]
    assert (row.runs, row.instances, row.services, row.is_partial) == (5, 3, {"research": 3}, False)
    assert (page.runs, page.instances, page.services) == (row.runs, row.instances, row.services)
    assert (told["runs"], told["instances"], told["is_partial"]) == (5, 3, False)
    assert (line["runs"], line["instances"]) == ("5", "3")
    assert incident.context["runs_total"] == len(incident.context["runs"]) == 5

"""Outages, reduced capabilities, attempts and the report by the API: the same rows as the pages."""

from __future__ import annotations

from typing import Any, cast

import pytest
from django.utils import timezone

from events import keys
from events.capacity.detection import look
from events.capacity.models import CapacityEvent
from events.capacity.reach import read_reach
from events.moments import to_us
from recovery_ops.control.core.models.audit import AuditEntry
from tests.support.api_client import Program
from tests.support.capacity import storm
from tests.support.rows import row
from tests.support.stories import NOW, Story, counted
from tests.support.told import untold

pytestmark = pytest.mark.django_db
WHY = {"reason": "one cause behind both providers"}


@pytest.fixture
def events() -> list[int]:
    """Two outages that go on by the real clock, which the API goes by."""
    keys.forget_keys()
    now = timezone.now()
    late = (NOW - now).total_seconds()
    storm(Story(), since=late + 300, until=late + 10).store()
    storm(Story(), since=late + 250, until=late + 10, provider="atlas").store()
    look("dev", now)
    read_reach("dev", now)
    return sorted(CapacityEvent.objects.values_list("pk", flat=True))


def test_outages_are_listed_and_read(events: list[int]) -> None:
    program = Program("read")
    found = program.get("capacity/events", going_on="true")[1]
    assert sorted(row["number"] for row in found["events"]) == events
    one = program.get(f"capacity/events/{events[0]}")[1]["event"]
    assert (one["owner"], one["is_over"], one["runs"], one["merged_into"]) == ("provider", False, 3, None)
    assert program.get("capacity/events/999")[1]["code"] == "unknown_event"
    assert set(program.get("capacity/events", **{"from": "soon"})[1]["fields"]) == {"from"}
    assert program.get("capacity/events", **{"from": "2020-01-01T00:00:00Z"})[0] == 400


def test_regions_and_providers_are_chosen_and_a_part_is_set_apart(events: list[int]) -> None:
    late = (NOW - timezone.now()).total_seconds()
    for region in ("eu", "us"):
        storm(Story(), since=late + 200, until=late + 10, provider="selene", region=region).store()
    storm(Story(), since=late + 200, until=late + 10, provider="selene", model="small", region="us").store()
    look("dev", timezone.now())
    read_reach("dev", timezone.now())
    program = Program()
    [one] = program.get("capacity/events", provider="selene")[1]["events"]
    assert [row["number"] for row in program.get("capacity/events", region="eu")[1]["events"]] == [one["number"]]
    assert program.get("capacity/events", region="asia")[1]["events"] == []
    assert (one["regions"], one["joined_by"]) == ({"us": 78, "eu": 39}, "rule")
    assert one["backends"] == ["selene / large", "selene / small"]
    assert untold(one["name"], "selene / large", "selene / small", "eu", "us") == []
    small = CapacityEvent.objects.get(provider="selene", model="small").pk
    assert program.post(f"capacity/events/{small}/apart", WHY)[1]["event"] == small
    assert program.post(f"capacity/events/{small}/apart", WHY)[0] == 400
    found = program.get("capacity/events", provider="selene")[1]["events"]
    places = {backend: set(row["regions"]) for row in found for backend in row["backends"]}
    assert places == {"selene / large": {"eu", "us"}, "selene / small": {"us"}}
    assert all(untold(row["name"], *row["backends"], *row["regions"]) == [] for row in found)
    [made] = program.get(f"capacity/events/{small}")[1]["arrangements"]
    assert program.post(f"capacity/arrangements/{made['number']}/undo", WHY)[0] == 200
    assert len(program.get("capacity/events", provider="selene")[1]["events"]) == 1


def test_they_are_merged_split_and_taken_back(events: list[int]) -> None:
    program = Program()
    tried = program.post("capacity/events/merge", WHY | {"numbers": events, "dry_run": True})[1]
    assert (tried["dry_run"], tried["step"]) == (True, 0)
    done = program.post("capacity/events/merge", WHY | {"numbers": events}, if_match='"0"')[1]
    assert (done["event"], done["step"]) == (events[0], 1)
    found: dict[str, Any] = program.get(f"capacity/events/{events[0]}")[1]
    assert found["event"]["parts"] == events
    assert program.post("capacity/events/merge", WHY | {"numbers": events}, if_match='"0"')[0] == 409
    [made] = found["arrangements"]
    assert program.post(f"capacity/arrangements/{made['number']}/undo", WHY)[0] == 200
    middle = CapacityEvent.objects.get(pk=events[0])
    at = (middle.started_us + middle.last_us) / 2e6
    moment = timezone.datetime.fromtimestamp(at, tz=timezone.get_current_timezone()).isoformat()  # type: ignore[attr-defined]
    split = program.post(f"capacity/events/{events[0]}/split", WHY | {"at": moment})
    assert split[0] == 200
    assert split[1]["event"] not in events
    verbs = ["capacity.merge", "capacity.merge", "capacity.undo", "capacity.split"]
    assert list(AuditEntry.objects.order_by("number").values_list("verb", flat=True)) == verbs
    assert program.post("capacity/events/merge", WHY | {"numbers": ["1"]})[0] == 400


def test_the_other_pages_answer_programs_too(events: list[int]) -> None:
    late = (NOW - timezone.now()).total_seconds()
    Story().tell(counted(100, operation="ask", attempts=300), at=late + 60, source="nightly").store()
    program = Program("read")
    attempts = program.get("amplification")[1]
    assert (attempts["attempts_per_call"], attempts["rows"][0]["is_finding"]) == (3.0, True)
    assert program.get("degradations")[1]["degradations"] == []
    report = program.get("report", weeks="2")[1]
    assert (len(report["weeks"]), report["total"]["failed_attempts"] > 0) == (2, True)
    assert program.get("report", weeks="99")[0] == 400


def test_similar_events_are_earlier_of_same_backend() -> None:
    keys.forget_keys()

    def event(hours_ago: int, **said: Any) -> Any:
        at_us = to_us(NOW) - hours_ago * 3_600_000_000
        given = {"environment": "dev", "provider": "p", "model": "m", "started_us": at_us, "last_us": at_us + 1}
        return cast(CapacityEvent, row(CapacityEvent, **given | said))

    here, earlier = event(10), [event(hours) for hours in range(21, 28)]
    whole = event(30, provider="q")
    for hours in range(11, 20):
        event(hours, part_of=whole)  # of the same backend, and told as the whole
    event(20, merged_into=here)
    event(20, environment="test")
    event(20, model="n")
    event(20, operation="search")
    event(9)
    assert Program("read").get(f"capacity/events/{here.pk}")[1]["similar"] == [one.pk for one in earlier[:5]]

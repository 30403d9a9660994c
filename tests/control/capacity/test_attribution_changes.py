"""An incident lists each change of its attribution, and is ongoing for as long as the rule says."""

from __future__ import annotations

from datetime import timedelta

import pytest

from events.capacity.asking import capacity_event
from events.capacity.bounds import bounds_of
from events.capacity.detection import look
from events.capacity.models import CapacityEvent
from events.capacity.reach import read_reach
from events.capacity.rows import OWNER_CHIPS, Owner
from recovery_ops.control.capacity.views.timeline import Happened
from recovery_ops.rules.enums import Category
from tests.support.capacity import storm
from tests.support.pages import signed_in
from tests.support.stories import NOW, Story, ago

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def read(at_s: float) -> int:
    """The incident, after a look so many seconds ago; its number."""
    look("dev", ago(at_s))
    read_reach("dev", ago(at_s))
    return CapacityEvent.objects.get(merged_into=None).pk


@pytest.fixture
def number() -> int:
    """Our rate limit for a minute, then twice as long the provider's overload."""
    storm(Story(), since=240, until=180, category=Category.RATE_LIMITED).store()
    read(179)
    storm(Story(), since=175, until=30, category=Category.OVERLOADED).store()
    read(100)
    return read(25)


def test_change_of_attribution_is_listed(number: int) -> None:
    timeline = signed_in().get(f"/capacity/{number}").context["timeline"]
    [shown] = [one for one in timeline if one.kind is Happened.ATTRIBUTION]
    assert shown.text.endswith(f"{OWNER_CHIPS[Owner.QUOTA]} → {OWNER_CHIPS[Owner.PROVIDER]}")

    told = signed_in().get(f"/api/v1/capacity/events/{number}").json()["event"]
    [change] = told["attribution_changes"]
    assert (change["from"], change["to"], change["part"]) == ("quota", "provider", number)
    assert change["categories"]["overloaded"] > change["categories"]["rate_limited"] > 0
    assert told["owner"] == "provider"
    assert told["started"] < change["at"] <= told["last"]


def test_unchanged_attribution_lists_nothing() -> None:
    storm(Story(), since=240, until=30).store()
    read(100)
    number = read(25)
    assert signed_in().get(f"/api/v1/capacity/events/{number}").json()["event"]["attribution_changes"] == []


def test_incident_is_ongoing_until_rule_ends_it(number: int) -> None:
    last = CapacityEvent.objects.get(pk=number).last_us / 1e6
    ends_s = last + bounds_of("dev").quiet_s - NOW.timestamp()
    for after_s, is_over in ((ends_s - 1, False), (ends_s + 1, True)):
        row = capacity_event("dev", number, now=NOW + timedelta(seconds=after_s))
        assert row is not None
        assert row.is_over is is_over

"""A reset is a command that travels as state: who hears of it, for how long, and what it ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.breakers.services import resets as resets_services
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.desired_state import document as desired
from recovery_ops.rules.policy.scope import Scope
from tests.support.actions import SEARCH, asked, small_fleet, trip
from tests.support.stories import NOW

pytestmark = pytest.mark.usefixtures("known")
WELL_AGAIN = "the provider is well again"


def reset(**changed: Any) -> Any:
    return resets_services.reset(**asked(scope=SEARCH) | changed)


def resets(instance: str = "r-0") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = desired.document("dev", service="research", instance=instance, now=NOW)["resets"]
    return found


def test_agents_are_told_the_revision_to_reset_at() -> None:
    done = reset()
    assert resets() == [{"scope": {"operation": "search_web"}, "reset_at": done.revision, "ramp_s": 0.0}]


def test_of_several_resets_of_one_scope_the_newest_is_told() -> None:
    reset()
    reset()
    narrow = Scope(operation="search_web", instance="r-0")
    reset(scope=narrow)
    assert [one["reset_at"] for one in resets()] == [2, 3]
    assert [one["reset_at"] for one in resets("r-1")] == [2]


def test_a_reset_ends_the_override_on_exactly_its_scope() -> None:
    trip()
    narrow = trip(scope=Scope(operation="search_web", instance="r-0")).object
    done = reset(reason=WELL_AGAIN)
    assert [one.pk for one in Override.objects.live("dev")] == [narrow.pk]
    ended = Override.objects.exclude(ended_at=None).get()
    assert (ended.end_revision, ended.end_reason) == (done.revision, WELL_AGAIN)


def test_a_reset_of_what_nobody_reported_is_404() -> None:
    with pytest.raises(CommandRejected) as refused:
        reset(scope=Scope(operation="serch_web"))
    assert (refused.value.status, refused.value.code) == (404, "unknown_breaker")


def test_who_looked_before_the_trip_does_not_reset_it_away() -> None:
    trip(reason="helios answers 529 everywhere")
    with pytest.raises(CommandRejected) as refused:
        reset(seen=0)
    assert refused.value.code == "stale"


def test_a_large_fleet_closes_over_a_ramp() -> None:
    small_fleet(40)
    assert reset().object.ramp_s == 10.0


def test_a_reset_is_told_for_a_week_of_changes() -> None:
    reset()
    trip(now=NOW + timedelta(days=6, hours=23))
    assert [one["reset_at"] for one in resets()] == [1]
    trip(now=NOW + timedelta(days=7, minutes=1), reason="long afterwards, something else")
    assert resets() == []

"""What was deployed and what was taken back, of what instances told about their versions."""

from __future__ import annotations

from datetime import timedelta

import pytest

from events.deployments.asking import deployments
from recovery_ops.rules.enums import State
from tests.support.stories import NOW, Story, ago, failed, heartbeat, moved

pytestmark = pytest.mark.usefixtures("engine")
HOUR_S = 3600


def runs(version: str, since_s: int, until_s: int = 0, *, service: str = "research", instance: str = "a-1") -> None:
    """An instance beats each five minutes, from so many seconds ago."""
    story = Story()
    for at_s in (*range(since_s, until_s, -300), until_s):
        story.tell(heartbeat(), at=at_s, service=service, instance=instance, version=version)
    story.store()


def told(hours: int = 6, breaker: str = "") -> list[tuple[str, str]]:
    found = deployments("dev", start=NOW - timedelta(hours=hours), end=NOW, breaker=breaker)
    return [(one.word, one.before) for one in found]


def test_the_first_version_of_a_service_is_none_and_each_later_one_is() -> None:
    runs("2.8.1", 5 * HOUR_S, 2 * HOUR_S)
    runs("", 5 * HOUR_S, service="nameless")
    runs("7", 4 * HOUR_S, service="other")
    assert told() == []
    runs("2.9.0", 2 * HOUR_S)
    [one] = deployments("dev", start=NOW - timedelta(hours=6), end=NOW)
    assert (one.word, one.before, one.at) == ("research 2.9.0", "2.8.1", ago(2 * HOUR_S))
    assert told(hours=1) == []
    assert deployments("prod", start=NOW - timedelta(hours=6), end=NOW) == []


def test_a_version_that_falls_silent_beside_an_older_one_was_taken_back() -> None:
    runs("2.8.1", 5 * HOUR_S, instance="a-1")
    runs("2.9.0", 2 * HOUR_S, HOUR_S, instance="a-2")
    assert told() == [("research back to 2.8.1", "2.9.0"), ("research 2.9.0", "2.8.1")]
    runs("2.9.0", HOUR_S, instance="a-2")
    assert told() == [("research 2.9.0", "2.8.1")], "it lives after all"


def test_a_version_that_gave_way_to_a_newer_one_was_not_taken_back() -> None:
    runs("2.8.1", 5 * HOUR_S, instance="a-1")
    runs("2.9.0", 3 * HOUR_S, HOUR_S, instance="a-2")
    runs("2.9.1", HOUR_S, instance="a-2")
    assert told() == [("research 2.9.1", "2.9.0"), ("research 2.9.0", "2.8.1")]


@pytest.mark.parametrize(("outlived_s", "is_return"), [(120, False), (180, True)])
def test_older_version_returns_after_three_minutes_alone(outlived_s: int, is_return: bool) -> None:
    runs("2.8.1", 5 * HOUR_S, HOUR_S - outlived_s, instance="a-1")
    runs("2.9.0", 2 * HOUR_S, HOUR_S, instance="a-2")
    back = [("research back to 2.8.1", "2.9.0")] if is_return else []
    assert told() == [*back, ("research 2.9.0", "2.8.1")]


@pytest.mark.parametrize(("newer_min", "is_return"), [(58, False), (56, True)])
def test_newer_version_follows_within_three_minutes(newer_min: int, is_return: bool) -> None:
    runs("2.8.1", 5 * HOUR_S, instance="a-1")
    runs("2.9.0", 3 * HOUR_S, HOUR_S, instance="a-2")
    runs("2.9.1", newer_min * 60 - 20, instance="a-2")
    back = [("research back to 2.8.1", "2.9.0")] if is_return else []
    assert told() == [("research 2.9.1", "2.9.0"), *back, ("research 2.9.0", "2.8.1")]


def test_without_heartbeats_silence_proves_nothing() -> None:
    runs("2.8.1", 5 * HOUR_S)
    Story().tell(failed(), at=HOUR_S, version="2.9.0").store()
    assert told() == [("research 2.9.0", "2.8.1")]


def test_a_breaker_knows_only_the_services_that_have_it() -> None:
    for service in ("research", "billing"):
        runs("1", 5 * HOUR_S, service=service)
        runs("2", HOUR_S, service=service)
    Story().tell(moved(State.OPEN), at=HOUR_S, service="billing", version="2").store()
    assert told(breaker="search_web") == [("billing 2", "1")]
    assert told(breaker="calm") == []


def test_versions_are_the_same_in_any_order() -> None:
    runs("2.9.0", 2 * HOUR_S)
    runs("2.8.1", 5 * HOUR_S, HOUR_S)
    assert told() == [("research 2.9.0", "2.8.1")]

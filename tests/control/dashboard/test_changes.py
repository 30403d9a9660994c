"""What changed lately: a line for each deed of a person, and one for many of the console's own."""

from __future__ import annotations

import pytest

from events.deployments.asking import deployments
from recovery_ops.control.core import actors
from recovery_ops.control.dashboard.views.changes import LATELY, newest_entries, what_changed
from recovery_ops.rules.policy.scope import Scope
from tests.support.actions import trip
from tests.support.pages import signed_in
from tests.support.stories import NOW, Story, heartbeat
from tests.support.told import untold

pytestmark = pytest.mark.usefixtures("known")


def lines() -> list[tuple[str, str, int]]:
    """Who changed what, and how many others were changed alike."""
    found = what_changed(newest_entries("dev"), deployments("dev", start=NOW - LATELY, end=NOW), now=NOW)
    return [(one.by, one.object, one.others) for one in found]


def test_what_the_console_did_by_itself_is_told_together() -> None:
    trip(scope=Scope(operation="first"), ahead=True)
    trip(scope=Scope(operation="second"), ahead=True)
    for number in range(12):
        trip(scope=Scope(operation=f"quorum-{number}"), by=actors.system_actor("quorum"), ahead=True)
    assert lines() == [("quorum", "quorum-11", 11), ("ana", "second", 0), ("ana", "first", 0)]


def test_what_was_deployed_stands_between_what_people_did_and_hides_none_of_it() -> None:
    trip(scope=Scope(operation="first"), ahead=True)
    for number in range(5):
        Story().tell(heartbeat(), at=50_000, service=f"s-{number}", version="1.0").store()
        Story().tell(heartbeat(), at=3600 + number, service=f"s-{number}", version="1.1").store()
    deployed = [("s-0", "1.1", 0), ("s-1", "1.1", 0), ("s-2", "1.1", 2)]
    assert lines() == [("ana", "first", 0), *deployed]
    for number in range(9):
        trip(scope=Scope(operation=f"later-{number}"), ahead=True)
    assert lines()[-3:] == deployed
    assert len(lines()) == 8


@pytest.mark.usefixtures("now")
def test_the_overview_tells_a_deployment_and_leads_to_who_runs_it() -> None:
    Story().tell(heartbeat(), at=50_000, version="2.8.1").tell(heartbeat(), at=30, version="<2.9>").store()
    page = signed_in().get("/").content.decode()
    assert untold(page, "2.8.1") == [], "what ran before"
    assert '/agents?service=research&amp;version=%3C2.9%3E">&lt;2.9&gt;</a>' in page

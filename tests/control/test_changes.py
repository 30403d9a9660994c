"""What changed lately: a line for each deed of a person, and one for many of the console's own."""

from __future__ import annotations

import pytest

from recovery_ops.control import actions
from recovery_ops.control.views.changes import changes_of, newest_entries
from recovery_ops.rules.scope import Scope
from tests.control.cast import trip
from tests.events.seeding import NOW

pytestmark = pytest.mark.usefixtures("known")


def lines() -> list[str]:
    found = changes_of(newest_entries("dev"), now=NOW)
    return [f"{one.by} {one.verb} {one.object}" + (f" and {one.others} more" if one.others else "") for one in found]


def test_what_the_console_did_by_itself_is_told_together() -> None:
    trip(scope=Scope(operation="first"), ahead=True)
    trip(scope=Scope(operation="second"), ahead=True)
    for number in range(12):
        trip(scope=Scope(operation=f"quorum-{number}"), by=actions.system("quorum"), ahead=True)
    assert lines() == [
        "quorum tripped quorum-11 and 11 more",
        "ana tripped second",
        "ana tripped first",
    ]

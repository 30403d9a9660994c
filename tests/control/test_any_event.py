"""No event breaks a page: every kind, with every attribute missing, empty, invisible, wrong-typed, long or huge.

One walk opens every page, list of the API, file and figure that the events appear on, and follows their links: none
breaks, and every link leads somewhere.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from events.capacity.detection import look
from events.keys import create_key
from recovery_ops.control import tasks
from recovery_ops.rules.events import Event
from recovery_ops.rules.roles import Role
from recovery_ops.wire import names
from tests.support import walks
from tests.support.any_events import FAULTS, alone, bare, good, spoilt, store
from tests.support.engines import engine
from tests.support.pages import PAGES, signed_in
from tests.support.stories import NOW

__all__ = ["engine"]  # the fixture

pytestmark = [pytest.mark.usefixtures("now")]

KINDS = list(names.EVENTS)


def broken_by(
    events: Mapping[type[Event], list[dict[str, object]]], *, each: int = 4, each_query: int = 1
) -> dict[str, str]:
    """Addresses that these events break, and links that lead nowhere: the status, and the page that links it.

    `each`: how many objects of one kind are opened; `each_query`: how many of one tab of a list, and of one file.
    """
    create_key("tests", ["ingest"], "dev")
    assert store(NOW, events) > 0
    look("dev", NOW)
    for task in (tasks.keep_escalations, tasks.keep_failure_cases, tasks.keep_quorums, tasks.watch_retry_budgets):
        task()
    tasks.tell_people()
    client = signed_in(Role.ADMIN)
    client.raise_request_exception = False
    begin = ["/timelines?view=table", *PAGES.values(), *walks.of_pages(), *walks.of_api()]
    found = {}
    for address, answer, linked_from in walks.opened(client, begin, each=each, each_query=each_query):
        if answer.status_code >= 500 or (linked_from and answer.status_code == 404):
            found[address] = f"{answer.status_code}, linked from {linked_from}"
    return found


def test_events_of_every_kind_and_fault_break_nothing(engine: str) -> None:
    events = {kind: [bare(kind), *(spoilt(kind, fault) for fault in FAULTS)] for kind in KINDS}
    assert broken_by(events, each=1) == {}


@pytest.mark.full
@pytest.mark.parametrize("fault", FAULTS)
def test_fault_of_any_attribute_beside_good_ones_breaks_nothing(engine: str, fault: str) -> None:
    events = {kind: [good(kind), *alone(kind, fault), spoilt(kind, fault)] for kind in KINDS}
    assert broken_by(events) == {}


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_kind_alone_with_any_fault_breaks_nothing(engine: str, kind: type[Event]) -> None:
    assert broken_by({kind: [bare(kind), *(spoilt(kind, fault) for fault in FAULTS)]}) == {}

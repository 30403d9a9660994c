"""No event breaks a page: every kind, with every attribute missing, empty, invisible, wrong-typed, long or huge.

A fault is looked for everywhere at once: every page, list of the API, file and figure that the events appear on is
opened, and so is every link on it.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from events.capacity.detection import look
from events.keys import create_key
from recovery_ops.control import tasks
from recovery_ops.control.roles import Role
from recovery_ops.rules.facts import Fact
from recovery_ops.wire import names
from tests.support import walks
from tests.support.any_events import FAULTS, alone, bare, good, spoilt, store
from tests.support.engines import engine
from tests.support.pages import PAGES, signed_in
from tests.support.stories import NOW

__all__ = ["engine"]  # the fixture

pytestmark = [pytest.mark.usefixtures("now")]

KINDS = list(names.EVENTS)
_MAY_BE_MISSING = ("/api/", "/policies/operations/", "/breakers/*/", "/runs/")
"""Not every page has a twin in the API; an operation whose calls nobody reported has no page, and no breaker no act;
some kinds of events name a run of which no page tells."""


def broken_by(
    events: Mapping[type[Fact], list[dict[str, object]]], *, each: int = 4, follows_links: bool = False
) -> dict[str, int]:
    """The pages that these events break, by address: the status there. `follows_links`: and links that lead nowhere.

    `each`: how many objects of one kind are opened.
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
    for address, answer in walks.opened(client, begin, each=each):
        is_lost = answer.status_code == 404 and address not in begin and not address.startswith(_MAY_BE_MISSING)
        if answer.status_code >= 500 or (follows_links and is_lost):
            found[address] = answer.status_code
    return found


def test_events_of_every_kind_and_fault_break_nothing(engine: str) -> None:
    events = {kind: [bare(kind), *(spoilt(kind, fault) for fault in FAULTS)] for kind in KINDS}
    assert broken_by(events, each=1, follows_links=True) == {}


@pytest.mark.full
@pytest.mark.parametrize("fault", FAULTS)
def test_fault_of_any_attribute_beside_good_ones_breaks_nothing(engine: str, fault: str) -> None:
    assert broken_by({kind: [good(kind), *alone(kind, fault), spoilt(kind, fault)] for kind in KINDS}) == {}


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_kind_alone_with_any_fault_breaks_nothing(engine: str, kind: type[Fact]) -> None:
    assert broken_by({kind: [bare(kind), *(spoilt(kind, fault) for fault in FAULTS)]}) == {}

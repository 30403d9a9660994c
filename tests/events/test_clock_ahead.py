"""A clock a day ahead: what depends on when its facts came, and what does not (docs/decisions/0012)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from events.ingest.records import Intake, read_records
from events.models import Agent, BreakerState, Degradation, Fact, MinuteSum, SettingsInForce
from events.otlp.sent import Batch
from events.projections import verification
from events.projections.summing import COUNTERS, DIMENSIONS
from events.store.writes import store_facts
from recovery_ops.rules.enums import State
from tests.support import folds as fold
from tests.support.examples import examples
from tests.support.folds import NOW_US, Told, check, clear, some_facts

DAY_S = 86_400.0
SECOND_US = 1_000_000
_Records = list[tuple[str, Any]]
_Story = list[tuple[int, Any]]
"""Which of two instances tells which fact, in the order in which all happened."""

stories = st.lists(st.tuples(st.integers(0, 1), some_facts | st.builds(fold.stated, st.integers(0, 3))), max_size=12)
pieces = st.lists(st.integers(0, 12), max_size=4)
once_more = settings(max_examples=examples(4, 16), suppress_health_check=[HealthCheck.function_scoped_fixture])


def told(story: _Story, *, ahead_s: float) -> _Records:
    """The story as clocks tell it that are so far ahead; each fact a second after the one before, the last one now."""
    tellers, records = [Told("a-1"), Told("a-2")], []
    for number, (who, fact) in enumerate(story):
        tellers[who].tell(fact, len(story) - number - ahead_s, number=number + 1)
        records.append(tellers[who].records[-1])
    return records


def request_of(records: Sequence[tuple[str, Any]], received_us: int) -> Intake:
    batches = [Batch({"service.name": "billing", "service.instance.id": who}, "t", [sent]) for who, sent in records]
    return read_records(batches, "dev", received_us)


def deliver(*requests: Intake) -> None:
    for one in requests:
        with transaction.atomic():
            store_facts(one.rows)
    check()


def cut(records: _Records, places: list[int]) -> list[_Records]:
    edges = sorted({0, len(records), *(min(place, len(records)) for place in places)})
    return [records[start:end] for start, end in pairwise(edges)]


def totals() -> dict[Any, tuple[int, ...]]:
    """Every sum by its dimensions, over all minutes."""
    found: dict[Any, tuple[int, ...]] = {}
    for *name_and_counts, _ in MinuteSum.objects.values_list(*DIMENSIONS, *COUNTERS, "minute"):
        name, counts = tuple(name_and_counts[: len(DIMENSIONS)]), name_and_counts[len(DIMENSIONS) :]
        found[name] = tuple(map(sum, zip(counts, found.get(name, [0] * len(COUNTERS)), strict=True)))
    return found


def states() -> dict[str, list[Any]]:
    """What stands, without since when."""
    agents = ("instance", "version", "status", "revision", "config_hash", "applied_revision", "rejected_revision")
    intervals = Degradation.objects.values_list("agent__instance", "kind", "to_name", "calls", "ended_us")
    return {
        "agents": sorted(Agent.objects.values_list(*agents), key=str),
        "breakers": sorted(BreakerState.objects.values_list("agent__instance", "breaker", "state", "trigger")),
        "settings": sorted(SettingsInForce.objects.values_list("agent__instance", "operation", "stated")),
        "degradations": sorted((*one, ended_us is None) for *one, ended_us in intervals),
    }


@once_more
@given(story=stories, drawn=st.data())
def test_every_fact_is_counted_once_however_it_comes(engine: str, story: _Story, drawn: st.DataObject) -> None:
    clear()
    deliver(request_of(told(story, ahead_s=0), NOW_US))
    expected, kinds = totals(), Counter(Fact.objects.values_list("event", flat=True))
    records = told(story, ahead_s=DAY_S)
    arriving = cut(drawn.draw(st.permutations(records + records[:3])), drawn.draw(pieces))
    clear()
    deliver(*(request_of(part, NOW_US + number * SECOND_US) for number, part in enumerate(arriving)))
    assert (totals(), Counter(Fact.objects.values_list("event", flat=True))) == (expected, kinds)
    assert not Fact.objects.filter(at_us__gt=NOW_US + len(arriving) * SECOND_US).exists()


@once_more
@given(story=stories, places=pieces, again=st.integers(0, 12))
def test_what_comes_in_its_order_leaves_the_states_of_a_right_clock(
    engine: str, story: _Story, places: list[int], again: int
) -> None:
    clear()
    deliver(request_of(told(story, ahead_s=0), NOW_US))
    expected = states()
    records = told(story, ahead_s=DAY_S)
    clear()
    parts = cut(records, places)
    requests = [request_of(part, NOW_US + number * SECOND_US) for number, part in enumerate(parts)]
    deliver(*requests, request_of(records[:again], NOW_US + 60 * SECOND_US))
    assert states() == expected


@once_more
@given(story=stories, places=pieces, drawn=st.data())
def test_the_receipt_decides_and_not_the_order_in_which_requests_are_stored(
    engine: str, story: _Story, places: list[int], drawn: st.DataObject
) -> None:
    parts = cut(told(story, ahead_s=DAY_S), places)

    def requests() -> list[Intake]:
        return [request_of(part, NOW_US + number * SECOND_US) for number, part in enumerate(parts)]

    clear()
    deliver(*requests())
    expected = verification.stored_tables(0)
    clear()
    deliver(*drawn.draw(st.permutations(requests())))
    assert verification.stored_tables(0) == expected


def test_set_right_a_clock_is_believed_at_once(engine: str) -> None:
    """Were facts ordered by what was stated, the breaker would stand open until tomorrow."""
    clear()
    ahead = Told().tell(fold.move(State.OPEN), 2 - DAY_S, number=1)
    deliver(request_of(ahead.records, NOW_US - 2 * SECOND_US))
    ahead.tell(fold.move(State.CLOSED), 1, number=2)
    deliver(request_of(ahead.records[1:], NOW_US))
    assert BreakerState.objects.get().state == "closed"

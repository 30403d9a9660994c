"""Failures of any range, counted from sums, beside a plain count of the same failures."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from events.failures.asking import grid_of, read_failures, read_with_before
from events.failures.ever import read_with_ever
from events.failures.grouping import AS_SENT
from events.failures.met import reach_of, runs_met
from events.failures.sums import counts_in, instances_in, kinds_of, newest_failures, totals_in
from events.ingest.records import read_records
from events.issues.fold import Variant
from events.models import Agent
from events.moments import from_us
from events.otlp.sent import Batch
from events.store.writes import store_facts
from recovery_ops.rules.enums import Category
from tests.support.examples import examples
from tests.support.folds import NOW, NOW_US, Told, clear, failure

CATEGORIES = (Category.TIMEOUT, Category.RATE_LIMITED)
LENGTHS = (timedelta(minutes=1), timedelta(minutes=7), timedelta(hours=1), timedelta(hours=30), timedelta(days=9))
Failed = tuple[str, Category, bool, str, int]
"""Instance, category, whether somebody waits, run and moment."""

agos_us = st.one_of(
    st.integers(1, 200_000_000),
    st.integers(1, 40).map(lambda number: number * 60_000_000),
    st.integers(1, 10 * 86_400_000_000),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Failed]:
    found = st.tuples(
        st.sampled_from(["a-1", "a-2"]),
        st.sampled_from(CATEGORIES),
        st.booleans(),
        st.sampled_from(["", "run-1", "run-2"]),
        agos_us.map(lambda ago_us: NOW_US - ago_us),
    )
    return draw(st.lists(found, min_size=1, max_size=25))


def deliver(history: list[Failed]) -> None:
    told = {instance: Told(instance) for instance in ("a-1", "a-2")}
    for instance, category, is_foreground, run, at_us in history:
        source = "main_agent" if is_foreground else "background"
        told[instance].tell(
            failure(category), (NOW_US - at_us) / 1e6, is_foreground=is_foreground, source=source, run=run
        )
    batches = [
        Batch({"service.name": "billing", "service.instance.id": instance}, "t", [sent])
        for one in told.values()
        for instance, sent in one.records
    ]
    with transaction.atomic():
        store_facts(read_records(batches, "dev", NOW_US).rows)


@settings(max_examples=examples(12, 60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=histories(), length=st.sampled_from(LENGTHS), shift_us=st.sampled_from([0, 1, 13_000_001, 90_000_000]))
def test_counts_of_any_range_equal_a_recount(
    engine: str, history: list[Failed], length: timedelta, shift_us: int
) -> None:
    clear()
    deliver(history)
    end_us = NOW_US - shift_us
    start_us = end_us - int(length.total_seconds()) * 1_000_000
    inside = [one for one in history if start_us <= one[4] < end_us]
    grid = grid_of(from_us(start_us), from_us(end_us))
    counted = counts_in("dev", start_us, end_us, grid=grid, is_by_instance=True)
    names = {one.pk: one.instance for one in Agent.objects.all()}
    kinds = kinds_of({alike.kind for alike in counted})

    def named(alike: Any) -> tuple[Any, ...]:
        category, variant = kinds[alike.kind].category, Variant.of(alike.variant)
        return names[alike.agent_id], category, variant.is_foreground, alike.bin

    expected: dict[tuple[Any, ...], list[int]] = {}
    for instance, category, is_foreground, _, at_us in inside:
        place = (at_us // 1_000_000 - grid.start_s) // grid.bin_s
        expected.setdefault((instance, category.value, is_foreground, place), []).append(at_us)
    assert {named(alike): tuple(failed) for alike, failed in counted.items()} == {
        name: (len(moments), min(moments), max(moments)) for name, moments in expected.items()
    }
    assert sum(one.failures for one in counts_in("dev", start_us, end_us).values()) == len(inside)
    only = {alike.kind for alike in counted if kinds[alike.kind].category == Category.TIMEOUT.value}
    of_kind = [one for one in inside if one[1] is Category.TIMEOUT]
    assert totals_in("dev", [((start_us, end_us), only)]) == [len(of_kind)]
    reached = instances_in("dev", start_us, end_us, only)
    assert {names[number] for some in reached.values() for number in some} == {one[0] for one in of_kind}
    newest = newest_failures("dev", start_us, end_us, {one: kinds[one] for one in only}, 4)
    assert [one.at_us for one in newest] == sorted((one[4] for one in of_kind), reverse=True)[:4]
    chosen = {one: kinds[one] for one in only}
    for is_oldest_first in (False, True):
        walked: list[Any] = []
        while page := newest_failures(
            *("dev", start_us, end_us, chosen, 3),
            is_oldest_first=is_oldest_first,
            after=(walked[-1].at_us, walked[-1].pk) if walked else None,
        ):
            walked += page
        assert [one.at_us for one in walked] == sorted((one[4] for one in of_kind), reverse=not is_oldest_first)
        assert len({one.pk for one in walked}) == len(of_kind)
    sample, before = read_with_before("dev", start=from_us(start_us), end=from_us(end_us))
    assert sample.total == len(inside)
    assert before.total() == sum(2 * start_us - end_us <= one[4] < start_us for one in history)


def test_first_and_last_are_of_any_time(engine: str) -> None:
    clear()
    moments = [NOW_US - ago_s * 1_000_000 for ago_s in (5, 5_000, 5_001, 900_000)]
    deliver([("a-1", Category.TIMEOUT, at_us % 2 == 0, "", at_us) for at_us in moments])
    deliver([("a-1", Category.RATE_LIMITED, True, "", NOW_US - 950_000_000_000)])
    [name] = {one.fingerprint for one in read_failures("dev", **_span(60, 0)).seen}
    for span in (_span(60, 0), _span(7_000, 4_000), _span(40, 30)):
        sample, ever = read_with_ever("dev", name, **span, grouping=AS_SENT)
        assert ever == (from_us(min(moments)), from_us(max(moments)))
        assert sample == read_failures("dev", **span)
    assert read_with_ever("dev", "no such cause", **_span(60, 0), grouping=AS_SENT)[1] is None
    assert read_with_ever("prod", name, **_span(60, 0), grouping=AS_SENT)[1] is None


def _span(since_s: int, until_s: int) -> dict[str, Any]:
    return {"start": from_us(NOW_US - since_s * 1_000_000), "end": from_us(NOW_US - until_s * 1_000_000)}


def test_runs_that_met_a_kind_are_counted_once(engine: str) -> None:
    clear()
    deliver(
        [
            (instance, category, True, run, NOW_US - ago_s * 1_000_000)
            for ago_s, instance, category, run in (
                (10, "a-1", Category.TIMEOUT, "run-1"),
                (11, "a-2", Category.RATE_LIMITED, "run-1"),
                (12, "a-1", Category.TIMEOUT, "run-2"),
                (4000, "a-1", Category.TIMEOUT, "run-3"),
                (13, "a-1", Category.TIMEOUT, ""),
            )
        ]
    )
    span = {"start_us": NOW_US - 3_600_000_000, "end_us": NOW_US}
    kinds = kinds_of({alike.kind for alike in counts_in("dev", *span.values())})
    timeouts = [one for one, kind in kinds.items() if kind.category == Category.TIMEOUT.value]
    causes = {"all": list(kinds), "timeouts": timeouts}
    assert Counter(runs_met("dev", causes, **span)) == {"all": 2, "timeouts": 2}
    assert runs_met("dev", causes, **span, most=1) == {"all": 1, "timeouts": 1}
    reach = reach_of("dev", list(kinds), **span)
    assert (reach.runs, reach.instances) == (Counter({(1, ""): 2}), 2)
    assert reach_of("dev", list(kinds), **span, most=1).runs.total() == 1
    assert reach_of("dev", timeouts, **span).instances == 1
    assert int(NOW.timestamp()) * 1_000_000 == NOW_US

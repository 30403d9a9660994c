"""Numbers that questions find in failures, calls and runs, beside a slow recount of the same events in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from pytest_django import DjangoDbBlocker

from events import queries
from events.capacity.asking import capacity_events, waits_asked_for
from events.capacity.occurrences import failures_in
from events.failures import asking
from events.failures.naming import called_lately
from events.failures.rows import Field
from events.failures.unknown import unknown_causes
from events.models import Fact
from events.moments import from_us, to_us
from events.queries.instance import failures_of, revisions_of
from events.queries.operations import calls_of_a_day
from events.queries.plays import played
from events.queries.retrying import calls_and_retries
from events.recoveries.asking import recoveries, today_of
from events.runs.rows import RunStory
from events.runs.selectors import RunFilters, RunList, Show, runs_begun_by
from recovery_ops.rules import events as facts
from recovery_ops.rules.enums import CAPACITY, FAMILY_OF, Category, RunStatus, State
from tests.support.busy_hours import BACKENDS, INSTANCES, OPERATIONS, SILENT, Entry, busy_hours, of_kind, store
from tests.support.stories import NOW

pytestmark = pytest.mark.django_db
TOLD = busy_hours(7)
WINDOWS_S = (900, 3600, 86_400)
Failure = tuple[Entry, facts.FailureClassified]


@pytest.fixture(scope="module", autouse=True)
def _stored(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Stored once: no question writes anything."""
    with django_db_blocker.unblock(), transaction.atomic():
        store("other", busy_hours(8))
        store("dev", TOLD)
        yield
        transaction.set_rollback(True)


def within(kind: type[Any], first_s: float, last_s: float = 0.0) -> list[tuple[Entry, Any]]:
    """Events of a kind in [first, last) seconds ago, the oldest first."""
    return [pair for pair in of_kind(TOLD, kind) if last_s < pair[0].ago_s <= first_s]


def failures(first_s: float, last_s: float = 0.0) -> list[Failure]:
    return within(facts.FailureClassified, first_s, last_s)


def window(length_s: float) -> dict[str, Any]:
    return {"start": NOW - timedelta(seconds=length_s), "end": NOW}


def cause(event: facts.FailureClassified) -> str:
    return event.fingerprint or f"unnamed-{event.category.value}-{event.operation}"


def backend(operation: str) -> str:
    return " / ".join(filter(None, BACKENDS[operation]))


def tally(found: Iterable[Failure], name: Callable[[Entry, facts.FailureClassified], Any]) -> dict[Any, int]:
    return dict(Counter(name(*one) for one in found))


def test_causes_equal_a_slow_recount() -> None:
    for length_s in WINDOWS_S:
        mine, earlier = failures(length_s), tally(failures(2 * length_s, length_s), lambda _, event: cause(event))
        sample = asking.read_failures("dev", **window(length_s))
        assert sample.total == len(mine)
        assert asking.counts_before("dev", **window(length_s)) == earlier
        light = asking.fingerprints(sample, **window(length_s), before=earlier)
        worded = asking.in_words("dev", sample, light)
        rows = asking.with_reach("dev", sample, worded, **window(length_s))
        assert [one.place for one in rows] == sorted(one.place for one in rows)
        assert {one.fingerprint: one.count for one in rows} == tally(mine, lambda _, event: cause(event))
        for row in rows:
            its = [one for one in mine if cause(one[1]) == row.fingerprint]
            (newest, said), (oldest, _) = its[-1], its[0]
            error_type = said.error_type if said.error_type != "_OTHER" else ""
            assert (row.first, row.last) == (from_us(oldest.at_us), from_us(newest.at_us))
            assert (row.message, row.error_type, row.status_code) == (said.message, error_type, said.status_code)
            assert row.runs == len({one.run for one, _ in its} - {""})
            assert row.instances == len({one.instance for one, _ in its})
            assert row.before == earlier.get(row.fingerprint, 0)
            assert set(row.operations) == {event.operation for _, event in its}
            bins = Counter((one.at_us // 1_000_000 - sample.grid.start_s) // sample.grid.bin_s for one, _ in its)
            assert list(row.bins) == [bins[place] for place in range(sample.grid.length)]
            shown = asking.occurrences("dev", sample.of([row.fingerprint]), **window(length_s), limit=9)
            assert [to_us(one.at) for one in shown] == [one.at_us for one, _ in reversed(its)][:9]
        agents = asking.counts_of_agents("dev", sample, **window(length_s))
        assert agents[Field.INSTANCE] == tally(mine, lambda one, _: one.instance)


def test_counts_of_causes_equal_a_slow_recount() -> None:
    for length_s in WINDOWS_S:
        mine = failures(length_s)
        lately = asking.counts_lately("dev", **window(length_s))
        assert lately == tally(mine, lambda _, event: (cause(event), event.provider or ""))
        marks = asking.named_marks("dev", **window(length_s))
        assert [one.first for one in marks] == sorted(one.first for one in marks)
        for mark in marks:
            its = [one.at_us for one, event in mine if cause(event) == mark.fingerprint]
            assert (to_us(mark.first), to_us(mark.last)) == (min(its), max(its))
        assert {one.fingerprint for one in marks} == set(tally(mine, lambda _, event: cause(event)))
        names = {one.fingerprint for one in marks}
        newest = asking.newest_marked("dev", names, **window(length_s))
        assert newest == {one.fingerprint: one for one in marks}


def test_counts_by_number_equal_a_slow_recount() -> None:
    numbers = dict(Fact.objects.filter(environment="dev").values_list("pk", "at_us"))
    half = sorted(numbers)[len(numbers) // 2]
    for after, upto in ((0, half), (half, max(numbers))):  # the facts of the other environment have low numbers
        at = {at_us for number, at_us in numbers.items() if after < number <= upto}
        mine = [one for one in of_kind(TOLD, facts.FailureClassified) if one[0].at_us in at]
        came = asking.counts_between(after, upto, environment="dev")
        assert {name: one.number for name, one in came.items()} == tally(mine, lambda _, event: cause(event))
        for name, one in came.items():
            assert to_us(one.last) == max(entry.at_us for entry, event in mine if cause(event) == name)
        senders = asking.senders_between(after, upto, environment="dev")
        by_service: Counter[tuple[str, str]] = Counter()
        for name, told in senders.items():
            for (service, _), one in told.items():
                by_service[name, service] += one.number
        assert by_service == tally(mine, lambda one, event: (cause(event), one.service))


def test_busiest_hours_equal_a_slow_recount() -> None:
    hours = Counter((cause(event), one.at_us // 3_600_000_000) for one, event in failures(86_400))
    expected: dict[str, int] = {}
    for (name, _), count in hours.items():
        expected[name] = max(count, expected.get(name, 0))
    assert asking.busiest_hours("dev", now=NOW) == expected


def test_names_of_causes_are_of_their_newest_failure() -> None:
    newest = {cause(event): event for _, event in failures(7 * 86_400)}
    found = called_lately("dev", list(newest), now=NOW)
    assert {name: (one.category, one.operation, one.message) for name, one in found.items()} == {
        name: (event.category.value, event.operation, event.message) for name, event in newest.items()
    }


def test_unknown_causes_equal_a_slow_recount() -> None:
    mine = [one for one in failures(3600) if one[1].category is Category.UNKNOWN]
    found = unknown_causes("dev", **window(3600))
    assert {one.fingerprint: one.count for one in found} == tally(mine, lambda _, event: cause(event))
    assert [one.count for one in found] == sorted((one.count for one in found), reverse=True)
    for row in found:
        its = [one for one in mine if cause(one[1]) == row.fingerprint]
        assert (to_us(row.first), to_us(row.last)) == (its[0][0].at_us, its[-1][0].at_us)
        assert row.operations == Counter(event.operation for _, event in its)
        assert row.runs == len({one.run for one, _ in its} - {""})
        assert row.instances == len({one.instance for one, _ in its})


def test_lists_of_failures_equal_a_slow_recount() -> None:
    for length_s in WINDOWS_S:
        mine = failures(length_s)
        kept: list[tuple[dict[str, Any], Callable[[Entry, facts.FailureClassified], bool]]] = [
            ({}, lambda _, event: True),
            ({"operation": "summarize"}, lambda _, event: event.operation == "summarize"),
            ({"breaker": "search_web"}, lambda _, event: event.breaker == "search_web"),
            ({"category": "timeout"}, lambda _, event: event.category is Category.TIMEOUT),
            ({"runs": ["run-1", "run-2"]}, lambda one, event: one.run in ("run-1", "run-2")),
        ]
        for given, is_kept in kept:
            found = queries.recent_failures("dev", **window(length_s), **given, limit=9)
            assert [(to_us(one.at), one.instance, one.run, one.category) for one in found] == [
                (one.at_us, one.instance, one.run, event.category)
                for one, event in reversed(mine)
                if is_kept(one, event)
            ][:9], given


def test_lists_of_one_instance_equal_a_slow_recount() -> None:
    for agent in queries.fleet("dev", now=NOW):
        its = [(one, event) for one, event in failures(86_400) if one.instance == agent.instance]
        found = failures_of("dev", agent.id, now=NOW, limit=7)
        assert [to_us(one.at) for one in found] == [one.at_us for one, _ in reversed(its)][:7]
        first = {one.run: one for one, _ in reversed(of_kind(TOLD, facts.Event)) if one.run}
        begun = sorted(
            (one for one in first.values() if one.who == (agent.service, agent.instance)), key=lambda one: -one.at_us
        )
        assert [one.run for one in runs_begun_by("dev", agent.id, limit=5)] == [one.run for one in begun][:5]
        moved = [
            (one.at_us, event.revision, isinstance(event, facts.DesiredStateRejected))
            for kind in (facts.DesiredStateApplied, facts.DesiredStateRejected)
            for one, event in within(kind, 86_400)
            if one.instance == agent.instance
        ]
        revisions = revisions_of("dev", agent.id, now=NOW)
        assert [(to_us(one.at), one.revision, one.is_refused) for one in revisions] == sorted(moved, reverse=True)


def test_sums_equal_a_slow_recount() -> None:
    for length_s in WINDOWS_S:
        sums = queries.sums_per_bin("dev", **window(length_s))
        start_us = to_us(sums.grid.start)
        mine = [(one, event) for one, event in of_kind(TOLD, facts.FailureClassified) if one.at_us >= start_us]

        def totals(bins: queries.Bins) -> dict[str, int]:
            assert [sum(one) for one in bins.series.values()] == sorted(map(sum, bins.series.values()), reverse=True)
            return {name: sum(one) for name, one in bins.series.items() if sum(one)}

        assert totals(sums.failures()) == tally(mine, lambda _, event: event.category.value)
        assert totals(sums.failures("family")) == tally(mine, lambda _, event: FAMILY_OF[event.category].value)
        for bins in (sums.failures(), sums.in_minutes().failures()):  # of a short window in bins below a minute
            places = Counter((one.at_us - to_us(bins.start)) // int(bins.bin_s * 1_000_000) for one, _ in mine)
            assert bins.total() == [places[place] for place in range(len(bins.unknown))]
        refused: Counter[str] = Counter()
        for one, rejected in of_kind(TOLD, facts.BreakerRejected):
            refused[rejected.breaker] += rejected.count * (one.at_us >= start_us)
        assert totals(sums.rejections()) == dict(+refused)
        fell = Counter(
            event.operation for one, event in of_kind(TOLD, facts.FallbackActivated) if one.at_us >= start_us
        )
        assert totals(sums.fallbacks()) == dict(fell)
        short: Counter[str] = Counter()
        for _, event in mine:
            limited = event.status_code == 429 or event.category is Category.RATE_LIMITED
            overloaded = event.status_code == 529 or event.category is Category.OVERLOADED
            short[backend(event.operation) or event.operation] += limited + overloaded
        assert totals(sums.capacity()) == dict(+short)


def test_calls_equal_a_slow_recount() -> None:
    minute_us = 60_000_000
    this = to_us(NOW) // minute_us
    counts = of_kind(TOLD, facts.CallsCounted)
    quarters = (this // 15 - 95) * 15
    day: Counter[str] = Counter()
    for one, event in counts:
        day[event.operation] += event.calls * (one.at_us // minute_us >= quarters)
    assert calls_of_a_day("dev", now=NOW) == dict(+day)
    found = calls_and_retries("dev", windows_s=[300, 3600], now=NOW)
    for window_s, by_operation in found.items():
        first = this - window_s // 60 + 1
        for operation, (attempted, retries) in by_operation.items():
            its = [event for one, event in counts if event.operation == operation and one.at_us // minute_us >= first]
            again = sum(
                event.operation == operation and one.at_us // minute_us >= first
                for one, event in of_kind(TOLD, facts.RetryScheduled)
            )
            attempts = sum(event.attempts for event in its)
            assert retries == again
            assert attempted == max(0, attempts - again) if attempts else not its
    rows = {one.operation: one for one in queries.operations("dev", now=NOW)}
    assert list(rows) == sorted(OPERATIONS)
    minutes = 4 + to_us(NOW) % minute_us / minute_us
    for operation, row in rows.items():
        calls = [event for one, event in counts if event.operation == operation and one.at_us // minute_us > this - 5]
        failed = [
            event
            for one, event in of_kind(TOLD, facts.FailureClassified)
            if event.operation == operation and one.at_us // minute_us > this - 5
        ]
        assert row.calls_per_min == pytest.approx(sum(event.calls for event in calls) / minutes)
        assert row.failures_per_min == pytest.approx(len(failed) / minutes)


def test_breakers_equal_a_slow_recount() -> None:
    last: dict[tuple[str, str], State] = {}
    since: dict[tuple[str, str], int] = {}
    for one, event in of_kind(TOLD, facts.BreakerStateChanged):
        last[event.breaker, one.instance] = event.state
        since[event.breaker, one.instance] = one.at_us
    silent = {instance for _, instance in INSTANCES if instance in (SILENT[1], "b-3")}
    for row in queries.breakers("dev", now=NOW):
        states = {who: state for (name, who), state in last.items() if name == row.name and who not in silent}
        if not states:
            continue
        assert row.counts == Counter(states.values())
        assert row.worst in row.counts
        first = min(since[row.name, who] for who, state in states.items() if state is row.worst)
        assert row.since == from_us(first)
        refused = [
            event.count
            for one, event in of_kind(TOLD, facts.BreakerRejected)
            if event.breaker == row.name and one.at_us // 60_000_000 >= to_us(NOW) // 60_000_000 - 1
        ]
        assert row.rejected_per_min == pytest.approx(sum(refused) / (1 + to_us(NOW) % 60_000_000 / 60_000_000))


def test_used_compensations_equal_a_slow_recount() -> None:
    mine = within(facts.CompensationFinished, 10_800)
    rows = played("dev", **window(10_800)).rows
    expected = Counter((event.verdict.value, event.compensation.value, event.outcome.value) for _, event in mine)
    assert {(one.verdict, one.compensation, one.outcome): one.count for one in rows} == expected
    assert [one.count for one in rows] == sorted(expected.values(), reverse=True)
    for row in rows:
        its = [
            one.at_us
            for one, event in mine
            if (event.verdict.value, event.compensation.value, event.outcome.value)
            == (row.verdict, row.compensation, row.outcome)
        ]
        assert to_us(row.last) == max(its)


def test_runs_equal_a_slow_recount() -> None:
    badly = {RunStatus.FAILED, RunStatus.STOPPED, RunStatus.CANCELLED}
    every = [(one, event) for one, event in of_kind(TOLD, facts.Event) if one.run]
    its: dict[str, list[tuple[Entry, Any]]] = {}
    for pair in every:
        its.setdefault(pair[0].run, []).append(pair)

    def has(run: str, kind: type[Any], keep: Callable[[Any], bool] = lambda _: True) -> bool:
        return any(isinstance(event, kind) and keep(event) for _, event in its[run])

    is_in: dict[Show, Callable[[str], bool]] = {
        Show.TROUBLED: lambda run: has(run, facts.FailureClassified),
        Show.FAILED: lambda run: has(run, facts.RunFinished, lambda event: event.status in badly),
        Show.ASKED: lambda run: has(run, facts.Escalated),
        Show.RUNNING: lambda run: not has(run, facts.RunFinished),
        Show.ALL: lambda run: True,
    }
    for length_s in (1800, 10_800):
        start_us = to_us(NOW - timedelta(seconds=length_s))
        for show, is_shown in is_in.items():
            listed = RunList.of("dev", RunFilters(show=show), **window(length_s), now=NOW)
            rows = listed.page(limit=200).rows
            expected = [run for run, told in its.items() if told[-1][0].at_us >= start_us and is_shown(run)]
            assert [one.run for one in rows] == sorted(expected, key=lambda run: its[run][0][0].at_us, reverse=True)
            assert listed.count() == (len(expected), False)
            for row in rows:
                _same_run(row, its[row.run])


def _same_run(row: RunStory, its: list[tuple[Entry, Any]]) -> None:
    failed = [event for _, event in its if isinstance(event, facts.FailureClassified)]
    waits = [event.delay_s for _, event in its if isinstance(event, facts.RetryScheduled)]
    begun = [one.at_us for one, event in its if isinstance(event, facts.RunStarted)]
    ends = [(one.at_us, event) for one, event in its if isinstance(event, facts.RunFinished)]
    assert row.failures == Counter(event.category for event in failed)
    assert row.retries == len(waits)
    assert row.questions == sum(isinstance(event, facts.Escalated) for _, event in its)
    assert row.started == from_us(begun[0] if begun else min(one.at_us for one, _ in its))
    assert row.ended == (from_us(ends[-1][0]) if ends else None)
    assert row.status == (ends[-1][1].status if ends else None)
    assert set(row.fingerprints) == {cause(event) for event in failed}
    assert row.numbers.get("cost_usd") == (ends[-1][1].cost_usd if ends else None)
    if not ends:
        assert row.waited_s == pytest.approx(sum(waits))


def test_outages_equal_a_slow_recount() -> None:
    rows = {one.name: one for one in capacity_events("dev", **window(10_800), now=NOW)}
    assert {name for name, one in rows.items() if not one.is_over} <= {"acme / small"}
    asked = [
        event.retry_after_s
        for _, event in reversed(failures(3600))
        if event.category in (Category.RATE_LIMITED, Category.OVERLOADED) and event.retry_after_s is not None
    ]
    assert waits_asked_for("dev", **window(3600)) == asked[:200]
    for operation in ("search_web", "summarize"):
        row = rows[backend(operation)]
        its = [
            one.at_us
            for one, event in of_kind(TOLD, facts.FailureClassified)
            if event.operation == operation
            and event.category in CAPACITY
            and to_us(row.started) <= one.at_us <= to_us(row.last)
        ]
        assert row.failures >= 40
        newest = [to_us(one.at) for one in failures_in(row, "dev", limit=5)]
        assert set(newest) & set(its)
        assert newest == sorted(newest, reverse=True)


def test_days_of_recoveries_equal_a_slow_recount() -> None:
    today = today_of(NOW)
    found = recoveries("dev", first=today, last=today)
    ended = {one.run: (one, event) for one, event in of_kind(TOLD, facts.RunFinished)}
    met = {one.run for one, _ in of_kind(TOLD, facts.FailureClassified) if one.run}
    asked = {one.run for one, _ in of_kind(TOLD, facts.Escalated)}
    well, badly = {RunStatus.SUCCEEDED, RunStatus.DEGRADED}, {RunStatus.FAILED, RunStatus.STOPPED}
    lost = [run for run, (_, event) in ended.items() if event.status in badly]
    troubled = [run for run, (_, event) in ended.items() if event.status in well and run in met]
    assert found.lost.runs == len(lost)
    assert found.helped.runs == sum(run in asked for run in troubled)
    assert found.alone.runs == sum(run not in asked for run in troubled)

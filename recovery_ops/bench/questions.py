"""Every question that a page or a figure asks of the facts, over every range: for timing, and for looking at plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from events import queries
from events.capacity import asking as capacity
from events.capacity.course import courses
from events.capacity.occurrences import failures_in, failures_per_bin, first_fallbacks
from events.degradations.asking import degradations_in
from events.failures import asking as failures
from events.failures.ever import read_with_ever
from events.failures.grouping import AS_SENT
from events.failures.met import reach_of
from events.failures.mixing import mixes
from events.failures.rows import Sample
from events.failures.unknown import unknown_causes
from events.moments import to_us
from events.queries.amplification import amplification
from events.queries.backends import known_backends
from events.queries.beginnings import first_receipt_and_event, first_sign_of_life
from events.queries.breakers import (
    counts_among,
    providers_of,
    reported,
    served_by,
    standing_among,
    standing_of,
    states_of,
)
from events.queries.counted import calls_through, counted, in_flight
from events.queries.evidence import evidence_of
from events.queries.instance import breakers_in, failures_of, last_events_of, revisions_of, standing_in
from events.queries.moves import moves_within
from events.queries.operations import calls_of_a_day
from events.queries.over_time import instance_over_time
from events.queries.plays import played
from events.queries.retrying import calls_and_retries
from events.queries.sums import calls_between, sums_earlier
from events.queries.waits import runs_waiting
from events.queries.weekly import capacity_week
from events.queries.workload import workloads
from events.recoveries.asking import today_of, two_spans
from events.runs import selectors as runs
from recovery_ops.control.breakers.impact import impact_of
from recovery_ops.rules.enums import State
from recovery_ops.rules.policy.scope import Scope

NOT_CLOSED = [state for state in State if state is not State.CLOSED]
RANGES = {
    "15 min": timedelta(minutes=15),
    "1 h": timedelta(hours=1),
    "6 h": timedelta(hours=6),
    "24 h": timedelta(hours=24),
    "7 d": timedelta(days=7),
}
_ROLLOUT = timedelta(minutes=30)
"""What the gate of a rollout compares."""
_SOME_CALLS = {
    "some calls": {"provider": "helios", "service": "billing"},
    "a provider's calls": {"provider": "helios"},
    "a model's calls": {"model": "helios-large"},
    "a service's calls": {"service": "billing"},
}
_WINDOWS_S = (300, 3_600, 86_400)
_LONGER_THAN_A_WEEK = frozenset(
    {
        "overview, 7 d",
        "sums beside those of the time before, 7 d",
        "causes of failures before, 7 d",
        "capacity failures of four weeks",
        "recoveries",
        "last incident",
        "fleet lanes of a service, 7 d",
    }
)
"""The last begins with the state that each breaker had got into before. So do other lanes of a week, at no price."""


@dataclass(frozen=True, slots=True)
class Place:
    """Whose facts, as of when, and the breaker (and operation of the same name) that is looked at."""

    environment: str
    now: datetime
    breaker: str


@dataclass(frozen=True, slots=True)
class Question:
    """Its name, and how it is asked."""

    name: str
    ask: Callable[[], Any]

    @property
    def is_within_a_week(self) -> bool:
        """Whether it looks back for no longer: a store that holds one week then holds all that it reads."""
        return self.name not in _LONGER_THAN_A_WEEK


def questions(place: Place) -> Iterator[Question]:
    """All of them."""
    for words, length in RANGES.items():
        span: dict[str, Any] = {"start": place.now - length, "end": place.now}
        for name, ask in (*_figures(place, span), *_lists(place, span)):
            yield Question(f"{name}, {words}", ask)
    for name, ask in _standing(place):
        yield Question(name, ask)


_Asked = tuple[str, Callable[[], Any]]


def _figures(place: Place, span: dict[str, Any]) -> Iterator[_Asked]:
    environment, one = place.environment, place.breaker
    ranges = queries.Ranges(span["start"], span["end"])
    yield "overview", lambda: queries.overview_numbers(environment, now=place.now, ranges=ranges)
    yield "fleet lanes", lambda: queries.fleet_lanes(environment, **span, now=place.now)
    yield "fleet lanes of one breaker", lambda: queries.fleet_lanes(environment, **span, breaker=one, now=place.now)
    yield "instance lanes of one breaker", lambda: queries.segments(environment, **span, breaker=one, now=place.now)
    yield "fleet lanes of a service", lambda: queries.fleet_lanes(environment, **span, now=place.now, service="billing")
    yield "sums", lambda: queries.sums_per_bin(environment, **span)
    short = span | {"start": max(span["start"], span["end"] - timedelta(minutes=15))}
    yield "sums of a short range", lambda: queries.sums_per_bin(environment, **short)
    yield "sums of one breaker in a short range", lambda: queries.sums_per_bin(environment, **short, breaker=one)
    for which, of_calls in _SOME_CALLS.items():
        yield f"sums of {which}", partial(queries.sums_per_bin, environment, **span, of_calls=of_calls)
    yield "sums of one breaker", lambda: queries.sums_per_bin(environment, **span, breaker=one)
    yield "degradations", lambda: queries.degradations(environment, **span)
    yield "reductions", lambda: degradations_in(environment, **span, now=place.now)
    yield "amplification", lambda: amplification(environment, **span)
    yield "calls", lambda: calls_between(environment, **span)
    yield "sums beside those of the time before", lambda: _earlier(environment, span)


def _lists(place: Place, span: dict[str, Any]) -> Iterator[_Asked]:
    environment, one = place.environment, place.breaker
    yield "newest failures", lambda: queries.recent_failures(environment, **span)
    yield "newest failures of one breaker", lambda: queries.recent_failures(environment, **span, breaker=one)
    yield "newest failures of one operation", lambda: queries.recent_failures(environment, **span, operation=one)
    yield "moves", lambda: queries.transitions(environment, **span)
    yield "moves of one breaker", lambda: queries.transitions(environment, **span, breaker=one)
    yield "evidence of a move", lambda: _evidence(environment, one, span)
    yield "moves of one breaker to be drawn", lambda: moves_within(environment, **span, breaker=one)
    yield "the playbook as it was used", lambda: played(environment, **span)
    yield "unknown causes", lambda: unknown_causes(environment, **span)
    yield "causes of failures", lambda: _causes(environment, span)
    yield "causes of failures before", lambda: failures.counts_before(environment, **span)
    sample = failures.read_failures(environment, **span)
    shown = failures.fingerprints(sample, **span, before=None)[: failures.SHOWN]
    most = [one.fingerprint for one in shown]
    yield "reach of causes", lambda: failures.with_reach(environment, sample, shown, **span)
    yield "what became of their runs", lambda: mixes(environment, sample, most, **span)
    yield "failures by instance", lambda: failures.counts_of_agents(environment, sample, **span)
    yield (
        "causes of failures, and when one was seen first",
        lambda: _ever(environment, next(iter(most), ""), span),
    )
    yield "reach of a cause", lambda: _reach(environment, sample.of(most[:1]), span)
    yield "newest failures of a cause", lambda: failures.occurrences(environment, sample.of(most[:1]), **span)
    for show in runs.Show:
        listed = runs.RunList.of(environment, runs.RunFilters(show=show), **span, now=place.now)
        yield f"runs: {show.value}", partial(_rows, listed)
        yield f"names of runs: {show.value}", listed.names
        yield f"count of runs: {show.value}", listed.count
    yield "waits that servers asked for", lambda: capacity.waits_asked_for(environment, **span)
    yield "capacity events", lambda: capacity.capacity_events(environment, **span, now=place.now)


def _rows(listed: runs.RunList) -> Any:
    return listed.page().rows


def _reach(environment: str, part: Sample, span: dict[str, Any]) -> Any:
    start_us, end_us = to_us(span["start"]), to_us(span["end"])
    if not part.kinds:
        return None
    reach = reach_of(environment, part.kinds, start_us=start_us, end_us=end_us)
    return {f"{level} {status}": count for (level, status), count in reach.runs.items()}, reach.instances


def _ever(environment: str, name: str, span: dict[str, Any]) -> Any:
    sample, seen = read_with_ever(environment, name, **span, grouping=AS_SENT)
    return len(sample.seen), seen


def _evidence(environment: str, breaker: str, span: dict[str, Any]) -> Any:
    newest = queries.transitions(environment, **span, breaker=breaker, limit=1)
    return [evidence_of(environment, one.fact_id) for one in newest if one.fact_id is not None]


def _causes(environment: str, span: dict[str, Any]) -> Any:
    sample = failures.read_failures(environment, **span)
    found = failures.fingerprints(sample, **span, before=None)
    return failures.in_words(environment, sample, found)


def _earlier(environment: str, span: dict[str, Any]) -> Any:
    sums, by = queries.sums_per_bin(environment, **span), span["end"] - span["start"]
    reporting = queries.reporting_spans(environment, start=span["start"] - by, end=span["start"])
    return sums_earlier(environment, sums, by, breaker=None, reporting=reporting)


def _standing(place: Place) -> Iterator[_Asked]:
    environment, one, now = place.environment, place.breaker, place.now
    yield "last incident", lambda: queries.last_trouble(environment, now=now)
    yield "sentence", lambda: queries.sentence(environment, now)
    yield "breakers", lambda: queries.breakers(environment, now=now)
    yield "breaker", lambda: queries.breaker(environment, one, now=now)
    yield "some breakers", lambda: queries.breakers_named(environment, [one], now=now)
    yield "breakers as they stand", lambda: queries.breakers_named(environment, None, now=now)
    yield "instances of one breaker", lambda: queries.instance_states(environment, one, now=now)
    yield "operations", lambda: queries.operations(environment, now=now)
    yield "calls of a day", lambda: calls_of_a_day(environment, now=now)
    yield "fleet", lambda: queries.fleet(environment, now=now)
    yield "runs that wait for capacity", lambda: runs_waiting(environment, range(1_000), now=now)
    yield "instances that are silent", lambda: queries.count_silent(environment, now=now)
    yield "capacity events going on", lambda: capacity.count_going_on(environment, now=now)
    yield "capacity event that ended last", lambda: capacity.newest_over(environment, now=now)
    yield "impact of a trip", lambda: impact_of(environment, Scope(operation=one), now=now)
    yield "one breaker where it stands", lambda: standing_of(environment, one, since=now)
    yield "one breaker and those beside it", lambda: standing_among(environment, one, since=now)
    yield "breakers that are not closed", lambda: states_of(environment, now=now, states=NOT_CLOSED)
    yield "breakers as they are reported", lambda: reported(environment, now=now)
    yield "calls and retries", lambda: calls_and_retries(environment, windows_s=_WINDOWS_S, now=now)
    yield "capacity failures of four weeks", lambda: capacity_week(environment, end=now)
    yield "recoveries", lambda: two_spans(environment, first=today_of(now) - timedelta(days=29), last=today_of(now))
    yield "first sign of life", lambda: first_sign_of_life(environment)
    yield "first event", lambda: first_receipt_and_event(environment)
    yield from _of_instances(place)
    yield from _of_one_event(place)
    span: dict[str, Any] = {"start": now - timedelta(hours=1), "end": now}
    shown = runs.RunList.of(environment, runs.RunFilters(), **span, now=now).names(limit=1)
    run = shown[0] if shown else ""
    yield "one run", lambda: runs.run_of(environment, run)


def _of_instances(place: Place) -> Iterator[_Asked]:
    environment, now = place.environment, place.now
    agents = queries.fleet(environment, now=now)
    ids = [agent.id for agent in agents]
    yield "gate of a rollout", lambda: counted(environment, ids, start=now - _ROLLOUT, end=now)
    yield "what instances do", lambda: workloads(environment, agents, now=now)
    yield "breakers among some instances", lambda: counts_among(environment, ids[::2], ids[1::2], now=now)
    yield "calls under way", lambda: in_flight(environment, now=now)
    yield "retired instances", lambda: queries.retired(environment, now=now)
    yield "backends to keep to", lambda: known_backends(environment, now=now)
    yield "providers of breakers", lambda: providers_of(environment, now=now)
    yield "what a provider serves", lambda: [list(one) for one in served_by(environment, "helios", now=now)]
    yield "calls let through", lambda: calls_through(environment, ids, start=now - _ROLLOUT, end=now)
    for agent in agents[:1]:
        yield "one instance", partial(queries.agent_named, environment, agent.service, agent.instance, now=now)
        yield "breakers of one instance", partial(breakers_in, agent.id, now=now)
        yield "failures of one instance", partial(failures_of, environment, agent.id, now=now)
        yield "revisions of one instance", partial(revisions_of, environment, agent.id, now=now)
        yield "last events of one instance", partial(last_events_of, agent.id, last_seen=agent.last_seen)
        yield "runs of one instance", partial(runs.runs_begun_by, environment, agent.id, limit=20)
        yield "breakers of one instance as they are kept", partial(standing_in, agent.id)
        yield "how one instance stood", partial(instance_over_time, agent, start=now - _ROLLOUT, end=now)
        yield "settings of one instance", partial(queries.settings_in_force, agent.id)


def _of_one_event(place: Place) -> Iterator[_Asked]:
    environment, now = place.environment, place.now
    yield "capacity events that are not over", lambda: capacity.events_going_on(environment, now=now)
    found = capacity.newest_over(environment, now=now)
    for row in [found] if found is not None else []:
        yield "one capacity event", partial(capacity.capacity_event, environment, row.id, now=now)
        yield "failures of one capacity event", partial(failures_in, row, environment)
        yield "failures of one capacity event over time", partial(failures_per_bin, row, environment, until=row.last)
        yield "first fallbacks of one capacity event", partial(first_fallbacks, row, environment)
        struck_runs = runs.RunFilters(struck=capacity.parts_struck(row))
        yield (
            "runs of one capacity event",
            partial(_rows, runs.RunList.of(environment, struck_runs, start=row.started, end=row.last, now=now)),
        )
        yield "events like one", partial(capacity.similar_before, row, environment, now=now)
        yield "course of one event", partial(courses, environment, row)
        yield "backends beside one event", partial(capacity.struck_beside, row, environment)

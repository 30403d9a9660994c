"""What most of the fleet was in, for all breakers at once, without drawing the lane of each instance first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from events.moments import to_us
from events.queries.fleet_bins import fleet_in_bins
from events.queries.lanes import reading_of, spans_of
from events.queries.lives import presence_of
from events.queries.moves import Pair, Point, Reading, light_points_of
from events.queries.transitions import moves_of, transition_of
from events.rows import Fleet
from events.store.partitions import facts_at
from events.timelines.majority import Change, majority_of
from recovery_ops.rules.enums import State


def fleet_lanes(
    environment: str,
    *,
    start: datetime,
    end: datetime,
    breaker: str | None = None,
    now: datetime,
    wants_causes: bool = True,
    service: str = "",
) -> Fleet:
    """Per breaker, or of one, the state of most instances in [start, end): `majority` of exact `segments`.

    Never past `now`. At most nine queries; indexes as in `segments`, and `span_sum_once`. An instance that neither
    moved, nor was born, nor fell silent in the window is only counted, so the price is that of the moves; of many
    moves, that of their sums (see `fleet_bins`). A strip shows no evidence: without causes it is one query less.
    """
    reading = reading_of(environment, start=start, end=end, breaker=breaker, now=now, service=service)
    presences = [presence_of(life) for life in reading.lives.values()]
    # The sums of moves know no services.
    if not service and (binned := fleet_in_bins(reading, now)) is not None:
        binned.presences = presences
        binned.services = sorted({life.service for life in reading.lives.values()} - {""})
        return binned
    bin_s, points = light_points_of(reading)
    steady, changes, facts = _changes(reading, points)
    fleet = Fleet(start=reading.start, end=reading.end, bin_s=bin_s)
    fleet.services = sorted({life.service for life in reading.lives.values()} - {""})
    fleet.presences = presences
    start_us, end_us = to_us(reading.start), to_us(reading.end)
    for name in sorted(steady):
        fleet[name] = list(majority_of(name, changes[name], start_us=start_us, end_us=end_us, steady=steady[name]))
    if wants_causes:
        _add_causes(fleet, facts)
    return fleet


_Facts = dict[tuple[str, int, State | None], int]
"""The fact by which an instance got into a state, by breaker, moment and state."""


def _changes(
    reading: Reading, points: Mapping[Pair, Sequence[Point]]
) -> tuple[dict[str, Counter[State | None]], dict[str, list[Change]], _Facts]:
    start_us, end_us = to_us(reading.start), to_us(reading.end)
    steady: dict[str, Counter[State | None]] = defaultdict(Counter)
    changes: dict[str, list[Change]] = defaultdict(list)
    facts: _Facts = {}
    for (agent_id, breaker), found in points.items():
        life = reading.lives[agent_id]
        mine, always = changes[breaker], steady[breaker]
        if len(found) == 1 and not life.silences and life.ended_us is None and found[0].at_us <= start_us:
            always[found[0].state] += 1
            continue
        for begin, until, state, _ in spans_of(found, life, start_us, end_us):
            mine += ((begin, state, 1), (until, state, -1))
        for one in found:
            if one.fact_id is not None:
                facts[breaker, one.at_us, one.state] = one.fact_id
    return steady, changes, facts


def _add_causes(fleet: Fleet, facts: _Facts) -> None:
    """Give each segment the evidence of the move that made it what most were in."""
    keys = {(one.breaker, to_us(one.start), one.state) for lane in fleet.values() for one in lane}
    wanted = {facts[key]: key[1] for key in keys & facts.keys()}
    causes = {move.id: transition_of(move) for move in moves_of(facts_at(wanted))} if wanted else {}
    for breaker, lane in fleet.items():
        for place, one in enumerate(lane):
            fact_id = facts.get((breaker, to_us(one.start), one.state))
            if fact_id in causes:
                lane[place] = replace(one, cause=causes[fact_id])

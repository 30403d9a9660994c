"""Folds facts into what pages read: agents, breaker states, degradations, sums per minute. Pure: rows in, values out.

Ingest folds the new rows of one transaction and joins the result to the tables; `manage.py verify_facts` folds all
facts at once. Both go through the functions here, and every join is commutative, associative and fed only with rows
that were not stored before, so that no order, batching or repetition of deliveries changes the tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import add
from typing import Any, NamedTuple, Self

import orjson

from events.deployments.told import Versions, add_versions
from events.ingest.records import AgentName, Row
from events.issues.fold import Failures, RunFailures, add_failures
from events.models import DEGRADATION_EVENTS, NAME_CHARS
from events.projections.stated import alike, count_of, number_of, spelled, text_of, whole_of, whole_or_none
from events.projections.summing import (
    CALLS,
    COUNTER_OF,
    COUNTERS,
    FACTS,
    FAILURES,
    INNER_RETRIES,
    OVERLOADED,
    RATE_LIMITED,
    REJECTIONS,
    LaneSpan,
    LaneSums,
    Moves,
    SumName,
    Sums,
    capacity_kinds,
    one_move,
)
from events.runs.fold import RunFolds, add_runs
from recovery_ops.rules.enums import State
from recovery_ops.rules.events import BreakerStateChanged, DegradationEnded, SettingsInForce
from recovery_ops.wire import category_of, names, state_of

REASON_CHARS = 1000
WORD_CHARS = 32
_MINUTE_US = 60_000_000

_A = names.ATTRIBUTES
_STATUS_CODE = _A["status_code"]
_INNER_RETRIES = _A["inner_retries"]
_CHANGE = {name: names.attribute_of(BreakerStateChanged, name) for name in ("calls", "failures", "wait_s")}
_COUNTED = tuple(_A[name] for name in ("calls", "attempts", "successes"))
_SETTINGS_BREAKER = names.attribute_of(SettingsInForce, "breaker")
_DEGRADED_CALLS = names.attribute_of(DegradationEnded, "calls")


# -- agents ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Group:
    """Some columns that one kind of fact decides, and the position of the fact that decided them last."""

    position: bytes = b""
    values: tuple[Any, ...] = ()

    def join(self, other: Self) -> None:
        """Take over the other's values if they are newer."""
        if other.position > self.position:
            self.position, self.values = other.position, other.values


AGENT_GROUPS: dict[str, dict[str, Any]] = {
    "described": {"version": "", "group": ""},
    "heartbeat": {
        "heartbeat_us": None,
        "heartbeat_interval_s": 0.0,
        "status": "",
        "uptime_s": 0.0,
        "schema_version": 0,
        "breakers_open": 0,
        "runs_in_flight": 0,
        "outbox_pending": 0,
        "outbox_dropped": 0,
        "region": "",
        "spending": "{}",
        "takes_new_work": None,
        "takes_retries": None,
    },
    "revision": {"revision": 0, "config_hash": ""},
    "applied": {"applied_us": None, "applied_revision": 0, "clamped": "[]"},
    "rejected": {"rejected_us": None, "rejected_revision": None, "rejected_reason": ""},
}
"""Column groups of the agent's table, with the values that stand while no fact has said otherwise."""


@dataclass(slots=True)
class AgentFold:
    """What facts say about the instance that sent them."""

    first_seen_us: int
    last_seen_us: int
    groups: dict[str, Group] = field(default_factory=lambda: {name: _unsaid(name) for name in AGENT_GROUPS})

    def join(self, other: Self) -> None:
        """Add what the other knows."""
        self.first_seen_us = min(self.first_seen_us, other.first_seen_us)
        self.last_seen_us = max(self.last_seen_us, other.last_seen_us)
        for name, group in other.groups.items():
            self.groups[name].join(group)


def _unsaid(name: str) -> Group:
    return Group(b"", tuple(AGENT_GROUPS[name].values()))


def _fold_agent(agent: AgentFold, row: Row) -> None:
    given, position = row.attributes, row.position
    revision = whole_of(given.get(_A["revision"]))
    config_hash = text_of(given.get(_A["config_hash"]), 64)
    if row.event == "desired_state_rejected":
        reason = text_of(given.get(_A["reason"]), REASON_CHARS)
        agent.groups["rejected"].join(Group(position, (row.at_us, revision, reason)))
        return
    agent.groups["revision"].join(Group(position, (revision, config_hash)))
    if row.event == "desired_state_applied":
        clamped = given.get(_A["clamped"]) or []
        listed = [str(alike(one)) for one in clamped] if isinstance(clamped, list) else [str(alike(clamped))]
        agent.groups["applied"].join(Group(position, (row.at_us, revision, orjson.dumps(listed).decode())))
    else:
        agent.groups["heartbeat"].join(Group(position, _heartbeat(row)))


def _heartbeat(row: Row) -> tuple[Any, ...]:
    given = row.attributes
    return (
        row.at_us,
        number_of(given.get(_A["interval_s"])) or 0.0,
        text_of(given.get(_A["status"]), WORD_CHARS) or "running",
        number_of(given.get(_A["uptime_s"])) or 0.0,
        *(
            whole_of(given.get(_A[name]))
            for name in ("schema_version", "breakers_open", "runs_in_flight", "outbox_pending", "outbox_dropped")
        ),
        row.region or "",  # a heartbeat calls nothing: its region is that of the process
        _spending(given),
        *(_flag(given.get(_A[name])) for name in ("takes_new_work", "takes_retries")),
    )


ACCOUNTS_MOST = 64
"""Spend accounts of an instance that are kept; the runtime reports fewer."""
_SPENDING = {"calls": "spent_calls", "tokens": "spent_tokens", "cost_usd": "spent_cost_usd", "raises": "cap_raises"}


def _spending(given: Mapping[str, Any]) -> str:
    """The spend accounts of a heartbeat, as JSON; `{}` where it has none."""
    ledger = text_of(given.get(_A["spend_ledger"]), NAME_CHARS)
    if not ledger:
        return "{}"
    maps = {name: _plain_map(given.get(_A[field])) for name, field in _SPENDING.items()}
    found = {name: dict(islice(one.items(), ACCOUNTS_MOST)) for name, one in maps.items()}
    return orjson.dumps({"ledger": ledger, **found}, option=orjson.OPT_SORT_KEYS).decode()


def _flag(given: object) -> bool | None:
    return given if isinstance(given, bool) else None


_AGENT_EVENTS = frozenset({"instance_heartbeat", "desired_state_applied", "desired_state_rejected"})
_DEGRADATION_EVENTS = frozenset(DEGRADATION_EVENTS)
_UNCOUNTED = frozenset({"instance_heartbeat", "settings_in_force"})
"""What is told by time or by change of settings, and says nothing of what happened to calls."""


# -- breakers ----------------------------------------------------------------------------------------------------------

BREAKER_COLUMNS = (
    *("at_us", "state", "previous_state", "trigger", "operation", "calls", "failures", "failure_rate", "threshold"),
    *("last_category", "wait_s", "override_id", "revision"),
)
NEVER_MOVED = (None, State.CLOSED.value, "", "", "", None, None, None, None, "", None, "", None)
"""`BREAKER_COLUMNS` of a breaker of which no change is known: every breaker begins closed."""


class BreakerName(NamedTuple):
    """One breaker in one instance."""

    agent: AgentName
    breaker: str


@dataclass(slots=True)
class BreakerFold:
    """When a breaker was last heard of, in whole minutes, and the newest change of its state."""

    seen_us: int
    change: Group

    def join(self, other: Self) -> None:
        """Add what the other knows."""
        self.seen_us = max(self.seen_us, other.seen_us)
        self.change.join(other.change)


def _change(row: Row) -> Group:
    given = row.attributes
    return Group(
        row.position,
        (
            row.at_us,
            row.state,
            spelled(state_of, given.get(_A["previous_state"])),
            text_of(given.get(_A["trigger"]), WORD_CHARS),
            row.operation,
            whole_or_none(given.get(_CHANGE["calls"])),
            whole_or_none(given.get(_CHANGE["failures"])),
            number_of(given.get(_A["failure_rate"])),
            number_of(given.get(_A["threshold"])),
            spelled(category_of, given.get(_A["last_category"])),
            number_of(given.get(_CHANGE["wait_s"])),
            text_of(given.get(_A["override_id"]), NAME_CHARS),
            whole_or_none(given.get(_A["revision"])),
        ),
    )


# -- settings ----------------------------------------------------------------------------------------------------------

SETTINGS_COLUMNS = ("at_us", "revision", "version", "kind", "breaker", "count", "stated")


class SettingsName(NamedTuple):
    """One operation of one instance, or the whole instance where it is empty."""

    agent: AgentName
    operation: str


def _settings(row: Row) -> Group:
    given = row.attributes
    stated = {name: _plain_map(given.get(_A[name])) for name in ("settings", "in_code", "held")}
    return Group(
        row.position,
        (
            row.at_us,
            whole_of(given.get(_A["revision"])),
            whole_or_none(given.get(_A["settings_version"])) or 1,
            text_of(given.get(_A["operation_kind"]), WORD_CHARS),
            text_of(given.get(_SETTINGS_BREAKER), NAME_CHARS),
            count_of(given, _A["count"]),
            orjson.dumps(stated, option=orjson.OPT_SORT_KEYS).decode(),
        ),
    )


def _plain_map(given: object) -> dict[str, Any]:
    """The numbers, flags and texts of a map; it may come as JSON text."""
    if isinstance(given, str):
        try:
            given = orjson.loads(given)
        except ValueError:
            return {}
    if not isinstance(given, Mapping):
        return {}
    return {str(name): alike(value) for name, value in given.items() if isinstance(value, bool | int | float | str)}


# -- degradations ------------------------------------------------------------------------------------------------------


class DegradationName(NamedTuple):
    """What is reduced, where and how: of these there is one interval at a time."""

    agent: AgentName
    operation: str
    kind: str


class Marker(NamedTuple):
    """The start or the end of a degradation. Sorts by position."""

    position: bytes
    at_us: int
    is_start: bool
    from_name: str
    to_name: str
    reason: str
    category: str
    duration_us: int
    calls: int


@dataclass(slots=True)
class Interval:
    """One degradation; `ended_us` None while it goes on. `last_position` is that of the last marker that shaped it."""

    from_name: str
    to_name: str
    reason: str
    category: str
    started_us: int
    ended_us: int | None
    calls: int
    last_position: bytes


def intervals(markers: Iterable[Marker], opened: Interval | None = None, after_us: int = 0) -> list[Interval]:
    """Pair starts with ends, in the order of their positions.

    `opened` is the interval that goes on when the markers begin, `after_us` the end of the one before. A second start
    prolongs; an end without a start reaches back by its own duration, but never into the interval before.
    """
    found = [] if opened is None else [opened]
    current = opened
    for marker in sorted(markers):
        if current is None:
            started_us = marker.at_us if marker.is_start else max(after_us, marker.at_us - marker.duration_us)
            current = Interval(*marker[3:7], started_us, None, 0, marker.position)
            found.append(current)
        elif marker.is_start:
            current.from_name, current.to_name, current.reason, current.category = marker[3:7]
        current.last_position = marker.position
        if not marker.is_start:
            current.ended_us, current.calls = marker.at_us, marker.calls
            after_us, current = marker.at_us, None
    return found


def marker_of(row: Row) -> tuple[DegradationName, Marker]:
    """What a degradation_started or degradation_ended says."""
    given = row.attributes
    name = DegradationName(row.agent, row.operation, text_of(given.get(_A["kind"]), WORD_CHARS))
    marker = Marker(
        row.position,
        row.at_us,
        row.event == "degradation_started",
        text_of(given.get(_A["from_name"]), NAME_CHARS),
        text_of(given.get(_A["to_name"]), NAME_CHARS),
        text_of(given.get(_A["reason"]), REASON_CHARS),
        row.category,
        int(min(number_of(given.get(_A["duration_s"])) or 0.0, 1e9) * 1e6),
        count_of(given, _DEGRADED_CALLS),
    )
    return name, marker


# -- all together ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Folded:
    """Everything that some facts add to the tables."""

    agents: dict[AgentName, AgentFold] = field(default_factory=dict)
    breakers: dict[BreakerName, BreakerFold] = field(default_factory=dict)
    settings: dict[SettingsName, Group] = field(default_factory=dict)
    markers: dict[DegradationName, list[Marker]] = field(default_factory=dict)
    sums: Sums = field(default_factory=dict)
    moves: Moves = field(default_factory=dict)
    versions: Versions = field(default_factory=dict)
    lanes: LaneSums = field(default_factory=dict)
    """By the minute."""
    runs: RunFolds = field(default_factory=dict)
    run_failures: RunFailures = field(default_factory=dict)
    failures: Failures = field(default_factory=dict)
    """By the minute."""


def fold(rows: Sequence[Row]) -> Folded:
    """What these rows say. None of them may have been folded into the same tables before."""
    folded = Folded()
    fold_into(folded, rows)
    return folded


def fold_into(folded: Folded, rows: Iterable[Row]) -> None:
    """Add rows to what others have said."""
    # One agent after the other, because what they have in common need not be looked up for each row.
    by_agent: dict[AgentName, list[Row]] = {}
    rows = list(rows)
    add_runs(folded.runs, rows)
    add_failures(folded.failures, folded.run_failures, rows)
    for row in rows:
        by_agent.setdefault(row.agent, []).append(row)
    for agent_name, mine in by_agent.items():
        _fold_agents_rows(folded, agent_name, mine)


def _fold_agents_rows(folded: Folded, name: AgentName, rows: Sequence[Row]) -> None:
    agent = folded.agents.get(name)
    if agent is None:
        agent = folded.agents[name] = AgentFold(rows[0].received_us, rows[0].received_us)
    newest = rows[0]
    for row in rows:
        if row.received_us > agent.last_seen_us:
            agent.last_seen_us = row.received_us
        elif row.received_us < agent.first_seen_us:
            agent.first_seen_us = row.received_us
        if row.at_us > newest.at_us or (row.at_us == newest.at_us and row.position > newest.position):
            newest = row
        event = row.event
        if event in _AGENT_EVENTS:
            _fold_agent(agent, row)
        elif event in _DEGRADATION_EVENTS:
            degradation, marker = marker_of(row)
            folded.markers.setdefault(degradation, []).append(marker)
        elif event == "settings_in_force":
            stated = SettingsName(name, row.operation)
            folded.settings.setdefault(stated, Group()).join(_settings(row))
    agent.groups["described"].join(Group(newest.position, _description(newest.attributes)))
    add_versions(folded.versions, name, rows)
    _fold_breakers(folded, name, rows)
    _fold_sums(folded.sums, name, rows)


def _description(given: Mapping[str, Any]) -> tuple[str, str]:
    return text_of(given.get(names.SERVICE_VERSION), NAME_CHARS), text_of(given.get(names.GROUP), NAME_CHARS)


def _fold_breakers(folded: Folded, agent: AgentName, rows: Iterable[Row]) -> None:
    breakers, seen = folded.breakers, dict[str, int]()
    for row in rows:
        breaker = row.breaker
        if breaker:
            if row.at_us > seen.get(breaker, -1):
                seen[breaker] = row.at_us
            if row.event == "breaker_state_changed" and row.state:
                known = breakers.setdefault(BreakerName(agent, breaker), BreakerFold(0, Group(b"", NEVER_MOVED)))
                known.change.join(_change(row))
                left, minute = left_by(row.attributes), row.at_us // _MINUTE_US
                move = (agent.environment, minute, breaker, f"{left}>{row.state}")
                folded.moves[move] = folded.moves.get(move, 0) + 1
                lane, moved = LaneSpan(*agent, breaker, 1, minute), one_move(row.at_us, left, row.state)
                earlier = folded.lanes.get(lane)
                folded.lanes[lane] = moved if earlier is None else earlier.joined(moved)
    for breaker, at_us in seen.items():
        known = breakers.setdefault(BreakerName(agent, breaker), BreakerFold(0, Group(b"", NEVER_MOVED)))
        known.seen_us = max(known.seen_us, at_us - at_us % _MINUTE_US)


def left_by(attributes: Mapping[str, Any]) -> str:
    """The state that a move left, by its attributes."""
    return spelled(state_of, attributes.get(_A["previous_state"])) or State.CLOSED.value


def _fold_sums(sums: Sums, agent: AgentName, rows: Iterable[Row]) -> None:
    """Count rows by minute and dimensions; here plain tuples are keys, because a named one costs five times as much."""
    mine: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        event = row.event
        if event in _UNCOUNTED:
            continue
        key = (
            row.at_us // _MINUTE_US,
            row.operation,
            row.breaker,
            row.source,
            row.is_foreground,
            row.provider,
            row.model,
            row.category,
        )
        counters = mine.get(key)
        if counters is None:
            counters = mine[key] = [0] * len(COUNTERS)
        _count_row(counters, event, row)
    for (minute, *dimensions), added in mine.items():
        name = SumName(agent.environment, minute, agent.service, *dimensions)
        known = sums.get(name)
        sums[name] = added if known is None else list(map(add, known, added))


def _count_row(counters: list[int], event: str, row: Row) -> None:
    if event == "failure_classified":
        counters[FACTS] += 1
        counters[FAILURES] += 1
        is_limited, is_overloaded = capacity_kinds(row.attributes.get(_STATUS_CODE), row.category)
        counters[RATE_LIMITED] += is_limited
        counters[OVERLOADED] += is_overloaded
        if _INNER_RETRIES in row.attributes:
            counters[INNER_RETRIES] += count_of(row.attributes, _INNER_RETRIES)
    elif event == "calls_counted":
        for index, counted in enumerate(_COUNTED, CALLS):
            counters[index] += count_of(row.attributes, counted)
    else:
        counters[FACTS] += 1
        if event == "breaker_rejected":
            # What an override let through although the breaker was against it was not rejected.
            if row.attributes.get(_A["reason"]) != "not_enforced":
                counters[REJECTIONS] += count_of(row.attributes, _A["count"], missing=1)
        elif (index := COUNTER_OF.get(event, -1)) >= 0:
            counters[index] += 1

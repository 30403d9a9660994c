"""Proves that every folded table is what its facts say: folds all facts again, in memory, and compares.

What is older than the shortest time that facts are kept is left out, because some of its facts may be gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from operator import add, attrgetter
from typing import Any

import orjson
from django.db import connection, transaction
from django.db.models import F, Value

from events.deployments.models import ServiceVersion
from events.deployments.told import Told, VersionName, Versions
from events.ingest.records import AgentName, Row
from events.issues.fold import Failed, KindName, RunKind, digest_of, sums_of
from events.issues.fold import SumName as FailureSumName
from events.issues.models import FailureKind, FailureSum, InstanceFailureSum
from events.models import (
    Agent,
    BreakerState,
    Degradation,
    Fact,
    InstanceMoves,
    MinuteSum,
    SettingsInForce,
    SpanSum,
)
from events.projections.fold import AGENT_GROUPS, BREAKER_COLUMNS, SETTINGS_COLUMNS, Folded, fold_into, intervals
from events.projections.sum_views import View
from events.projections.summing import COUNTERS, LaneMoves, SpanName, SumName, over_lanes, over_spans
from events.runs.fold import RUN_COLUMNS, RUN_KEY, run_values
from events.runs.models import Run, RunFailure
from events.store import statements
from events.store.retention import SHORTEST, micros
from events.store.writes import row_of

_MINUTE_US = 60_000_000
_CHUNK = 2000


@contextmanager
def one_moment() -> Iterator[None]:
    """See the database as it is now until the end, without stopping anyone from writing."""
    if connection.vendor == "sqlite":
        # Not atomic(), which would take the one write lock here.
        with connection.cursor() as cursor:
            cursor.execute("BEGIN DEFERRED")
            try:
                yield
            finally:
                cursor.execute("ROLLBACK")
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def refold(read: Callable[[int], None] = lambda _: None) -> tuple[Folded, int]:
    """Fold all facts there are; return the result with their number. Says to `read` how many it has read so far."""
    agents = _agent_names()
    folded, count = Folded(), 0
    found = Fact.objects.values_list(*statements.FACT_COLUMNS)
    rows: list[Row] = []
    for values in found.iterator(chunk_size=_CHUNK):
        agent_id = values[statements.FACT_COLUMNS.index("agent_id")]
        rows.append(row_of(values, agents[agent_id]))
        count += 1
        if len(rows) == _CHUNK:
            fold_into(folded, rows)
            rows.clear()
            read(count)
    fold_into(folded, rows)
    return folded, count


def _agent_names() -> dict[int, AgentName]:
    return {one.pk: AgentName(one.environment, one.service, one.instance) for one in Agent.objects.all()}


def differences(folded: Folded, now: datetime | None) -> Iterator[str]:
    """A sentence for each value of a table that is not what the facts say. `now` None: no fact was ever let go."""
    since_us = 0 if now is None else micros(now - SHORTEST)
    stored, expected = stored_tables(since_us), folded_tables(folded, since_us)
    stored["version"] = _as_far_as_told(stored["version"], expected["version"])
    stored["span"], expected["span"] = _as_far_as_kept(stored["span"], expected["span"])
    stored["agent"] = {name: _but_untold(one, expected["agent"].get(name)) for name, one in stored["agent"].items()}
    for kind, table in stored.items():
        yield from _compare(kind, table, expected[kind])


def stored_tables(since_us: int) -> dict[str, dict[Any, Any]]:
    """What the folded tables hold of this time and later, by names instead of ids."""
    names = _agent_names()
    return {
        "agent": _stored_agents(since_us),
        "breaker": _stored_breakers(names, since_us),
        "settings": _stored_settings(names, since_us),
        "degradation": _stored_intervals(names, since_us),
        "sum": _stored_sums(since_us),
        "span": _stored_spans(since_us),
        "lane": _stored_lanes(names, since_us),
        "version": _stored_versions(since_us),
        "run": _stored_runs(names, since_us),
        "run failure": _stored_run_failures(since_us),
        "failures": _stored_failures(FailureSum, names, since_us),
        "failures of an instance": _stored_failures(InstanceFailureSum, names, since_us),
    }


def folded_tables(folded: Folded, since_us: int) -> dict[str, dict[Any, Any]]:
    """What they should hold."""
    names = _agent_names()
    kinds = {name.kind for name in folded.failures}
    together, each = sums_of(folded.failures)
    return {
        "agent": _folded_agents(folded, since_us),
        "breaker": _folded_breakers(folded, since_us),
        "settings": _folded_settings(folded, since_us),
        "degradation": _folded_intervals(folded, since_us),
        "sum": _folded_sums(folded, since_us),
        "span": _folded_spans(folded, since_us),
        "lane": _folded_lanes(folded, since_us),
        "version": _recent_versions(folded.versions, since_us),
        "run": _folded_runs(folded, names, since_us),
        "run failure": _folded_run_failures(folded, since_us),
        "failures": _recent_failures(together, kinds, since_us),
        "failures of an instance": _recent_failures(each, kinds, since_us),
    }


def _compare(kind: str, stored: dict[Any, Any], expected: dict[Any, Any]) -> Iterator[str]:
    for name in sorted(stored.keys() | expected.keys(), key=str):
        was, should = stored.get(name), expected.get(name)
        if was != should:
            yield f"{kind} {_shown(name)}: the table says {was}, the facts say {should}"


def _shown(name: Any) -> str:
    return " / ".join(str(part) for part in name if part != "")


def _recent(position: bytes, values: Any, since_us: int) -> Any:
    """The values, unless the fact that decided them may have been swept."""
    return (position.hex(), values) if int.from_bytes(position[:8], "big") >= since_us else None


def _agent(first_seen_us: int, last_seen_us: int, groups: dict[str, Any], since_us: int) -> dict[str, Any]:
    seen = {"first_seen_us": first_seen_us, "last_seen_us": last_seen_us}
    return {name: value for name, value in seen.items() if value >= since_us} | groups


_NEWER = len(("takes_new_work", "takes_retries"))
"""So many columns of a heartbeat, the last, came after servers that may still be running beside ours."""


def _but_untold(stored: dict[str, Any], expected: dict[str, Any] | None) -> dict[str, Any]:
    """An instance as the table has it, with what it takes as the facts say, where the table says nothing of that.

    While servers are replaced in turn, one of before may have folded the newest heartbeat. It knows no column for
    whether new work is taken, or retries, and leaves it as it is: mostly empty, as the migration made it, which is to
    say *not told*. The next heartbeat that one of ours folds says it.
    """
    was, should = stored.get("heartbeat"), (expected or {}).get("heartbeat")
    if was is None or should is None:
        return stored
    said = [told if one is None else one for one, told in zip(was[1][-_NEWER:], should[1][-_NEWER:], strict=True)]
    return stored | {"heartbeat": (was[0], (*was[1][:-_NEWER], *said))}


def _stored_agents(since_us: int) -> dict[Any, Any]:
    found = {}
    for one in Agent.objects.filter(last_seen_us__gte=since_us):
        groups = {
            name: _recent(
                bytes(getattr(one, f"{name}_position")), tuple(getattr(one, column) for column in columns), since_us
            )
            for name, columns in AGENT_GROUPS.items()
        }
        name = AgentName(one.environment, one.service, one.instance)
        found[name] = _agent(one.first_seen_us, one.last_seen_us, groups, since_us)
    return found


def _folded_agents(folded: Folded, since_us: int) -> dict[Any, Any]:
    found = {}
    for name, one in folded.agents.items():
        if one.last_seen_us < since_us:
            continue
        groups = {part: _recent(group.position, group.values, since_us) for part, group in one.groups.items()}
        found[name] = _agent(one.first_seen_us, one.last_seen_us, groups, since_us)
    return found


def _stored_breakers(names: dict[int, AgentName], since_us: int) -> dict[Any, Any]:
    values = attrgetter(*BREAKER_COLUMNS)
    return {
        (*names[one.agent_id], one.breaker): (one.seen_us, _recent(bytes(one.position), values(one), since_us))
        for one in BreakerState.objects.filter(seen_us__gte=since_us)
    }


def _folded_breakers(folded: Folded, since_us: int) -> dict[Any, Any]:
    return {
        (*name.agent, name.breaker): (one.seen_us, _recent(one.change.position, one.change.values, since_us))
        for name, one in folded.breakers.items()
        if one.seen_us >= since_us
    }


def _stored_settings(names: dict[int, AgentName], since_us: int) -> dict[Any, Any]:
    values = attrgetter(*SETTINGS_COLUMNS)
    return {
        (*names[one.agent_id], one.operation): (bytes(one.position).hex(), values(one))
        for one in SettingsInForce.objects.filter(at_us__gte=since_us)
    }


def _folded_settings(folded: Folded, since_us: int) -> dict[Any, Any]:
    return {
        (*name.agent, name.operation): (one.position.hex(), one.values)
        for name, one in folded.settings.items()
        if one.values[0] >= since_us
    }


def _stored_intervals(names: dict[int, AgentName], since_us: int) -> dict[Any, Any]:
    values = attrgetter(*statements.INTERVAL_COLUMNS)
    return {
        (*names[one.agent_id], one.operation, one.kind, bytes(one.last_position).hex()): values(one)[:-1]
        for one in Degradation.objects.filter(started_us__gte=since_us)
    }


def _folded_intervals(folded: Folded, since_us: int) -> dict[Any, Any]:
    values = attrgetter(*statements.INTERVAL_COLUMNS)
    return {
        (*name.agent, name.operation, name.kind, one.last_position.hex()): values(one)[:-1]
        for name, markers in folded.markers.items()
        for one in intervals(markers)
        if one.started_us >= since_us
    }


def _stored_sums(since_us: int) -> dict[Any, Any]:
    found = MinuteSum.objects.filter(minute__gt=since_us // _MINUTE_US)
    name, counters = attrgetter(*SumName._fields), attrgetter(*COUNTERS)
    return {name(one): counters(one) for one in found.iterator(chunk_size=_CHUNK)}


def _folded_sums(folded: Folded, since_us: int) -> dict[Any, Any]:
    return {
        tuple(name): tuple(counters) for name, counters in folded.sums.items() if name.minute > since_us // _MINUTE_US
    }


def _stored_spans(since_us: int) -> dict[Any, Any]:
    name, counters = attrgetter(*SpanName._fields), attrgetter(*COUNTERS)
    found = SpanSum.objects.filter(span__gt=Value(since_us // _MINUTE_US) / F("minutes")).iterator(chunk_size=_CHUNK)
    # A row of zeros is left where all that it counted turned out to be an error that was passed on.
    return {name(one): counters(one) for one in found if any(counters(one))}


def _folded_spans(folded: Folded, since_us: int) -> dict[Any, Any]:
    since = since_us // _MINUTE_US
    found = over_spans(folded.sums, folded.moves).items()
    return {tuple(name): tuple(counters) for name, counters in found if name.span > since // name.minutes}


def _as_far_as_kept(stored: dict[Any, Any], expected: dict[Any, Any]) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Both, with categories left out of the sums of a backend where the table has failures of it without one.

    Servers of before counted them so, and may do it beside ours. Questions see that, and ask the view that keeps all.
    """
    failures = COUNTERS.index("failures")
    lost = {
        name
        for name, counters in stored.items()
        if (one := SpanName._make(name)).view == View.BACKEND and not one.category and counters[failures]
    }
    return _without_categories(stored, lost), _without_categories(expected, lost)


def _without_categories(spans: dict[Any, Any], lost: set[Any]) -> dict[Any, Any]:
    """The sums, joined where that of no category is one of these."""
    found: dict[Any, Any] = {}
    for name, counters in spans.items():
        bare = tuple(SpanName._make(name)._replace(category=""))
        kept, known = (bare, found.get(bare)) if bare in lost else (name, None)
        found[kept] = counters if known is None else tuple(map(add, known, counters))
    return {name: counters for name, counters in found.items() if any(counters)}


def _stored_lanes(names: dict[int, AgentName], since_us: int) -> dict[Any, Any]:
    moves = attrgetter(*LaneMoves._fields)
    found = InstanceMoves.objects.filter(span__gt=Value(since_us // _MINUTE_US) / F("minutes"))
    return {
        (*names[one.agent_id], one.breaker, one.minutes, one.span): moves(one)
        for one in found.iterator(chunk_size=_CHUNK)
    }


def _folded_lanes(folded: Folded, since_us: int) -> dict[Any, Any]:
    since = since_us // _MINUTE_US
    found = over_lanes(folded.lanes).items()
    return {tuple(name): tuple(moves) for name, moves in found if name.span > since // name.minutes}


def _stored_versions(since_us: int) -> dict[Any, Any]:
    columns = (*VersionName._fields, *Told._fields)
    rows = ServiceVersion.objects.filter(last_us__gte=since_us).values_list(*columns)
    return _recent_versions({VersionName(*row[:3]): Told(*row[3:]) for row in rows}, since_us)


def _as_far_as_told(stored: dict[Any, Any], expected: dict[Any, Any]) -> dict[Any, Any]:
    """The versions as the facts say them, where the table says that and more.

    A failure that turns out to have climbed is told by the span around it instead, at another moment and perhaps by
    another service; what it told first was told all the same.
    """
    return {
        name: expected[name] if _holds(told, expected[name]) else told
        for name, told in stored.items()
        if name in expected
    }


def _holds(stored: tuple[Any, ...], expected: tuple[Any, ...]) -> bool:
    """Whether a version was first told as early, and last told as late, as facts say; None: before they begin."""
    first, last, beat = (value or 0 for value in stored)
    earliest, latest, beaten = (value or 0 for value in expected)
    return first <= earliest and last >= latest and beat >= beaten


def _recent_versions(versions: Versions, since_us: int) -> dict[Any, Any]:
    """What the facts of this time and later say: when a version was first told may have been said before."""
    return {
        tuple(name): tuple(value if value >= since_us else None for value in told)
        for name, told in versions.items()
        if told.last_us >= since_us
    }


def _stored_runs(names: dict[int, AgentName], since_us: int) -> dict[Any, Any]:
    found = Run.objects.filter(first_us__gte=since_us).values_list(*RUN_KEY, *RUN_COLUMNS)
    return {tuple(row[:2]): _named(row[2:], names) for row in found.iterator(chunk_size=_CHUNK)}


def _folded_runs(folded: Folded, names: dict[int, AgentName], since_us: int) -> dict[Any, Any]:
    return {
        tuple(name): _named(run_values(one), names) for name, one in folded.runs.items() if one.first_us >= since_us
    }


def _named(values: tuple[Any, ...], names: dict[int, AgentName]) -> tuple[Any, ...]:
    """The columns of a run with names for numbers of instances, and what the last holds instead of its JSON."""
    fold = orjson.loads(values[-1])
    fold["origin"][2] = names.get(fold["origin"][2])
    if fold["begun"] is not None:
        fold["begun"][2] = names.get(fold["begun"][2])
    fold["lives"] = {names.get(int(number)): life for number, life in fold["lives"].items()}
    return (names.get(values[0]), names.get(values[1]), *values[2:-1], fold)


def _stored_run_failures(since_us: int) -> dict[Any, Any]:
    found = RunFailure.objects.filter(first_us__gte=since_us).values_list("environment", "run", "kind", *Failed._fields)
    return {(environment, run, bytes(kind).hex()): tuple(failed) for environment, run, kind, *failed in found}


def _folded_run_failures(folded: Folded, since_us: int) -> dict[Any, Any]:
    def named(name: RunKind) -> tuple[str, str, str]:
        return name.environment, name.run, digest_of(name.kind).hex()

    return {named(name): tuple(one) for name, one in folded.run_failures.items() if one.first_us >= since_us}


def _stored_failures(
    table: type[FailureSum | InstanceFailureSum], names: dict[int, AgentName], since_us: int
) -> dict[Any, Any]:
    """By the kind itself, so that a kind that is missing, or another's, is a difference, too."""
    kinds = {bytes(one.digest): attrgetter(*KindName._fields)(one) for one in FailureKind.objects.all()}
    own = ("agent_id",) if table is InstanceFailureSum else ()
    found = table.objects.filter(span__gt=Value(since_us // _MINUTE_US) / F("minutes"))
    rows = found.values_list(*FailureSumName._fields, *own, *Failed._fields)
    stored: dict[Any, Any] = {}
    for environment, minutes, span, digest, variant, *rest in rows.iterator(chunk_size=_CHUNK):
        agent = (names.get(rest.pop(0)),) if own else ()
        kind = kinds.get(bytes(digest), bytes(digest).hex())
        stored[environment, minutes, span, kind, variant, *agent] = tuple(rest)
    return stored


def _recent_failures(sums: Mapping[Any, Failed], kinds: Iterable[KindName], since_us: int) -> dict[Any, Any]:
    named = {digest_of(kind): tuple(kind) for kind in kinds}
    since = since_us // _MINUTE_US
    return {
        (*name[:3], named[name.kind], *name[4:]): tuple(failed)
        for name, failed in sums.items()
        if name.span > since // name.minutes
    }

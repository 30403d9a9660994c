"""The only SQL that writes facts and what is folded from them, for SQLite and PostgreSQL.

Everything here runs inside a transaction that the caller opened. Facts are inserted, those that were there already are
told apart, and only the new ones are folded. What is folded is read, joined in Python and written back: on SQLite the
transaction holds the one write lock; on PostgreSQL it first locks the rows of the agents it is about, so two processes
never fold facts of one agent at once. Sums are added up by the database, in the order of their keys against deadlocks.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from operator import add, attrgetter, itemgetter
from typing import Any

import orjson
from django.db import IntegrityError, connection, transaction
from django.db.backends.utils import CursorWrapper

from events.deployments.told import Told, VersionName, Versions
from events.ingest.records import AgentName, Row
from events.issues.store import join_failures
from events.models import POSITION_BYTES
from events.projections import recounting
from events.projections.corrections import Corrections
from events.projections.fold import (
    AGENT_GROUPS,
    AgentFold,
    BreakerFold,
    BreakerName,
    DegradationName,
    Folded,
    Group,
    Interval,
    Marker,
    SettingsName,
    fold,
    intervals,
    marker_of,
)
from events.projections.summing import dimensions_digest, over_lanes, over_spans
from events.runs.store import join_runs
from events.store import copying, inserting, statements

_at_us_of = attrgetter("at_us")
_DAY_US = 86_400_000_000
_Id = tuple[str, bytes]
"""Of a fact: its environment and its uid."""
_CHUNK = 200
"""Keys asked for in one statement."""
_IDS_ASKED = 256
"""Of a group's ids, so many are looked for before all are taken as new: 0.2 % of the processor that storing it takes,
where ON CONFLICT DO NOTHING is 3 %."""
_END = b"\x7f" + b"\xff" * (POSITION_BYTES - 1)
"""After every position."""
_LOCK = " ORDER BY id FOR UPDATE"


def store_facts(rows: Sequence[Row], corrections: Corrections | None = None) -> int:
    """Store the rows that are not there yet, and fold them; return how many those were.

    `corrections` are applied, too: those of stored facts that are of another kind by now.
    """
    if not rows and not corrections:
        return 0
    once = rows
    if len({row.uid for row in rows}) < len(rows):
        once = list({(row.environment, row.uid): row for row in reversed(rows)}.values())
        once.reverse()  # of two rows with one uid the first is kept, and the order stays
    with connection.cursor() as cursor:
        writer = StoreWriter(cursor)
        writer.take_agents({row.agent for row in once})
        for row in once:
            row.agent_id = writer.agent_ids[row.agent]
        new = writer.insert(once)
        folded = fold(new)
        corrections = corrections or Corrections()
        for name, counters in corrections.sums.items():
            known = folded.sums.get(name)
            folded.sums[name] = counters if known is None else list(map(add, known, counters))
        writer.join(folded, corrections)
        corrections.forget_empty()
    return len(new)


class StoreWriter:
    """One transaction's statements."""

    def __init__(self, cursor: CursorWrapper) -> None:
        self.cursor = cursor
        self.is_postgres = connection.vendor == "postgresql"
        self.agent_ids: dict[AgentName, int] = {}
        self._agents: dict[AgentName, AgentFold] = {}
        self._made: list[AgentName] = []

    # -- facts ---------------------------------------------------------------------------------------------------------

    def insert(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Insert facts; return those that were not there. There may be none at all: what is only corrected has none.

        They go in the order of their time, in which most indexes grow at one place: what agents say alternates.
        """
        if not rows:
            return rows
        in_order = sorted(rows, key=_at_us_of)
        return self._copy_new(in_order) if self.is_postgres else self._insert_new(in_order)

    def _insert_new(self, rows: Sequence[Row]) -> Sequence[Row]:
        rows = recounting.without(self.cursor, rows)
        self.cursor.execute("SELECT COALESCE(MAX(id), 0) FROM events_fact")
        newest = self.cursor.fetchone()[0]
        if inserting.insert_facts(rows) == len(rows):
            return rows  # the usual case, which needs no second look
        # Ids only grow (AUTOINCREMENT), and nobody else writes before this transaction ends.
        self.cursor.execute("SELECT environment, uid FROM events_fact WHERE id > %s", [newest])
        found = {(environment, bytes(uid)) for environment, uid in self.cursor.fetchall()}
        return [row for row in rows if (row.environment, row.uid) in found]

    def _copy_new(self, rows: Sequence[Row]) -> Sequence[Row]:
        """What is new is told by the ids; only that is sent whole, straight to the day it is of."""
        batch = secrets.randbits(63)
        # In order, so that two processes that are sent the same wait for each other and never for ever.
        ids = sorted((row.environment, row.uid) for row in rows)
        day = max(row.received_us for row in rows) // _DAY_US
        if self._knows_some(ids) or not self._has_taken_all(ids, batch, day):
            rows = self._new_of(rows, ids, batch, day)
        if rows:
            with connection.wrap_database_errors, self.cursor.copy(statements.COPY_FACTS) as copy:
                for lines in copying.written(rows):
                    copy.write(lines)
        return rows

    def _knows_some(self, ids: Sequence[_Id]) -> bool:
        """Whether one of a few of these ids, spread over all, is there: what is resent is resent in long pieces.

        PostgreSQL writes every refused statement, with all ids in it, to its own log: a day of resending would fill it.
        """
        for environment, joined in _pieces(ids[:: max(1, len(ids) // _IDS_ASKED)]):
            self.cursor.execute(statements.ONE_OF_IDS, [joined, len(joined), environment])
            if self.cursor.fetchone() is not None:
                return True
        return False

    def _has_taken_all(self, ids: Sequence[_Id], batch: int, day: int) -> bool:
        """Take all ids as new, at half the price of asking; False, and nothing done, where one was there."""
        try:
            with transaction.atomic():
                for environment, joined in _pieces(ids):
                    self.cursor.execute(statements.TAKE_IDS, [environment, joined, batch, day, len(joined)])
        except IntegrityError:
            return False
        return True

    def _new_of(self, rows: Sequence[Row], ids: Sequence[_Id], batch: int, day: int) -> Sequence[Row]:
        """Take the ids that are not there; the rows that have them."""
        taken, found = 0, set[_Id]()
        for environment, joined in _pieces(ids):
            self.cursor.execute(statements.TAKE_NEW_IDS, [environment, joined, batch, day, len(joined)])
            taken += self.cursor.rowcount
        if taken == len(ids):
            return rows
        for environment, joined in _pieces(ids) if taken else ():
            self.cursor.execute(statements.IDS_OF_BATCH, [joined, len(joined), environment, batch])
            found |= {(environment, bytes(uid)) for (uid,) in self.cursor.fetchall()}
        return [row for row in rows if (row.environment, row.uid) in found]

    def merge(self, merge: statements.Merge, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert these rows, or join them to those with their keys."""
        if not rows:
            return
        if self.is_postgres:
            for arrays in copying.arrays_of(sorted(rows) if merge.locks_in_order else rows):
                self.cursor.execute(merge.by_arrays(), arrays)
        else:
            inserting.insert(merge, rows)

    def inserted(self, merge: statements.Merge, rows: Sequence[tuple[Any, ...]]) -> Iterator[list[Any]]:
        """Insert these rows into PostgreSQL; what its statement returns of each."""
        for arrays in copying.arrays_of(sorted(rows)):
            self.cursor.execute(merge.by_arrays(), arrays)
            yield self.cursor.fetchall()

    # -- what is folded ------------------------------------------------------------------------------------------------

    def join(self, folded: Folded, altered: Corrections) -> None:
        """Join what new facts say to the tables; runs and minutes that are `altered` are folded anew."""
        self._join_agents(folded.agents)
        self._join_versions(folded.versions)
        self._join_breakers(folded.breakers)
        self._join_settings(folded.settings)
        for name, markers in sorted(folded.markers.items()):
            self._join_degradations(name, sorted(markers))
        kinds = join_runs(self, folded.runs, folded.run_failures, altered.runs)
        self._add_sums(folded)
        join_failures(self, folded.failures, altered.failures, kinds)  # the last: see there

    def take_agents(self, agents: Iterable[AgentName]) -> None:
        """Find these agents, make those that are missing, and keep them to ourselves until the transaction ends."""
        wanted = sorted(agents)
        self._read_agents(wanted)
        self._made = [name for name in wanted if name not in self.agent_ids]
        if self._made:
            unsaid = _agent_values(AgentFold(0, 0))
            self.cursor.executemany(statements.INSERT_AGENT, [(*name, *unsaid) for name in self._made])
            self._read_agents(self._made)

    def _read_agents(self, wanted: Sequence[AgentName]) -> None:
        unlocked = chain.from_iterable(self.read_by(statements.READ_AGENTS, wanted))
        found = self._locked(wanted) if self.is_postgres else unlocked
        for agent_id, environment, service, instance, *values in found:
            name = AgentName(environment, service, instance)
            self.agent_ids[name] = agent_id
            self._agents[name] = _agent_fold(values)

    def _locked(self, wanted: Sequence[AgentName]) -> Iterator[tuple[Any, ...]]:
        """Agents of PostgreSQL, locked in the order of their numbers, against deadlocks.

        Those whose names fit into one statement, which is nearly always, by it; else their numbers are found first.
        """
        parts = copying.arrays_of(wanted)
        first, second = next(parts, None), next(parts, None)
        if first is None:
            return
        if second is None:
            self.cursor.execute(statements.READ_AGENTS.by_arrays(wanted[0], _LOCK), first)
            yield from self.cursor.fetchall()
            return
        ids: list[tuple[int]] = []
        for part in chain((first, second), parts):
            self.cursor.execute(statements.FIND_AGENTS.by_arrays(wanted[0], ""), part)
            ids += self.cursor.fetchall()
        for numbers in copying.arrays_of(sorted(ids)):
            self.cursor.execute(statements.READ_AGENTS_BY_ID.by_arrays(ids[0], _LOCK), numbers)
            yield from self.cursor.fetchall()

    def _join_agents(self, agents: dict[AgentName, AgentFold]) -> None:
        for name, news in agents.items():
            known = self._agents[name]
            if known.first_seen_us:  # else it was made a moment ago and has said nothing yet
                news.join(known)
        self.merge(statements.AGENTS, [(*name, *_agent_values(news)) for name, news in agents.items()])
        # Its every fact had come before under another name, so it has still said nothing.
        mute = [(self.agent_ids[name],) for name in self._made if name not in agents]
        self.cursor.executemany("DELETE FROM events_agent WHERE id = %s AND first_seen_us = 0", mute)

    def _join_versions(self, versions: Versions) -> None:
        settled = set()
        for rows in self.read_by(statements.READ_VERSIONS, list(versions)):
            for environment, service, version, *stored in rows:
                name, known = VersionName(environment, service, version), Told(*stored)
                if versions[name].joined(known) == known:
                    settled.add(name)
        self.merge(statements.VERSIONS, [(*name, *told) for name, told in versions.items() if name not in settled])

    def _join_breakers(self, breakers: dict[BreakerName, BreakerFold]) -> None:
        if not breakers:
            return
        keys = {(name.agent.environment, name.breaker, self.agent_ids[name.agent]): name for name in breakers}
        settled = set()
        for rows in self.read_by(statements.READ_BREAKERS, list(keys)):
            for environment, breaker, agent_id, seen_us, position, *values in rows:
                key = (environment, breaker, agent_id)
                known, news = BreakerFold(seen_us, Group(bytes(position), tuple(values))), keys[key]
                breakers[news].join(known)
                if breakers[news] == known:
                    settled.add(key)
        changed = [
            (*key, one.seen_us, one.change.position, *one.change.values)
            for key, name in keys.items()
            if key not in settled
            for one in (breakers[name],)
        ]
        self.merge(statements.BREAKERS, changed)

    def _join_settings(self, settings: dict[SettingsName, Group]) -> None:
        if not settings:
            return
        keys = {(self.agent_ids[name.agent], name.operation): name for name in settings}
        for rows in self.read_by(statements.READ_SETTINGS, list(keys)):
            for agent_id, operation, position, *values in rows:
                settings[keys[agent_id, operation]].join(Group(bytes(position), tuple(values)))
        rows_of = (
            (name.agent.environment, *key, settings[name].position, *settings[name].values)
            for key, name in keys.items()
        )
        self.merge(statements.SETTINGS, list(rows_of))

    def _join_degradations(self, name: DegradationName, markers: Sequence[Marker]) -> None:
        """Continue the open interval; what comes late shapes anew what it falls into, and nothing after that."""
        while markers:
            markers = markers[self._shape(name, markers) :]

    def _shape(self, name: DegradationName, markers: Sequence[Marker]) -> int:
        """Take the first markers, up to the end of the interval that they fall into or precede; return how many.

        That end ends what they begin, too: whatever is after it stays as it is, however much that may be.
        """
        key = (self.agent_ids[name.agent], name.operation, name.kind)
        first, until, touched, opened = markers[0].position, _END, [], None
        self.cursor.execute(statements.SELECT_INTERVAL_FROM, [*key, first])
        within = self.cursor.fetchone()
        if within is not None and within[2] is not None:
            until = bytes(within[1])
        taken = [marker for marker in markers if marker.position < until]
        before, shaping = self._interval_before(key, first), taken
        if before is not None and before[1].ended_us is None:
            touched, opened = [before[0]], before[1]
        elif within is not None:
            touched, shaping = [within[0]], self._stored_markers(name, before, until)
        after_us = before[1].ended_us if before is not None else None
        shaped = intervals(shaping, opened, after_us or 0)
        self.cursor.executemany("DELETE FROM events_degradation WHERE id = %s", [(row_id,) for row_id in touched])
        start: tuple[Any, ...] = (name.agent.environment, *key)
        values: Callable[[Interval], tuple[Any, ...]] = attrgetter(*statements.INTERVAL_COLUMNS)
        rows = [(*start, *values(one)) for one in shaped]
        self.cursor.executemany(statements.INSERT_INTERVAL, rows)
        return len(taken)

    def _interval_before(self, key: tuple[int, str, str], position: bytes) -> tuple[int, Interval] | None:
        """The last interval of which all is known by this position; if it is open, it goes on."""
        self.cursor.execute(statements.SELECT_INTERVAL_BEFORE, [*key, position])
        found = self.cursor.fetchone()
        if found is None:
            return None
        columns = dict(zip(statements.INTERVAL_COLUMNS, found[1:], strict=True))
        return found[0], Interval(**columns | {"last_position": bytes(columns["last_position"])})

    def _stored_markers(self, name: DegradationName, before: tuple[int, Interval] | None, until: bytes) -> list[Marker]:
        """The markers after an interval, up to a position and with it, from the facts."""
        after_us, after = (before[1].ended_us or 0, before[1].last_position) if before is not None else (0, b"")
        bounds = after_us, int.from_bytes(until[:8])
        self.cursor.execute(statements.SELECT_MARKERS, [self.agent_ids[name.agent], name.operation, *bounds])
        found = (marker_of(row_of(values, name.agent)) for values in self.cursor.fetchall())
        return [marker for whose, marker in found if whose == name and after < marker.position <= until]

    @staticmethod
    def row_of(values: Sequence[Any], agent: AgentName) -> Row:
        """A stored fact as a row."""
        return row_of(values, agent)

    def _add_sums(self, folded: Folded) -> None:
        minutes = (
            (*name[:2], dimensions_digest(name[2:]), name.breaker or name.operation, *name[2:], *added)
            for name, added in folded.sums.items()
        )
        self.merge(statements.SUMS, list(minutes))
        spans = (
            (*name[:4], dimensions_digest(name[4:]), name.breaker or name.operation, *name[4:], *added)
            for name, added in over_spans(folded.sums, folded.moves).items()
        )
        self.merge(statements.SPANS, list(spans))
        lanes = (
            (name.environment, name.breaker, name.minutes, name.span, self.agent_ids[AgentName(*name[:3])], *moves)
            for name, moves in over_lanes(folded.lanes).items()
        )
        self.merge(statements.LANES, list(lanes))

    def read_by(
        self, read: statements.Read, keys: Sequence[tuple[Any, ...]], *, is_locked: bool = False
    ) -> Iterator[list[Any]]:
        """The rows whose key is one of these; on PostgreSQL locked in their order where that is asked for."""
        for chunk in _chunks(keys):
            if self.is_postgres:
                for arrays in copying.arrays_of(chunk):
                    tail = " FOR UPDATE" if is_locked else ""
                    self.cursor.execute(read.one_by_one(chunk[0], tail), arrays)
                    yield self.cursor.fetchall()
            else:
                self.cursor.execute(read.by_values(len(chunk)), list(chain.from_iterable(chunk)))
                yield self.cursor.fetchall()


def _chunks(keys: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    remaining = iter(keys)
    while chunk := list(islice(remaining, _CHUNK)):
        yield chunk


def _pieces(ids: Sequence[_Id]) -> Iterator[tuple[str, bytes]]:
    """Ids that are in order, in one piece for each environment."""
    for environment, those in groupby(ids, key=itemgetter(0)):
        yield environment, b"".join([uid for _, uid in those])


# -- values to columns and back ----------------------------------------------------------------------------------------


def row_of(values: Sequence[Any], agent: AgentName) -> Row:
    """A fact as `statements.FACT_COLUMNS` hold it; its attributes as JSON, or read already."""
    given = dict(zip(statements.FACT_COLUMNS, values, strict=True))
    stored = given.pop("attributes")
    attributes = orjson.loads(stored) if isinstance(stored, str) else stored
    given |= {"uid": bytes(given["uid"]), "is_foreground": bool(given["is_foreground"])}
    return Row(**given, attributes_json="", agent=agent, attributes=attributes)


def _agent_fold(values: Sequence[Any]) -> AgentFold:
    first_seen_us, last_seen_us, *rest = values
    agent, remaining = AgentFold(first_seen_us, last_seen_us), iter(rest)
    for name, columns in AGENT_GROUPS.items():
        agent.groups[name] = Group(bytes(next(remaining)), tuple(islice(remaining, len(columns))))
    return agent


def _agent_values(agent: AgentFold) -> tuple[Any, ...]:
    groups = [value for group in agent.groups.values() for value in (group.position, *group.values)]
    return (agent.first_seen_us, agent.last_seen_us, *groups)

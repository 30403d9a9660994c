"""Bounds how many different names an environment may have of each kind; what comes beyond is folded into `(other)`.

Sums and states have a row for each name, so a name made of an id, or a sender gone mad, would fill every table and
page. Names get their place by arriving; one that was not seen for a month gives way. A fact whose name found no place
is stored all the same: under `(other)`, with its own name among its attributes, and counted in a tally that people see.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

import orjson
from django.conf import settings
from django.db.models import Count

from events.ingest import tallies
from events.ingest.records import AgentName, Row
from events.models import KnownName, Tally
from recovery_ops.wire import names

OTHER = "(other)"
UNSEEN_DAYS = 30
LOOK_AGAIN_S = 60.0
"""How often a full kind is read anew: names may have given way, and other processes admit names, too."""
_DAY_US = 86_400_000_000
_MEMO_MOST = 50_000
STEP_NAMES = 2000
"""Places taken away in one transaction: facts that come in wait for no more than that."""
_KEY_CHARS = 400
_FINGERPRINT = names.ATTRIBUTES["fingerprint"]


class Kind(StrEnum):
    """What names are names of; the values are also columns of a row, but for the last three."""

    OPERATION = "operation"
    BREAKER = "breaker"
    SOURCE = "source"
    PROVIDER = "provider"
    MODEL = "model"
    REGION = "region"
    SERVICE = "service"
    INSTANCE = "instance"
    VERSION = "version"
    FINGERPRINT = "fingerprint"


def most_of(kind: Kind) -> int:
    """How many names of this kind have a place, in each environment."""
    most: dict[str, int] = settings.MOST_NAMES
    return most[kind.value]


_Place = tuple[str, Kind]
"""An environment and a kind."""


class Names:
    """The names that have a place, as this process knows them. For one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._days: dict[_Place, dict[str, int]] = {}
        self._read_at: dict[_Place, float] = {}
        self._passed: set[tuple[object, ...]] = set()
        self._today = 0

    def bound(self, rows: Sequence[Row]) -> None:
        """Fold every name that finds no place. In the transaction that stores the rows; `forget` if it fails."""
        if not rows:
            return
        with self._lock:
            round_ = _Round(self, rows[0].received_us)
            today = rows[0].received_us // _DAY_US
            if today != self._today or len(self._passed) > _MEMO_MOST:
                self._today = today
                self._passed.clear()
            for row in rows:
                said = (
                    *row.agent,
                    row.operation,
                    row.breaker,
                    row.source,
                    row.provider,
                    row.model,
                    row.region,
                    _word(row.attributes.get(_FINGERPRINT)),
                    _word(row.attributes.get(names.SERVICE_VERSION)),
                )
                if said not in self._passed:
                    round_.bound(row)
                    if not round_.has_folded:
                        self._passed.add(said)
            round_.write()

    def forget(self) -> None:
        """Read all from the database again: what was noted may never have been committed."""
        with self._lock:
            self._days.clear()
            self._passed.clear()
            self._read_at.clear()

    def known(self, place: _Place) -> dict[str, int]:
        """The names of a kind, each with the day it was last seen."""
        found = self._days.get(place)
        if found is None:
            found = self._days[place] = self._read(place)
        return found

    def has_room(self, place: _Place) -> bool:
        """Whether one more name of this kind may have a place."""
        most = most_of(place[1])
        if len(self.known(place)) < most:
            return True
        if time.monotonic() - self._read_at[place] > LOOK_AGAIN_S:
            self._days[place] = self._read(place)
        return len(self._days[place]) < most

    def _read(self, place: _Place) -> dict[str, int]:
        self._read_at[place] = time.monotonic()
        stored = KnownName.objects.filter(environment=place[0], kind=place[1].value)
        return dict(stored.values_list("name", "seen_day"))


class _Round:
    """What one transaction adds."""

    def __init__(self, known: Names, now_us: int) -> None:
        self._names, self._now_us = known, now_us
        self._day = now_us // _DAY_US
        self._new: dict[tuple[str, str, str], int] = {}
        self._seen: dict[tuple[str, str, str], int] = {}
        self._folded: Counter[tuple[str, str]] = Counter()
        self.has_folded = False

    def bound(self, row: Row) -> None:
        """Fold the names of one row that have no place."""
        lost = [(kind, name) for kind, name, key in _names_of(row) if not self._has_place(row.environment, kind, key)]
        self.has_folded = bool(lost)
        for kind, name in lost:
            self._folded[row.environment, kind.value] += 1
            _fold(row, kind, name)
        if lost:
            row.attributes_json = orjson.dumps(row.attributes).decode()

    def write(self) -> None:
        """Note names and tallies, in the order of their keys, so that two processes never wait for each other."""
        rows = [
            KnownName(environment=environment, kind=kind, name=name, seen_day=day)
            for (environment, kind, name), day in sorted((self._new | self._seen).items())
        ]
        if rows:
            KnownName.objects.bulk_create(
                rows,
                update_conflicts=True,
                unique_fields=["environment", "kind", "name"],
                update_fields=["seen_day"],
                batch_size=500,
            )
        tallies.add(self._folded, self._now_us)

    def _has_place(self, environment: str, kind: Kind, key: str) -> bool:
        place = (environment, kind)
        known = self._names.known(place)
        day = known.get(key)
        if day is None:
            if not self._names.has_room(place):
                return False
            self._names.known(place)[key] = self._day
            self._new[environment, kind.value, key] = self._day
        elif day < self._day:
            known[key] = self._day
            self._seen[environment, kind.value, key] = self._day
        return True


def _names_of(row: Row) -> Iterator[tuple[Kind, str, str]]:
    """The names in a row that are bounded: the kind, the name, and what it is known by."""
    for kind in _COLUMNS:
        name: str | None = getattr(row, kind.value)
        if name and name != OTHER:
            yield kind, name, name
    agent = row.agent
    if agent.service != OTHER:
        yield Kind.SERVICE, agent.service, agent.service
    if agent.instance and agent.instance != OTHER:
        yield Kind.INSTANCE, agent.instance, f"{agent.service}/{agent.instance}"
    version = row.attributes.get(names.SERVICE_VERSION)
    if version and version != OTHER:
        yield Kind.VERSION, str(version), _short(f"{agent.service}/{version}")
    fingerprint = row.attributes.get(_FINGERPRINT)
    if fingerprint is not None and fingerprint != OTHER:
        text = str(fingerprint)
        yield Kind.FINGERPRINT, text, _short(text)


def _word(value: object) -> object:
    """A value that a set can hold, whatever was sent."""
    return value if value is None or isinstance(value, str) else str(value)


_COLUMNS = (Kind.OPERATION, Kind.BREAKER, Kind.SOURCE, Kind.PROVIDER, Kind.MODEL, Kind.REGION)


def _short(text: str) -> str:
    return text if len(text) <= _KEY_CHARS else hashlib.sha256(text.encode(errors="replace")).hexdigest()


def _fold(row: Row, kind: Kind, name: str) -> None:
    row.attributes[f"{names.FOLDED_PREFIX}{kind.value}"] = name
    if kind in _COLUMNS:
        setattr(row, kind.value, OTHER)
    elif kind is Kind.SERVICE:
        row.agent = AgentName(row.agent.environment, OTHER, row.agent.instance)
    elif kind is Kind.INSTANCE:
        row.agent = AgentName(row.agent.environment, row.agent.service, OTHER)
    else:
        row.attributes[names.SERVICE_VERSION if kind is Kind.VERSION else _FINGERPRINT] = OTHER


# -- for people, and for the sweep -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How one kind of name stands in an environment."""

    kind: Kind
    known: int
    most: int
    folded: int
    """Facts whose name found no place, ever."""
    last_folded_us: int | None

    @property
    def is_full(self) -> bool:
        """Whether the next new name is folded."""
        return self.known >= self.most


def standings(environment: str, counted: dict[str, Tally]) -> list[Standing]:
    """How every kind of name stands; `counted` are the environment's tallies. One query."""
    mine = KnownName.objects.filter(environment=environment).order_by()
    known = dict(mine.values_list("kind").annotate(Count("id")))
    return [
        Standing(
            kind=kind,
            known=known.get(kind.value, 0),
            most=most_of(kind),
            folded=counted[kind.value].count if kind.value in counted else 0,
            last_folded_us=counted[kind.value].last_us if kind.value in counted else None,
        )
        for kind in Kind
    ]


def give_way(now_us: int, *, may_go_on: Callable[[], bool] = lambda: True) -> int:
    """Take away the places of names that were not seen for a month, in steps; return how many.

    Asks `may_go_on` after each step that left something; the rest is for the next time.
    """
    before = (now_us - int(timedelta(days=UNSEEN_DAYS).total_seconds()) * 1_000_000) // _DAY_US
    gone, count = 0, STEP_NAMES
    while count == STEP_NAMES:
        unseen = list(KnownName.objects.filter(seen_day__lt=before).values_list("pk", flat=True)[:STEP_NAMES])
        # Asked again with the delete: one may have been seen since.
        count = len(unseen)
        gone += KnownName.objects.filter(pk__in=unseen, seen_day__lt=before).delete()[0] if unseen else 0
        if count == STEP_NAMES and not may_go_on():
            break
    return gone


known_names = Names()
"""Of this process."""

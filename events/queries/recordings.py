"""What happened in a window, instance by instance in order: for deciding it again under another policy."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from django.db import connection
from django.db.models import Count, Max, Min

from events.models import Agent, Fact
from events.runs.stored import facts_of_run

EVENTS = (
    "failure_classified",
    "retry_scheduled",
    "attempt_succeeded",
    "exhausted",
    "fallback_activated",
    "breaker_rejected",
    "breaker_state_changed",
    "calls_counted",
    "model_fallback",
    "degradation_started",
    "escalated",
    "run_stopped",
    "run_finished",
    "guard_tripped",
    "permission_denied",
    "compensation_finished",
    "spend_cap_reached",
)
"""What deciding again needs of a recording."""

OF_A_BREAKER = ("failure_classified", "breaker_rejected", "breaker_state_changed")
"""What deciding a breaker again needs: failures say how many calls went well before them."""

_PAGE = 2000
_COLUMNS = (
    *("event", "at_us", "operation", "breaker", "source", "is_foreground", "run", "category", "state", "provider"),
    "model",
)


class Told(NamedTuple):
    """One fact of a recording; `attributes` by the names of wire.names."""

    event: str
    at_us: int
    operation: str
    breaker: str
    source: str
    is_foreground: bool
    run: str
    category: str
    state: str
    provider: str
    model: str
    attributes: dict[str, Any]


class Page(NamedTuple):
    """Some facts of one instance, packed, and how many."""

    facts: int
    packed: bytes


class Speaker(NamedTuple):
    """The instance that told it."""

    service: str
    instance: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Which facts: a window of one environment, in microseconds since the epoch; an empty filter leaves nothing out."""

    environment: str
    start_us: int
    end_us: int
    service: str = ""
    operation: str = ""


def sort_on_disk(folder: Path) -> None:
    """For a process of its own that reads long recordings: SQLite sorts them in files of this folder, not in memory.

    Not within a transaction. PostgreSQL always does, past its `work_mem`.
    """
    if connection.vendor != "sqlite":
        return
    os.environ["SQLITE_TMPDIR"] = str(folder)
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA temp_store = FILE")


def count_recorded(part: Part) -> int:
    """How many facts `recordings` would go through."""
    facts = Fact.objects.filter(
        environment=part.environment, event__in=EVENTS, at_us__gte=part.start_us, at_us__lt=part.end_us
    )
    if part.operation:
        facts = facts.filter(operation=part.operation)
    if part.service:
        facts = facts.filter(agent_id__in=_ids(part))
    return facts.count()


def stored(part: Part) -> Iterator[tuple[Speaker, Iterator[Page]]]:
    """Each instance with pages of its facts, packed, in the order in which they happened; `unpacked` opens one.

    Whoever only hands them on need not look into them. Use them before asking for the next instance.
    """
    agents = Agent.objects.filter(environment=part.environment)
    speakers = {pk: Speaker(*rest) for pk, *rest in agents.values_list("id", "service", "instance", "group")}
    for agent_id, rows in groupby(_rows(part), key=itemgetter(0)):
        yield speakers.get(agent_id, Speaker("", "", "")), _packed(rows)


def unpacked(page: Page) -> Iterator[Told]:
    """The facts of a page."""
    return map(Told._make, orjson.loads(page.packed))


def recordings(part: Part) -> Iterator[tuple[Speaker, Iterator[Told]]]:
    """As `stored`, with the facts themselves."""
    for speaker, pages in stored(part):
        yield speaker, chain.from_iterable(map(unpacked, pages))


def recorded_run(environment: str, run: str, *, lead_s: float, most: int) -> tuple[Speaker, list[Told]] | None:
    """A run with what else its instance told while it went on, and for some seconds before; the newest `most` facts.

    None where no fact of that run is one that a policy decides about. Of a run that moved on, the instance that told
    most of it. Three queries; index `fact_by_run`.
    """
    own = facts_of_run(environment, run).filter(event__in=EVENTS)
    spans = own.values("agent_id").annotate(count=Count("id"), first=Min("at_us"), last=Max("at_us"))
    span = spans.order_by("-count", "agent_id").first()
    if span is None:
        return None
    around = Fact.objects.filter(
        environment=environment,
        event__in=EVENTS,
        agent_id=span["agent_id"],
        at_us__gte=span["first"] - int(lead_s * 1e6),
        at_us__lte=span["last"],
    )
    rows = around.order_by("-at_us", "-sequence_number").values_list(*_COLUMNS, "attributes")[:most]
    speaker = Agent.objects.filter(pk=span["agent_id"]).values_list("service", "instance", "group").first()
    return Speaker(*(speaker or ("", "", ""))), [Told(*row) for row in reversed(rows)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfBreaker:
    """What was told of one breaker by each instance, in order. It is whole from `since_us` on."""

    since_us: int
    is_cut: bool
    """Whether more was told before `since_us` than is read."""
    parts: Sequence[tuple[Speaker, Sequence[Told]]]


def recorded_breaker(environment: str, breaker: str, *, start_us: int, end_us: int, most: int) -> OfBreaker:
    """The failures, refused calls and moves of a breaker in [start, end), the newest `most` of each kind.

    Four queries; index `fact_by_breaker`.
    """
    rows: list[Sequence[Any]] = []
    since_us, is_cut = start_us, False
    for event in OF_A_BREAKER:
        facts = Fact.objects.filter(
            environment=environment, breaker=breaker, event=event, at_us__gte=start_us, at_us__lt=end_us
        )
        told = facts.order_by("-at_us").values_list("agent_id", "sequence_number", *_COLUMNS, "attributes")
        found = list(told[: most + 1])
        if len(found) > most:
            since_us, is_cut = max(since_us, found[-1][3] + 1), True  # of that moment some may be left out
        rows += found
    agents = Agent.objects.filter(pk__in={row[0] for row in rows}).values_list("id", "service", "instance", "group")
    speakers = {pk: Speaker(*rest) for pk, *rest in agents}
    ordered = sorted((row for row in rows if row[3] >= since_us), key=lambda row: (row[0], row[3], row[1]))
    parts = [
        (speakers.get(agent_id, Speaker("", "", "")), [Told(*row[2:]) for row in some])
        for agent_id, some in groupby(ordered, key=itemgetter(0))
    ]
    return OfBreaker(since_us=since_us, is_cut=is_cut, parts=parts)


def _packed(rows: Iterator[Sequence[Any]]) -> Iterator[Page]:
    """Attributes go into the page as they were stored: they are read once, by whoever opens it."""
    while page := [(*row[1:-1], orjson.Fragment(row[-1])) for row in islice(rows, _PAGE)]:
        yield Page(len(page), orjson.dumps(page))


def _rows(part: Part) -> Iterator[Sequence[Any]]:
    text = "attributes::text" if connection.vendor == "postgresql" else "attributes"
    places = ", ".join(["%s"] * len(EVENTS))
    where = f"environment = %s AND event IN ({places}) AND at_us >= %s AND at_us < %s"
    values: list[Any] = [part.environment, *EVENTS, part.start_us, part.end_us]
    if part.operation:
        where += " AND operation = %s"
        values.append(part.operation)
    if part.service:
        ids = _ids(part) or [0]
        where += f" AND agent_id IN ({', '.join(['%s'] * len(ids))})"
        values += ids
    # Only names of our own columns are put together here; every value is a parameter.
    columns = ", ".join(f'"{column}"' for column in _COLUMNS)
    select = f"SELECT agent_id, {columns}, {text} FROM events_fact WHERE {where}"  # noqa: S608
    with connection.chunked_cursor() as cursor:
        cursor.execute(f"{select} ORDER BY agent_id, at_us, sequence_number", values)
        while rows := cursor.fetchmany(_PAGE):
            yield from rows


def _ids(part: Part) -> list[int]:
    agents = Agent.objects.filter(environment=part.environment, service=part.service)
    return list(agents.values_list("id", flat=True))

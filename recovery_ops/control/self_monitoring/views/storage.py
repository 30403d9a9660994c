"""How long what is kept, how much there is, which names found no place, and where to look after what was set aside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from events.ingest.cardinality import Standing, standings
from events.ingest.tallies import tallies_of
from events.models import Agent, Quarantine
from events.moments import from_us
from events.store import holdings, retention
from events.wording import count_text
from recovery_ops.control.core.views.settings import settings_page
from recovery_ops.control.dashboard.views.first_steps import SELF_TEST
from recovery_ops.control.self_monitoring.retention import KEEP_USED_KEYS

_ENDPOINTS = (
    ("/v1/logs", "events as log records, OTLP over HTTP, protobuf or JSON"),
    ("/v1/traces", "spans; source of failures and runs without events"),
)
_VARIABLES = """export OTEL_SERVICE_NAME=my-agent
export OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name={environment}
export OTEL_EXPORTER_OTLP_ENDPOINT={origin}
export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
export OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20…"
"""
_UNITS = ((2**30, "GB"), (2**20, "MB"), (2**10, "kB"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One class of data and how long it is kept."""

    words: str
    length: timedelta

    @property
    def days(self) -> int:
        """Whole days."""
        return self.length.days


@dataclass(frozen=True, slots=True, kw_only=True)
class DayBar:
    """The facts of one day, and how long its bar is: a share of the fullest day."""

    date: str
    count: int
    share: float


def stored(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The whole page. Counts facts through an index alone."""
    now = timezone.now()
    size = holdings.size()
    days = _bars(environment, now)
    context = {
        "now": now,
        "kept": kept(),
        "days": days,
        "total": bytes_text(size.total_bytes),
        "free": None if size.free_bytes is None else bytes_text(size.free_bytes),
        "parts": [(name, bytes_text(count)) for name, count in size.parts],
        "names": [(str(one.kind.value), one) for one in _names(environment)],
        "aside": Quarantine.objects.filter(environment=environment).count(),
        "is_by_day": holdings.is_by_day(),
        **_intake(request, environment),
        "sentence": _sentence(environment, days, bytes_text(size.total_bytes)),
    }
    return settings_page(request, "self_monitoring/stored", context, here="stored")


def _intake(request: HttpRequest, environment: str) -> dict[str, object]:
    """Where facts are sent, with what, and when the last one came. One query."""
    origin = request.build_absolute_uri("/").rstrip("/")
    seen_us = Agent.objects.filter(environment=environment).aggregate(seen=Max("last_seen_us"))["seen"]
    return {
        "endpoints": [(f"{origin}{path}", words) for path, words in _ENDPOINTS],
        "variables": _VARIABLES.format(origin=origin, environment=environment),
        "self_test": SELF_TEST,
        "last_received": None if seen_us is None else from_us(seen_us),
    }


def kept() -> list[Kept]:
    """How long each class of data is kept: what superseded itself shortest, what a year is looked back on longest."""
    by_length: dict[timedelta, list[str]] = {}
    for event, length in retention.KEEP.items():
        by_length.setdefault(length, []).append(event.replace("_", " "))
    lines = [Kept(words=", ".join(events).capitalize(), length=length) for length, events in by_length.items()]
    lines += [
        Kept(words="Other events", length=retention.USUAL),
        Kept(words="Rollups of a minute and longer", length=retention.KEEP_SUMS),
        Kept(words="Breakers of ended instances", length=retention.KEEP_BREAKERS),
        Kept(words="Ended agents", length=retention.KEEP_AGENTS),
        Kept(words="Quarantined records", length=retention.KEEP_QUARANTINE),
        Kept(words="Idempotency keys", length=KEEP_USED_KEYS),
    ]
    return sorted(lines, key=lambda line: line.length)


def bytes_text(count: int) -> str:
    """`1.4 GB`, `312 MB`, `12 kB`."""
    for unit, word in _UNITS:
        if count >= unit:
            return f"{count / unit:.1f} {word}" if count < 10 * unit else f"{count / unit:,.0f} {word}"
    return count_text(count, "byte")


def _names(environment: str) -> Sequence[Standing]:
    return list(standings(environment, tallies_of(environment)))


def _bars(environment: str, now: datetime) -> list[DayBar]:
    counts = holdings.facts_per_day(environment, now)
    most = max((one.count for one in counts), default=0) or 1
    return [
        DayBar(date=f"{one.date:%a} {one.date.day} {one.date:%b}", count=one.count, share=one.count / most)
        for one in counts
    ]


def _sentence(environment: str, days: Sequence[DayBar], total: str) -> str:
    facts = sum(day.count for day in days)
    if not facts:
        return f"No events of {environment} in the last {holdings.DAYS} days. Database size {total}."
    told = f"{count_text(facts, 'event')} of {environment} in the last {holdings.DAYS} days"
    return f"{told}, {days[-1].count:,} today. Database size {total}."

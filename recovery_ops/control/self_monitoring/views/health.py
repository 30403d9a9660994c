"""Whether everything runs: what the console knows of its own parts, each as a word and a sentence."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import quantiles

import django
from django.conf import settings
from django.db import connection
from django.db.models import Count, Max, Q, Sum
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from events.models import Agent
from events.moments import from_us
from events.wording import count_text, lasted_text, span_text
from recovery_ops import __version__
from recovery_ops.control.core.models.heartbeats import Beat
from recovery_ops.control.core.views.settings import settings_page
from recovery_ops.control.dashboard import live_stream
from recovery_ops.control.desired_state import stream
from recovery_ops.control.self_monitoring.dead_man_switch import HEARD
from recovery_ops.control.self_monitoring.queue_length import tasks_waiting
from recovery_ops.control.self_monitoring.readings import newest_facts
from recovery_ops.control.self_monitoring.scheduled_tasks import (
    LATE_FACTOR,
    LEAST_LATE_S,
    Duty,
    beats_by_name,
    duties_of,
)

MOST_CLOCK_OFF_S = 2.0
MOST_LAG_S = 30.0
MOST_TASKS = 200
"""More than what the schedule asks for in several minutes: the workers do not keep up."""
_STARTED_S = time.time()


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of the console. `standing` is ok, late or unknown; `words` says since when and how much."""

    name: str
    standing: str
    words: str
    at: datetime | None = None
    href: str = ""


def health(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Every part and every duty. A handful of small queries."""
    now = timezone.now()
    beats = beats_by_name()
    duties = duties_of(beats, now)
    found = list(parts(environment, now, beats, duties))
    context = {
        "now": now,
        "parts": found,
        "duties": duties,
        "versions": _versions(),
        "sentence": _sentence(found),
    }
    return settings_page(request, "self_monitoring/health", context, here="health")


def parts(environment: str, now: datetime, beats: dict[str, Beat], duties: Sequence[Duty]) -> Iterator[Part]:
    """The parts in the order in which a fact goes through them."""
    yield from _intake(environment, now)
    yield _worker(duties)
    yield _queue(tasks_waiting())
    yield _scheduler(beats.get(Beat.SCHEDULER), now)
    if settings.DEAD_MAN_URL:
        yield _dead_man(beats.get(HEARD), now)
    yield _streams()
    yield from _database(now)


def _intake(environment: str, now: datetime) -> Iterator[Part]:
    fleet = Agent.objects.filter(environment=environment).aggregate(
        seen=Max("last_seen_us"),
        pending=Sum("outbox_pending"),
        dropped=Sum("outbox_dropped"),
        waiting=Count("pk", filter=Q(outbox_pending__gt=0)),
    )
    if fleet["seen"] is None:
        yield Part(name="Intake", standing="unknown", words="No agent has reported yet.", href=reverse("agents"))
        return
    seen = from_us(fleet["seen"])
    is_late = now - seen > timedelta(seconds=settings.UNREACHABLE_AFTER_S)
    words = "No reporting agents; last event" if is_late else "Receiving events; last event"
    yield Part(name="Intake", standing="late" if is_late else "ok", words=words, at=seen, href=reverse("intake"))
    yield _lag(environment)
    pending, dropped = fleet["pending"] or 0, fleet["dropped"] or 0
    told = f"{count_text(pending, 'event')} in {count_text(fleet['waiting'], 'outbox', 'outboxes')}"
    lost = f"; {dropped:,} dropped, outbox full" if dropped else "; none dropped"
    yield Part(name="Outboxes of agents", standing="late" if dropped else "ok", words=f"{told}{lost}.")


def _lag(environment: str) -> Part:
    rows = newest_facts(environment)
    lags = [max(0, received - at) / 1e6 for at, received, _ in rows]
    if len(lags) < 2:
        return Part(name="Lag", standing="unknown", words="Not enough events.")
    p95 = quantiles(lags, n=20)[-1]
    ahead = sum(stated is not None for _, _, stated in rows)
    told = f"Ingest delay p95 {lasted_text(p95)}, newest {len(lags)} events."
    if ahead:
        told += f" {count_text(ahead, 'event')} from clocks ahead of the server."
    return Part(name="Lag", standing="late" if p95 > MOST_LAG_S else "ok", words=told)


def _worker(duties: Sequence[Duty]) -> Part:
    ran = [duty.beat.at for duty in duties if duty.beat is not None]
    if not ran:
        words = "No task has run; start a worker."
        return Part(name="Worker", standing="unknown", words=words)
    late = [duty.name for duty in duties if duty.standing == "late"]
    words = f"Late: {', '.join(late)}. Last run" if late else "All tasks on time; last run"
    return Part(name="Worker", standing="late" if late else "ok", words=words, at=max(ran))


def _scheduler(beat: Beat | None, now: datetime) -> Part:
    if beat is None:
        return Part(name="Scheduler", standing="unknown", words="The scheduler has not queued a task.")
    is_late = (now - beat.at).total_seconds() > LEAST_LATE_S
    words = "Stopped; last task queued" if is_late else "Running; last task queued"
    return Part(name="Scheduler", standing="late" if is_late else "ok", words=words, at=beat.at)


def _queue(count: int | None) -> Part:
    if count is None:
        return Part(name="Task queue", standing="late", words="The broker does not respond.")
    is_late = count > MOST_TASKS
    words = f"{count_text(count, 'pending task')}" if count else "No pending tasks"
    return Part(name="Task queue", standing="late" if is_late else "ok", words=f"{words}.")


def _dead_man(heard: Beat | None, now: datetime) -> Part:
    name = "Dead man’s switch"
    if heard is None:
        return Part(name=name, standing="unknown", words="No ping acknowledged.")
    is_late = (now - heard.at).total_seconds() > LEAST_LATE_S * LATE_FACTOR
    words = "Pings stopped; last acknowledged ping" if is_late else "Active; last acknowledged ping"
    return Part(name=name, standing="late" if is_late else "ok", words=words, at=heard.at)


def _streams() -> Part:
    pages, agents = live_stream.app.open_streams, stream.app.open_streams
    words = f"{count_text(pages, 'browser')} with live pages, "
    words += f"{count_text(agents, 'agent')} with the desired state, this process."
    return Part(name="Streams", standing="ok", words=words)


def _database(now: datetime) -> Iterator[Part]:
    began = time.perf_counter()
    with connection.cursor() as cursor:
        is_sqlite = connection.vendor == "sqlite"
        cursor.execute(
            "SELECT sqlite_version(), strftime('%s', 'now')"
            if is_sqlite
            else "SELECT current_setting('server_version'), extract(epoch FROM clock_timestamp()), to_jsonb(one) "
            "FROM pg_database one WHERE datname = current_database()"
        )
        version, clock_s, *made = cursor.fetchone()
    took_s = time.perf_counter() - began
    name = "SQLite" if is_sqlite else "PostgreSQL"
    yield Part(name="Database", standing="ok", words=f"{name} {version}, response time {lasted_text(took_s)}.")
    if not is_sqlite:
        off_s = float(clock_s) - time.time()
        is_off = abs(off_s) > MOST_CLOCK_OFF_S
        side = "ahead of" if off_s > 0 else "behind"
        words = f"The database’s clock is {lasted_text(abs(off_s))} {side} the server’s clock."
        yield Part(name="Database clock", standing="late" if is_off else "ok", words=words)
        if words := collation_words(json.loads(made[0])):
            yield Part(name="Collation", standing="ok", words=words)
    yield Part(name="Clock", standing="ok", words=f"{now.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC.")


def collation_words(made: Mapping[str, object]) -> str:
    """What it costs that a database compares names by the rules of a language; empty where it compares their bytes.

    `made` is its row of `pg_database`, whose columns differ from version to version.
    """
    rules = {"b": "", "i": made.get("datlocale") or made.get("daticulocale")}
    language = rules.get(str(made.get("datlocprovider")), made.get("datcollate"))
    if language in ("C", "POSIX", "", None):
        return ""
    told = f"The collation is {language}, which slows down ingestion"
    return f"{told}; see docs/operate/postgresql.md."


def _versions() -> list[tuple[str, str]]:
    return [
        ("Recovery Ops", __version__),
        ("Python", platform.python_version()),
        ("Django", django.get_version()),
        ("Uptime", span_text(time.time() - _STARTED_S)),
        ("Dead man’s switch", "enabled" if settings.DEAD_MAN_URL else "disabled"),
        ("Worker and scheduler", "in this process" if settings.EMBEDDED else "separate processes"),
    ]


def _sentence(found: Sequence[Part]) -> str:
    late = [part.name for part in found if part.standing == "late"]
    unknown = [part.name for part in found if part.standing == "unknown"]
    if late:
        return f"Late: {', '.join(late)}."
    return f"No data: {', '.join(unknown)}." if unknown else "All parts are healthy."

"""What can be measured of the console: of this process from its memory, of the whole from what is stored."""

from __future__ import annotations

import os
import socket
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import itemgetter
from statistics import quantiles
from typing import Any, Literal

from django.conf import settings
from django.db.models import Count, Min, Q, Sum

from events.failures.asking import last_number
from events.ingest.commits import writer
from events.models import Agent, Fact
from events.moments import to_us
from events.queries.fleet import RETIRED
from recovery_ops.control.core.models.approval_requests import ApprovalRequest
from recovery_ops.control.core.models.heartbeats import Beat
from recovery_ops.control.core.models.revisions import Revision
from recovery_ops.control.dashboard import live_stream
from recovery_ops.control.desired_state import stream
from recovery_ops.control.notifications.models.notifications import Delivery
from recovery_ops.control.self_monitoring.scheduled_tasks import FAILED, LATE, beats_by_name, duties_of

LAG_FACTS = 200
_LOOKED_THROUGH = 10_000
"""More than are stored at once, but for single requests of more than that (`events.ingest.commits.GROUP_ROWS`)."""
_FOLLOWS = Q(heartbeat_us__isnull=False) | Q(applied_us__isnull=False) | Q(rejected_revision__isnull=False)
"""Whoever ever spoke of a desired state; a plain OpenTelemetry sender obeys nobody, and cannot be late."""
_OUTCOMES = ("stored", "repeated", "quarantined", "ignored")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One metric with its points: labels and a value. A counter only rises while the process lives."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    points: tuple[tuple[Mapping[str, str], float], ...]
    unit: str = "1"


@dataclass(frozen=True, slots=True)
class Metric:
    """What a metric is, and its labels."""

    help: str
    labels: tuple[str, ...] = ()
    kind: Literal["counter", "gauge"] = "gauge"
    unit: str = "1"


_TASK, _ENVIRONMENT = ("task",), ("environment",)
METRICS: dict[str, Metric] = {
    "facts_total": Metric("Received records, by outcome.", ("process", "outcome"), kind="counter"),
    "intake_queue_requests": Metric("Event requests waiting for the writer.", ("process",)),
    "open_streams": Metric("Open streams, of pages and of agents.", ("process", "kind")),
    "agents": Metric("Instances, by reporting state.", ("environment", "state")),
    "outbox_facts": Metric("Events in outboxes of reporting agents.", _ENVIRONMENT),
    "desired_revision": Metric("The newest revision of the desired state.", _ENVIRONMENT),
    "agents_behind": Metric("Reporting instances on an older revision.", _ENVIRONMENT),
    "desired_revision_lag": Metric("Delay of the slowest reporting instance, in revisions.", _ENVIRONMENT),
    "fact_lag_seconds": Metric("Ingest delay of events, p95 of the newest 200.", _ENVIRONMENT, unit="s"),
    "task_age_seconds": Metric("Time since the last run of a periodic task.", _TASK, unit="s"),
    "task_duration_seconds": Metric("Duration of the last run.", _TASK, unit="s"),
    "task_trouble": Metric("1 if a task is late or its last run failed.", _TASK),
    "scheduler_age_seconds": Metric("Time since the scheduler last queued a task.", unit="s"),
    "deliveries": Metric("Stored messages, by state.", ("state",)),
    "delivery_delay_seconds": Metric("Age of the oldest due message.", unit="s"),
    "requests_waiting": Metric("Pending approval requests.", _ENVIRONMENT),
}
"""Every metric of `/metrics`, without its prefix `recovery_ops_`; `docs/reference/metrics.md` lists them."""


def process_name() -> str:
    """What tells this process from the others: host and number."""
    return f"{socket.gethostname()}:{os.getpid()}"


def readings(now: datetime) -> list[Reading]:
    """Everything, in a handful of small queries and one for each environment."""
    return [*of_process(), *of_store(now)]


def of_process() -> Iterator[Reading]:
    """What only this process knows."""
    here = {"process": process_name()}
    counts = dict(writer.counts)
    outcomes = [({**here, "outcome": outcome}, float(counts.get(outcome, 0))) for outcome in _OUTCOMES]
    yield _reading("facts_total", outcomes)
    yield _reading("intake_queue_requests", [(here, writer.waiting)])
    streams = [("pages", live_stream.app.open_streams), ("agents", stream.app.open_streams)]
    points = [({**here, "kind": kind}, count) for kind, count in streams]
    yield _reading("open_streams", points)


def of_store(now: datetime) -> Iterator[Reading]:
    """What is the same whichever process is asked."""
    yield from _fleet(now)
    yield from _tasks(now)
    yield from _deliveries(now)
    waiting = ApprovalRequest.objects.filter(state=ApprovalRequest.WAITING, expires_at__gt=now).values_list(
        "environment"
    )
    counted = waiting.annotate(count=Count("pk")).order_by()
    yield _reading("requests_waiting", _by_environment(counted))


def lag_p95_s(environment: str) -> float | None:
    """How long the newest facts took to get here, in 95 % of cases; None for too few facts."""
    lags = [max(0, received - at) / 1e6 for at, received, _ in newest_facts(environment)]
    return quantiles(lags, n=20)[-1] if len(lags) > 1 else None


def newest_facts(environment: str) -> list[tuple[int, int, int | None]]:
    """Of the newest facts that came in: when they were, were received, and were stated if that is not when they were.

    Two queries. Only among the last facts of all environments: no index leads to the newest of one. Of a last request
    that is not wanted whole, some from all over it: what is stored together is numbered in the order of its time, so
    the last numbers are of facts that were not late.
    """
    last = Fact.objects.filter(pk__gt=last_number() - _LOOKED_THROUGH)
    read = last.values_list("environment", "received_us", "at_us", "stated_us")
    told = sorted((one[1:] for one in read if one[0] == environment), key=itemgetter(0, 1), reverse=True)
    if len(told) > LAG_FACTS:
        first = bisect_left(told, -told[LAG_FACTS][0], key=lambda one: -one[0])
        end = bisect_right(told, -told[LAG_FACTS][0], key=lambda one: -one[0])
        wanted = LAG_FACTS - first
        told = told[:first] + [told[first + number * (end - first) // wanted] for number in range(wanted)]
    return [(at, received, stated) for received, at, stated in told]


def _fleet(now: datetime) -> Iterator[Reading]:
    revisions = dict(Revision.objects.values_list("environment", "number"))
    reached_from = to_us(now - timedelta(seconds=settings.UNREACHABLE_AFTER_S))
    agents: Counter[tuple[str, str]] = Counter()
    behind: Counter[str] = Counter()
    lag: dict[str, int] = dict.fromkeys(revisions, 0)
    pending: Counter[str] = Counter()
    grouped = Agent.objects.annotate(is_follower=Q(_FOLLOWS)).values_list("environment", "revision", "is_follower")
    grouped = grouped.annotate(count=Count("pk"), pending=Sum("outbox_pending"))
    rows: Any = grouped.filter(last_seen_us__gte=reached_from).order_by()
    for environment, revision, is_follower, count, waiting in rows:
        agents[environment, "reporting"] += count
        pending[environment] += waiting or 0
        if is_follower and revision < revisions.get(environment, 0):
            behind[environment] += count
            lag[environment] = max(lag[environment], revisions[environment] - revision)
    silent = Agent.objects.filter(last_seen_us__lt=reached_from).exclude(RETIRED).values_list("environment")
    for environment, count in silent.annotate(count=Count("pk")).order_by():
        agents[environment, "silent"] += count
    environments = sorted({*revisions, *(environment for environment, _ in agents)})
    yield _reading(
        "agents",
        [({"environment": environment, "state": state}, count) for (environment, state), count in agents.items()],
    )
    yield _reading("outbox_facts", _by_environment(pending.items()))
    yield _reading("desired_revision", _by_environment(revisions.items()))
    yield _reading("agents_behind", _by_environment(behind.items()))
    yield _reading(
        "desired_revision_lag",
        _by_environment(lag.items()),
    )
    found = [(environment, lag_p95_s(environment)) for environment in environments]
    yield _reading(
        "fact_lag_seconds", _by_environment((environment, value) for environment, value in found if value is not None)
    )


def _tasks(now: datetime) -> Iterator[Reading]:
    beats = beats_by_name()
    duties = duties_of(beats, now)
    known = [(duty, duty.beat) for duty in duties if duty.beat is not None]
    yield _reading("task_age_seconds", [({"task": duty.name}, (now - beat.at).total_seconds()) for duty, beat in known])
    yield _reading(
        "task_duration_seconds", [({"task": duty.name}, beat.took_s) for duty, beat in known if beat.took_s is not None]
    )
    yield _reading(
        "task_trouble",
        [({"task": duty.name}, float(duty.standing in (LATE, FAILED))) for duty in duties],
    )
    if (scheduler := beats.get(Beat.SCHEDULER)) is not None:
        age_s = (now - scheduler.at).total_seconds()
        yield _reading("scheduler_age_seconds", [({}, age_s)])


def _deliveries(now: datetime) -> Iterator[Reading]:
    counted = dict(Delivery.objects.values_list("state").annotate(count=Count("pk")).order_by())
    yield _reading(
        "deliveries",
        [({"state": state}, counted.get(state, 0)) for state in Delivery.STATES],
    )
    oldest = Delivery.objects.filter(state__in=Delivery.UNFINISHED).aggregate(at=Min("not_before"))["at"]
    age_s = 0.0 if oldest is None else max(0.0, (now - oldest).total_seconds())
    yield _reading("delivery_delay_seconds", [({}, age_s)])


def _reading(name: str, points: Iterable[tuple[Mapping[str, str], float]]) -> Reading:
    one = METRICS[name]
    return Reading(name=f"recovery_ops_{name}", kind=one.kind, help=one.help, points=tuple(points), unit=one.unit)


def _by_environment(found: Iterable[tuple[str, float]]) -> list[tuple[Mapping[str, str], float]]:
    return [({"environment": environment}, value) for environment, value in found]

"""How long rows are kept: what is exactly as old as its time stays, what is older goes, and what goes on stays."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import models as columns

from events import models as stored
from events.deployments.models import ServiceVersion
from events.issues.models import FAILURE_MINUTES, FailureSum, InstanceFailureSum
from events.moments import to_us
from events.projections.sum_views import VIEWS
from events.runs.models import Run
from events.store.retention import KEEP_AGENTS, KEEP_BREAKERS, KEEP_QUARANTINE, KEEP_SUMS, USUAL, sweep_facts
from recovery_ops.control import models
from recovery_ops.control.notifications.models.mutes import NoticeSnooze
from recovery_ops.control.notifications.models.notifications import BurnAlert, Notification, SeenFailure
from recovery_ops.control.notifications.retention import KEPT_FOR, forget_old
from recovery_ops.control.self_monitoring.retention import KEEP_EXPORTS, sweep_exports, sweep_replays
from tests.support.isolated import rolled_back
from tests.support.rows import row
from tests.support.stories import NOW, Story, heartbeat

pytestmark = pytest.mark.django_db

JUST = timedelta(microseconds=1)
Sweep = Callable[[datetime], Any]
Case = tuple[str, Sweep, Any, dict[str, Any], dict[str, Any], dict[str, Any]]
"""A name, what sweeps, a table, what its rows have, and what the one that stays and the one that goes have."""


def moment(name: str, sweep: Sweep, model: Any, field: str, kept_for: timedelta, **said: Any) -> Case:
    """A table of which a row says its moment."""
    at = NOW - kept_for
    return name, sweep, model, said, {field: at}, {field: at - JUST}


def micros(model: Any, field: str, kept_for: timedelta, **said: Any) -> Case:
    """A table of which a row says its moment in microseconds."""
    at = to_us(NOW - kept_for)
    return f"{model.__name__} {field}", sweep_facts, model, said, {field: at}, {field: at - 1}


def span(model: Any, field: str, kept_for: timedelta, width: int, **said: Any) -> Case:
    """A table of sums over so many minutes."""
    first = to_us(NOW - kept_for) // 60_000_000 // width
    return f"{model.__name__} {width}", sweep_facts, model, said, {field: first}, {field: first - 1}


def of_agent(model: Any, kept_for: timedelta) -> Case:
    """A table of what is known of an instance, kept by when that was last seen."""
    at = to_us(NOW - kept_for)
    return model.__name__, sweep_facts, model, {}, {"agent": at}, {"agent": at - 1}


FAILURE: dict[str, Any] = {"environment": "dev", "kind": b"k"}
CASES: tuple[Case, ...] = (
    micros(stored.Quarantine, "received_us", KEEP_QUARANTINE, environment="dev"),
    micros(Run, "last_us", USUAL, environment="dev"),
    micros(ServiceVersion, "last_us", KEEP_AGENTS, environment="dev"),
    micros(stored.Agent, "last_seen_us", KEEP_AGENTS, environment="dev", service="other"),
    *(of_agent(model, KEEP_BREAKERS) for model in (stored.BreakerState, stored.SettingsInForce)),
    *(span(stored.InstanceMoves, "span", KEEP_SUMS, width, minutes=width) for width in stored.LANE_MINUTES),
    span(stored.MinuteSum, "minute", KEEP_SUMS, 1, environment="dev"),
    *(
        span(stored.SpanSum, "span", KEEP_SUMS, width, environment="dev", view=view, minutes=width)
        for view, widths in VIEWS.items()
        for width in widths
    ),
    *(
        span(model, "span", USUAL, width, **FAILURE, minutes=width)
        for model in (FailureSum, InstanceFailureSum)
        for width in FAILURE_MINUTES
    ),
    moment("burn alert", forget_old, BurnAlert, "ended_at", KEPT_FOR, environment="dev"),
    moment("seen failure", forget_old, SeenFailure, "last_at", KEPT_FOR, environment="dev"),
    moment("mute", forget_old, NoticeSnooze, "expires_at", KEPT_FOR, environment="dev"),
    moment("notification", forget_old, Notification, "found_at", KEPT_FOR, environment="dev", is_open=False),
    moment(
        "replay",
        sweep_replays,
        models.Replay,
        "finished_at",
        timedelta(days=settings.KEEP_REPLAYS_DAYS),
        environment="dev",
        state=models.Replay.DONE,
    ),
    moment(
        "export",
        sweep_exports,
        models.Export,
        "finished_at",
        timedelta(days=settings.KEEP_EXPORTS_DAYS),
        environment="dev",
        state=models.Export.DONE,
    ),
)
GOES_ON: tuple[tuple[str, Sweep, Any, dict[str, Any]], ...] = (
    ("burn alert", forget_old, BurnAlert, {"environment": "dev", "ended_at": None}),
    ("notification", forget_old, Notification, {"environment": "dev", "is_open": True}),
    ("replay", sweep_replays, models.Replay, {"environment": "dev", "state": models.Replay.RUNNING}),
    ("export", sweep_exports, models.Export, {"environment": "dev", "state": models.Export.RUNNING}),
)


@pytest.fixture(autouse=True)
def reporting() -> None:
    Story().tell(heartbeat(), at=5).store()


OWN: dict[str, Callable[[int], Any]] = {
    "number": int,
    **dict.fromkeys(
        ("operation", "instance", "fingerprint", "provider", "subject", "event", "run", "version", "breaker"), str
    ),
    "dimensions": lambda number: bytes([number]),
    "holder": lambda number: stored.Agent.objects.earliest("pk"),
    "agent": lambda number: stored.Agent.objects.earliest("pk"),
    "channel": lambda number: row(models.Channel, environment="dev", name=f"n-{number}", kind="webhook"),
}
"""What tells the rows of a table apart, or leads to another table."""


def made(model: type[columns.Model], number: int, **said: Any) -> Any:
    names = {one.name for one in model._meta.concrete_fields}
    given = {name: own(number) for name, own in OWN.items() if name in names} | said
    if isinstance(given.get("agent"), int):
        seen = {"environment": "dev", "service": "seen", "instance": f"i-{number}", "last_seen_us": given["agent"]}
        given["agent"] = row(stored.Agent, **seen)
    return row(model, **given)


def test_row_is_kept_exactly_for_its_time(subtests: pytest.Subtests) -> None:
    """With the rows of every other table, and of other widths, beside it."""
    rows = [
        (made(model, 2 * place + 1, **said | at), made(model, 2 * place + 2, **said | before))
        for place, (_, _, model, said, at, before) in enumerate(CASES)
    ]
    for sweep in {case[1] for case in CASES}:
        sweep(NOW)
    for case, (stays, goes) in zip(CASES, rows, strict=True):
        with subtests.test(case[0]):
            found = case[2]._default_manager.filter(pk__in=[stays.pk, goes.pk])
            assert list(found.values_list("pk", flat=True)) == [stays.pk]


def test_row_that_goes_on_is_kept(subtests: pytest.Subtests) -> None:
    for name, sweep, model, said in GOES_ON:
        with subtests.test(name), rolled_back():
            one = made(model, 1, **said)
            sweep(NOW + timedelta(days=3650))
            assert model._default_manager.filter(pk=one.pk).exists()


def test_newest_exports_of_each_environment_are_kept() -> None:
    for environment in ("dev", "test"):
        for number in range(KEEP_EXPORTS + 2):
            at = NOW - timedelta(seconds=number // 2)  # two have one moment
            row(models.Export, environment=environment, number=number, state=models.Export.DONE, finished_at=at)
    assert sweep_exports(NOW) == 4
    for environment in ("dev", "test"):
        kept = models.Export.objects.filter(environment=environment).values_list("number", flat=True)
        assert sorted(kept) == list(range(KEEP_EXPORTS))

"""The tables: nothing unbounded, nothing doubled, and the indexes that the hot statements count on."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import IntegrityError, connection, models

from events.models import Agent, AgentKey, BreakerState, Degradation, Fact, MinuteSum, Quarantine
from events.store import statements

UNBOUNDED = {
    *("Fact.attributes", "Agent.clamped", "Quarantine.content", "Quarantine.payload"),
    *("SettingsInForce.stated", "Agent.spending"),
    *("CapacityEvent.operations", "CapacityEvent.categories", "CapacityEvent.breakers", "CapacityEvent.waits"),
    *("CapacityEvent.codes", "CapacityEvent.services", "CapacityEvent.moves", "CapacityEvent.attributions"),
    "CapacityEvent.counted",
    *(
        "CapacityLook.hours",
        "CapacityLook.bounds",
        "RecoveryDay.causes",
        "RecoveryDay.costs",
        "NamedFailures.rules",
        "SpanMark.errors",
        "SpanMark.passed_on",
        "SpanMark.says",
        "HiddenTexts.section",
        *("Run.categories", "Run.fold", "Run.models_named"),
    ),
}
"""Bounded by whoever writes them: 64 KiB, one fact's share of that, 4 kB, 64 KiB; by the names there may be, the runs
that are followed, the errors of one span; the settings of one fact by its 64 KiB; categories, and the names and
instances that a run keeps."""


def test_no_table_counts_on_a_check_that_sqlite_is_told_to_skip() -> None:
    """Its connections run with `ignore_check_constraints`, for the price of parsing JSON twice."""
    checked = [model._meta.label for model in apps.get_models() for one in model._meta.constraints if _is_check(one)]
    unsigned = [str(field) for model in apps.get_models() for field in model._meta.fields if _has_check(field)]
    assert (checked, unsigned) == ([], [])


def _is_check(constraint: models.BaseConstraint) -> bool:
    return isinstance(constraint, models.CheckConstraint)


def _has_check(field: Any) -> bool:
    """Whether Django has the database check it, other than that JSON is JSON."""
    is_ours = field.model.__module__.startswith(("events", "recovery_ops"))
    return is_ours and not isinstance(field, models.JSONField) and field.db_check(connection) is not None


def test_every_text_has_a_bound() -> None:
    texts = (models.CharField, models.TextField, models.BinaryField, models.JSONField)
    found = {
        f"{model.__name__}.{field.name}"
        for model in apps.get_app_config("events").get_models()
        for field in model._meta.get_fields()
        if isinstance(field, texts) and getattr(field, "max_length", None) is None
    }
    assert found == UNBOUNDED


@pytest.mark.django_db
def test_the_migrations_make_what_the_models_say() -> None:
    call_command("makemigrations", "events", check=True, dry_run=True, verbosity=0)


def new_agent(instance: str = "a-1") -> Agent:
    return Agent.objects.create(environment="dev", service="s", instance=instance, first_seen_us=1, last_seen_us=1)


@pytest.mark.django_db
def test_a_uid_is_there_once_in_an_environment() -> None:
    agent = new_agent()
    Fact.objects.create(environment="dev", uid=bytes(16), agent=agent, event="log", at_us=1, received_us=1)
    Fact.objects.create(environment="prod", uid=bytes(16), agent=agent, event="log", at_us=1, received_us=1)
    with pytest.raises(IntegrityError):
        Fact.objects.create(environment="dev", uid=bytes(16), agent=agent, event="log", at_us=1, received_us=1)


@pytest.mark.django_db
def test_an_agent_is_there_once() -> None:
    new_agent()
    with pytest.raises(IntegrityError):
        new_agent()


PLANS: dict[str, tuple[str, list[Any]]] = {
    "fact_degradations": (statements.SELECT_MARKERS, [1, "o", 0, 2**63 - 1]),
    "degradation_by_agent": (statements.SELECT_INTERVAL_BEFORE, [1, "o", "k", b""]),
    "agent_once": (statements.READ_AGENTS.by_values(1), ["dev", "s", "i"]),
    "fact_by_event": (
        "SELECT id FROM events_fact WHERE environment = %s AND event = %s AND at_us < %s",
        ["dev", "log", 1],
    ),
    "fact_by_breaker": (
        "SELECT id FROM events_fact WHERE environment = %s AND breaker = %s AND event = %s ORDER BY at_us DESC LIMIT 1",
        ["dev", "b", "breaker_state_changed"],
    ),
}


@pytest.mark.django_db
@pytest.mark.parametrize("index", PLANS)
def test_sqlite_uses_the_index(index: str) -> None:
    statement, values = PLANS[index]
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {statement}", values)
        plan = " ".join(row[-1] for row in cursor.fetchall())
    names = {index, f"sqlite_autoindex_events_{index.partition('_')[0]}_1"}
    assert any(f"INDEX {name} " in plan for name in names), plan


def test_every_row_says_what_it_is() -> None:
    rows = [
        AgentKey(name="billing", prefix="ro_1", environment="dev"),
        Agent(service="s", instance="i"),
        Fact(event="log", operation=""),
        BreakerState(breaker="b"),
        Degradation(operation="o", kind="model", started_us=1),
        MinuteSum(operation="o", minute=1),
        Quarantine(reason="why"),
    ]
    said = [str(row) for row in rows]
    assert said == ["billing (ro_1…, dev)", "s/i", "log", "b: closed", "o: model since 1", "o at minute 1", "why"]

"""The generated history of the demonstration: what is stored of it, and that folds agree."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from events.capacity.models import CapacityEvent
from events.deployments.models import ServiceVersion
from events.keys import create_key
from events.models import BreakerState, Degradation, Fact
from events.moments import to_us
from events.runs.models import Run
from recovery_ops.control.core.audit_log import verify_chain
from recovery_ops.control.demonstration.history import generate_history
from recovery_ops.control.demonstration.models import Demonstration
from recovery_ops.control.demonstration.simulation import CALM_S
from recovery_ops.control.escalations.models import Escalation
from tests.support.folds import check

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
DEMO = "demo"


def test_history_fills_hour_before_start() -> None:
    create_key("fleet", ["ingest"], DEMO)
    stored = generate_history(DEMO, NOW)

    facts = Fact.objects.filter(environment=DEMO)
    assert facts.count() == stored > 5_000
    moments = sorted(facts.values_list("at_us", flat=True))
    assert moments[0] < to_us(NOW - timedelta(minutes=59))
    assert moments[-1] < to_us(NOW)
    assert Run.objects.filter(environment=DEMO, ended_us=None).count() == 0
    assert CapacityEvent.objects.filter(environment=DEMO, merged_into=None).count() >= 2
    assert ServiceVersion.objects.filter(environment=DEMO).count() == 4
    check()

    asked = Escalation.objects.filter(environment=DEMO)
    assert asked.count() >= 3
    assert not [one for one in asked if one.is_open]
    assert all(one.opened_at < NOW for one in asked)
    assert verify_chain(DEMO).is_whole


def test_history_ends_in_calm() -> None:
    generate_history(DEMO, NOW)
    calm_us = to_us(NOW - timedelta(seconds=CALM_S))
    assert not Fact.objects.filter(environment=DEMO, category__gt="", at_us__gte=calm_us).exists()
    assert {one.state for one in BreakerState.objects.filter(environment=DEMO)} == {"closed"}
    assert not Degradation.objects.filter(environment=DEMO, ended_us=None).exists()


def test_environment_with_past_gets_no_history() -> None:
    generate_history(DEMO, NOW)
    count = Fact.objects.count()
    assert generate_history(DEMO, NOW + timedelta(hours=2)) == 0
    Demonstration.objects.all().delete()
    assert generate_history(DEMO, NOW + timedelta(hours=2)) == 0
    assert Fact.objects.count() == count

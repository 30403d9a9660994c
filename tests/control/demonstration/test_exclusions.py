"""Alerts, notifications and reports leave out the generated history, and nothing of what agents report after it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from events.capacity.models import CapacityEvent
from events.recoveries.models import RecoveryDay
from events.recoveries.summing import sum_days
from events.store.removal import delete_rows
from recovery_ops.control.demonstration.history import generate_history
from recovery_ops.control.demonstration.models import Demonstration
from recovery_ops.control.demonstration.selectors import generated_until
from recovery_ops.control.escalations.models import Escalation, EscalationSource
from recovery_ops.control.escalations.selectors.answer_times import answering
from recovery_ops.control.escalations.selectors.report import report_of
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.notifications.models.notifications import BurnAlert, Notification, RetryBudget
from recovery_ops.control.notifications.retry_budgets import watch
from recovery_ops.control.notifications.rules import tell
from recovery_ops.control.notifications.triggers import MONTHLY_REPORT, TRIGGERS
from recovery_ops.rules.enums import Category, RunStatus
from recovery_ops.rules.events import RunFinished, RunStarted
from tests.support.channels import channel, rule
from tests.support.stories import NOW, Story, failed

pytestmark = pytest.mark.django_db

PAST = NOW.replace(minute=20, second=0)
WEEK = datetime(2026, 11, 16, tzinfo=UTC)
DEMO = "dev"


@pytest.fixture
def past(settings: Any) -> datetime:
    """The history's end, some minutes before `NOW`."""
    settings.DEMO_ENVIRONMENT = DEMO
    generate_history(DEMO, PAST)
    return PAST


def report(now: datetime) -> tuple[int, int, int]:
    """Questions, failed attempts and calls given up of the week."""
    total = report_of(DEMO, start=WEEK, end=now, now=now).total
    return total.opened, total.failures, total.given_up


def test_history_is_in_no_alert_or_message(past: datetime) -> None:
    rule(channel(), *(set(TRIGGERS) - {MONTHLY_REPORT}), name="everything", failures=1, within_min=5)
    for after in (1, 20, 300):
        now = past + timedelta(seconds=after)
        assert (tell(DEMO, now), watch(DEMO, now)) == (0, 0)
    assert not Notification.objects.exists()
    assert not BurnAlert.objects.exists()
    assert not RetryBudget.objects.exists()


def test_history_is_in_no_report(past: datetime) -> None:
    now = past + timedelta(minutes=5)
    assert CapacityEvent.objects.exists()
    assert Escalation.objects.exists()
    assert report(now) == (0, 0, 0)
    assert answering(DEMO, start=generated_until(DEMO) or WEEK, end=now, now=now).opened == 0
    sum_days(DEMO, now, since=generated_until(DEMO))
    day = RecoveryDay.objects.get()
    assert (day.runs, day.failures, day.causes) == (0, 0, [])


def test_what_follows_history_is_reported(past: datetime) -> None:
    story = Story(DEMO)
    story.tell(RunStarted(name="answer"), at=100, run="run-1")
    story.tell(failed(Category.TIMEOUT), at=99, run="run-1")
    story.tell(RunFinished(status=RunStatus.FAILED, duration_s=4.0), at=90, run="run-1")
    story.store()
    now = NOW
    assert report(now) == (0, 1, 0)
    sum_days(DEMO, now, since=generated_until(DEMO))
    day = RecoveryDay.objects.get()
    assert (day.runs, day.lost, day.failures) == (1, 1, 1)


def test_removed_history_is_no_boundary(past: datetime) -> None:
    Demonstration.objects.update(removed_at=past)
    assert generated_until(DEMO) is None


def test_question_of_history_is_not_opened_later(past: datetime) -> None:
    count = Escalation.objects.count()
    delete_rows(EscalationSource.objects.all())
    assert open_escalations(DEMO, past + timedelta(minutes=1)) == 0
    assert Escalation.objects.count() == count

"""What the worker does: it looks, and what is due is ended, whoever looks how often."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from events.keys import create_key
from recovery_ops.celery import app
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.seed import hold, let_go
from recovery_ops.control.tasks import end_expired_overrides, keep_escalations
from recovery_ops.rules.events import Escalated
from tests.support.actions import person, trip
from tests.support.stories import NOW, Story

pytestmark = pytest.mark.django_db


def test_expired_overrides_end_in_every_environment() -> None:
    an_hour_ago = timezone.now() - timedelta(hours=1)
    for environment in ("dev", "prod"):
        trip(environment=environment, by=person(environment=environment), ahead=True, now=an_hour_ago, expires_in_s=60)
    lasting = trip(environment="test", by=person(environment="test"), ahead=True, now=None).object
    assert end_expired_overrides() == 2
    assert end_expired_overrides() == 0
    assert [current_revision(environment) for environment in ("dev", "prod", "test")] == [2, 2, 1]
    assert list(Override.objects.filter(ended_at=None)) == [lasting]


def test_the_scheduler_asks_for_it() -> None:
    app.loader.import_default_modules()
    [entry] = [one for one in settings.CELERY_BEAT_SCHEDULE.values() if one["task"] == end_expired_overrides.name]
    assert entry["schedule"] <= 2.0
    assert entry["task"] in app.tasks


def test_questions_are_opened_and_their_deadlines_kept_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [NOW]
    monkeypatch.setattr("recovery_ops.control.tasks.timezone.now", lambda: clock[0])
    for environment in ("dev", "prod"):
        create_key(name="agents", environment=environment, scopes=["ingest"])
        question = Escalated(operation="charge_card", queue="unclassified", reason="unknown")
        Story(environment).tell(question, at=10).store()
    assert keep_escalations() == 2
    assert keep_escalations() == 0
    clock[0] += timedelta(hours=1)
    assert keep_escalations() == 2
    assert set(Escalation.objects.values_list("default_done_at", flat=True)) == {clock[0]}


def test_a_past_that_is_being_made_up_has_a_clock_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [NOW]
    monkeypatch.setattr("recovery_ops.control.tasks.timezone.now", lambda: clock[0])
    for environment in ("dev", "prod"):
        create_key(name="agents", environment=environment, scopes=["ingest"])
        question = Escalated(operation="charge_card", queue="unclassified", reason="unknown")
        Story(environment).tell(question, at=10).store()
    hold("dev", NOW)
    assert keep_escalations() == 1
    let_go("dev")
    assert keep_escalations() == 1
    hold("dev", NOW)
    clock[0] += timedelta(hours=1)
    assert keep_escalations() == 2, "who was killed holds nobody up"

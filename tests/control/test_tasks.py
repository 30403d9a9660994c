"""What the worker does: it looks, and what is due is ended, whoever looks how often."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from recovery_ops.celery import app
from recovery_ops.control.desired import current_revision
from recovery_ops.control.models import Override
from recovery_ops.control.tasks import end_expired_overrides
from tests.control.cast import person, trip

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

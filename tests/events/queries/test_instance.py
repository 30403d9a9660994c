"""One instance from the inside: what it told last."""

from __future__ import annotations

import pytest

from events.models import Agent
from events.moments import from_us
from events.queries.instance import last_events_of
from recovery_ops.rules.enums import Category
from tests.support.stories import Story, ago, failed, heartbeat

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("engine")]

DAY_S = 86_400.0


def test_what_an_outbox_brought_after_days_is_what_an_instance_told_last() -> None:
    story = Story().tell(failed(Category.BUG), at=3_600).store()
    story.tell(failed(Category.TIMEOUT), at=3 * DAY_S, received=20).tell(heartbeat(), at=10).store()
    agent = Agent.objects.get()
    told = last_events_of(agent.id, last_seen=from_us(agent.last_seen_us))
    assert [(one.category, one.at) for one in told] == [
        (Category.TIMEOUT.value, ago(3 * DAY_S)),
        (Category.BUG.value, ago(3_600)),
    ]

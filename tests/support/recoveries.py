"""Operations with many recovered calls."""

from __future__ import annotations

from events.capacity.detection import look
from events.capacity.reach import read_reach
from events.recoveries.summing import sum_days
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.rules.enums import Category
from tests.support.pages import troubled_fleet
from tests.support.recovered_weeks import DAY_S, week
from tests.support.stories import NOW, Story, failed, heartbeat


def busy() -> None:
    """A week with runs of every kind, an outage, and a question that nobody has taken."""
    Story().tell(heartbeat(), at=20 * DAY_S).store()
    troubled_fleet()
    story = week(Story(), at=3600)
    week(story, at=9 * DAY_S)
    for number, at in enumerate(range(300, 0, -5)):
        failure = failed(Category.OVERLOADED, "model:large", provider="helios", model="large")
        story.tell(failure, at=at, instance=f"r-{number % 2}", run=f"r-{number % 3}")
    story.store()
    look("dev", NOW)
    read_reach("dev", NOW)
    sum_days("dev", NOW, most=50)
    open_escalations("dev", NOW)

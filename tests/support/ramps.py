"""Fleets whose breakers are reset in steps."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from events.models import Agent
from events.moments import to_us
from recovery_ops.control.breakers.services import resets as resets_services
from recovery_ops.control.desired_state import document as desired
from recovery_ops.rules.enums import State, Trigger
from tests.support.actions import SEARCH, asked
from tests.support.stories import NOW, Story, heartbeat, moved

FLEET = [f"r-{number}" for number in range(10)]


def opened_fleet(names: tuple[str, ...] = ("search_web",), fleet: list[str] = FLEET) -> None:
    """Everybody's breaker is open for a minute."""
    story = Story()
    for instance in fleet:
        story.tell(heartbeat(), at=90, instance=instance)
        story.tell(*(moved(State.OPEN, breaker=name) for name in names), at=60, instance=instance)
        story.tell(heartbeat(), at=1, instance=instance)
    story.store()


def reset(**changed: Any) -> Any:
    return resets_services.reset(**asked(scope=SEARCH) | changed)


def is_told(instance: str, revision: int) -> bool:
    document = desired.document("dev", service="research", instance=instance, now=NOW)
    return any(one["reset_at"] == revision for one in document["resets"])


def told(revision: int) -> list[str]:
    return [one for one in FLEET if is_told(one, revision)]


def later(seconds: float) -> float:
    return -seconds


def obey(instances: list[str], revision: int, *, after: float, name: str = "search_web", then: int = 40) -> None:
    """They close `after` so many seconds from now, and report again `then` seconds later."""
    story = Story()
    for instance in instances:
        story.tell(
            moved(State.CLOSED, before=State.OPEN, breaker=name, trigger=Trigger.OPERATOR_RESET),
            at=later(after),
            instance=instance,
        )
        story.tell(heartbeat(revision=revision), at=later(after), instance=instance)
    story.store()
    seen(after + then)


def seen(after: float) -> None:
    """Everybody lives at this moment."""
    Agent.objects.update(last_seen_us=to_us(NOW + timedelta(seconds=after)))


def reopen(instance: str, *, after: float, name: str = "search_web") -> None:
    Story().tell(moved(State.OPEN, breaker=name), at=later(after), instance=instance).store()

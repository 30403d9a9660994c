"""Outages of a provider, as agents report them."""

from __future__ import annotations

from typing import Any

from recovery_ops.rules.enums import Category
from tests.support.stories import Story, failed

HELIOS: dict[str, Any] = {"provider": "helios", "model": "large"}


def storm(story: Story, *, since: float, until: float, every: float = 5.0, **more: Any) -> Story:
    """Failures from two runs at two instances."""
    at, number = since, 0
    given: dict[str, Any] = {"category": Category.OVERLOADED, "operation": "model:large", **HELIOS} | more
    while at >= until:
        story.tell(
            failed(**given),
            at=at,
            instance=f"a-{number % 2}",
            run=f"run-{number % 3}",
            source="main_agent",
            is_foreground=True,
        )
        at, number = at - every, number + 1
    return story

"""Rules that are about some causes of failures, or about some providers, alone; and how they begin on other pages."""

from __future__ import annotations

from recovery_ops.rules.enums import State
from tests.support.stories import Story, counted, moved


def served() -> None:
    """`search_web` is of helios, `pay` of solo, by their calls."""
    story = Story()
    story.tell(moved(State.CLOSED, breaker="search_web"), moved(State.CLOSED, breaker="pay"), at=3000)
    story.tell(counted(50, provider="helios"), counted(50, "pay", provider="solo"), at=2900).store()

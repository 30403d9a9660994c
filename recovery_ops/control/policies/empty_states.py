"""Why a list of unclassified failures is empty, and the next step."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.urls import reverse

from events.pages.empties import Empty, Why, nobody_yet, none_in
from events.pages.window import Window
from events.queries.beginnings import first_sign_of_life

_LATELY = timedelta(minutes=5)
"""Agents that report now are agents that live now."""


def no_unknown_cause(environment: str, *, is_answered: bool, now: datetime) -> Empty:
    """Why no cause waits for a name: those that there were are answered, every failure had one, or nobody called."""
    if is_answered:
        text = (
            "All unknown failures of the last 7 days are dismissed, proposed, or matched by a rule of the live policy."
        )
        return Empty(why=Why.GOOD, title="No open failures", text=text)
    began = first_sign_of_life(environment)
    if began is None:
        return nobody_yet()
    # Over a week some hours of silence are no news: what counts is whether somebody reports now.
    window = Window(start=now - _LATELY, end=now, began=began)
    text = "All failures of the last 7 days have a category."
    return none_in(environment, window, now=now, title="No unknown failures", text=text, is_of_calls=False)


def not_unknown_lately(fingerprint: str) -> Empty:
    """Why the page that names an unknown cause has none: it is older, or not among the newest that are read."""
    return Empty(
        why=Why.NO_MATCH,
        title="No data",
        text="The newest failures of the last 7 days include no unknown one with this fingerprint.",
        href=f"{reverse('failure', args=[fingerprint])}?range=30d",
        button="Show issue",
    )

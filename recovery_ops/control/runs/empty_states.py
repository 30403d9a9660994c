"""Why a run has no steps, and the next step."""

from __future__ import annotations

from django.urls import reverse

from events.pages.empties import Empty, Why


def no_step() -> Empty:
    """Why a run that events name has no steps: they tell of its instance, or of an operation, and of no step."""
    return Empty(
        why=Why.NO_MATCH,
        title="No data",
        text="The events of this run contain no recovery step. They are listed with their instance.",
        href=reverse("agents"),
        button="Show agents",
    )

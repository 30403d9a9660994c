"""Why the log of messages is empty, and the next step."""

from __future__ import annotations

from django.urls import reverse

from events.pages.empties import Empty, Why
from events.wording import count_text


def no_message(total: int, href: str) -> Empty:
    """Why the log of messages shows nothing: `total` is how many there are in any state."""
    if total:
        title = f"0 of {count_text(total, 'message')}"
        return Empty(why=Why.NO_MATCH, title=title, text="No message is in this state.", href=href, button="Show all")
    return Empty(
        why=Why.NEVER,
        title="No messages",
        text="Create a channel and a rule, then test the channel.",
        href=reverse("notifications"),
        button="Show channels",
    )

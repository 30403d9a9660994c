"""Which kind of nothing an empty queue, audit log or log of messages is, and the one thing to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.urls import reverse

from events.empties import Clause, Empty, Why, nobody_yet, none_in, relaxed
from events.queries.beginnings import first_sign_of_life
from events.window import Window
from events.wording import clock_text, count_text, zone_word
from recovery_ops.control.models import AuditHead, Escalation

_LATELY = timedelta(minutes=5)
"""Agents that ask nothing now are agents that live now."""
_ASKS = "Agents ask when a policy refuses, a budget is spent, a quota is used up, or a failure is of no known kind."


def no_escalation(
    environment: str, tab: str, clauses: Sequence[Clause], counts: Mapping[str, int], *, now: datetime
) -> Empty:
    """Why a tab of the queue is empty: `counts` by tab, of all queues and severities. Four queries."""
    if clauses and counts[tab]:
        return relaxed(clauses, total=counts[tab], what="escalation")
    if tab == "mine" and counts["unacknowledged"]:
        text = f"{count_text(counts['unacknowledged'], 'escalation is', 'escalations are')} not taken by anybody."
        href = _queue_address("unacknowledged")
        return Empty(why=Why.NO_MATCH, title="Nothing is assigned to you", text=text, href=href, button="Look at them")
    if tab != "open" and counts["open"]:
        text = f"{count_text(counts['open'], 'escalation is', 'escalations are')} open in all."
        why = Why.GOOD if tab == "unacknowledged" else Why.NO_MATCH
        return Empty(why=why, title=_TITLES[tab], text=text, href=_queue_address("open"), button="Look at what is open")
    began = first_sign_of_life(environment)
    window = Window(start=now - _LATELY, end=now, began=began)
    text = f"{_last_words(environment, now)}{_ASKS}"
    return none_in(environment, window, now=now, title=_TITLES[tab], text=text, is_of_calls=False)


_TITLES = {
    "open": "Nobody is asked anything",
    "unacknowledged": "Everything is taken",
    "mine": "Nothing is assigned to you",
    "snoozed": "Nothing is snoozed",
    "resolved": "Nothing was resolved in the last 7 days",
}


def no_entry(environment: str, head: AuditHead | None, *, is_newest: bool, window: Window | None = None) -> Empty:
    """Why the audit log shows nothing: nobody did anything (in a range), it was asked for what is older, or entries
    are gone."""
    if head is None or not head.number:
        text = "Recording is on. Trips, resets and policy edits appear here with who, when and why."
        return Empty(why=Why.NEVER, title="Nobody has changed anything yet", text=text)
    if not is_newest:
        title = f"0 of {count_text(head.number, 'entry', 'entries')}"
        text = "None is older than the one that the address names."
        return Empty(why=Why.NO_MATCH, title=title, text=text, href=reverse("audit"), button="Newest entries")
    if window is not None:
        text = f"Recording was on all through it. There are {count_text(head.number, 'entry', 'entries')} in all."
        title = "Nobody changed anything in this range"
        return Empty(why=Why.GOOD, title=title, text=text, href=reverse("audit"), button="Newest entries")
    return Empty(
        why=Why.UNKNOWN,
        title=f"{count_text(head.number, 'entry was', 'entries were')} written, and none is there",
        text=f"They were deleted from the database of {environment}. That is not the same as no change.",
    )


def no_message(total: int, href: str) -> Empty:
    """Why the log of messages shows nothing: `total` is how many there are in any state."""
    if total:
        title = f"0 of {count_text(total, 'message')}"
        return Empty(why=Why.NO_MATCH, title=title, text="None is in this state.", href=href, button="Show all")
    return Empty(
        why=Why.NEVER,
        title="Nothing was sent yet",
        text="A channel and a rule say who is told what; a test shows that messages arrive.",
        href=reverse("notifications"),
        button="Channels and rules",
    )


def no_unknown_cause(environment: str, *, is_answered: bool, now: datetime) -> Empty:
    """Why no cause waits for a name: those that there were are answered, every failure had one, or nobody called."""
    if is_answered:
        text = "Every unknown cause of the last 7 days is dismissed, proposed, or named by a rule of the live policy."
        return Empty(why=Why.GOOD, title="Nothing waits", text=text)
    began = first_sign_of_life(environment)
    if began is None:
        return nobody_yet()
    # Over a week some hours of silence are no news: what counts is whether somebody reports now.
    window = Window(start=now - _LATELY, end=now, began=began)
    text = "No failure of the last 7 days was unknown."
    return none_in(environment, window, now=now, title="Every failure has a name", text=text, is_of_calls=False)


def _last_words(environment: str, now: datetime) -> str:
    last = Escalation.objects.filter(environment=environment).exclude(resolved_at=None).order_by("-resolved_at").first()
    if last is None or last.resolved_at is None:
        return ""
    return f"The last was {last}, {last.resolution} {clock_text(last.resolved_at, today=now)} {zone_word(now)}. "


def _queue_address(tab: str) -> str:
    return f"{reverse('escalations')}?{urlencode({'tab': tab})}"

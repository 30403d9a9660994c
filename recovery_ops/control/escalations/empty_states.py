"""Why a tab of the queue is empty, and the next step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.urls import reverse

from events.pages.empties import Clause, Empty, Why, none_in, relaxed
from events.pages.window import Window
from events.queries.beginnings import first_sign_of_life
from events.wording import clock_text, count_text, zone_word
from recovery_ops.control.escalations.models import Escalation

_LATELY = timedelta(minutes=5)
"""Agents that report now are agents that live now."""

_ASKS = "Agents escalate denied operations, spent budgets, exhausted quotas and unclassified failures."


def no_escalation(
    environment: str, tab: str, clauses: Sequence[Clause], counts: Mapping[str, int], *, now: datetime
) -> Empty:
    """Why a tab of the queue is empty: `counts` by tab, of all queues and severities. Four queries."""
    if clauses and counts[tab]:
        return relaxed(clauses, total=counts[tab], what="escalation")
    if tab == "mine" and counts["unacknowledged"]:
        text = f"{count_text(counts['unacknowledged'], 'escalation is', 'escalations are')} unacknowledged."
        href = _queue_address("unacknowledged")
        return Empty(why=Why.NO_MATCH, title="None assigned to you", text=text, href=href, button="Show unacknowledged")
    if tab != "open" and counts["open"]:
        text = f"{count_text(counts['open'], 'escalation is', 'escalations are')} open."
        why = Why.GOOD if tab == "unacknowledged" else Why.NO_MATCH
        return Empty(why=why, title=_TITLES[tab], text=text, href=_queue_address("open"), button="Show open")
    began = first_sign_of_life(environment)
    window = Window(start=now - _LATELY, end=now, began=began)
    text = f"{_last_words(environment, now)}{_ASKS}"
    return none_in(environment, window, now=now, title=_TITLES[tab], text=text, is_of_calls=False)


_TITLES = {
    "open": "No open escalations",
    "unacknowledged": "No unacknowledged escalations",
    "mine": "None assigned to you",
    "snoozed": "No snoozed escalations",
    "resolved": "No resolved escalations in the last 7 days",
}


def _last_words(environment: str, now: datetime) -> str:
    last = Escalation.objects.filter(environment=environment).exclude(resolved_at=None).order_by("-resolved_at").first()
    if last is None or last.resolved_at is None:
        return ""
    return f"Last escalation: {last}, {last.resolution} {clock_text(last.resolved_at, today=now)} {zone_word(now)}. "


def _queue_address(tab: str) -> str:
    return f"{reverse('escalations')}?{urlencode({'tab': tab})}"

"""Where the page of a question leads: the failures that it is about."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.urls import reverse

from events.pages.window import LONGEST, instant_words
from events.rows import FailureRow
from recovery_ops.control.escalations.models import Escalation

_BEFORE = timedelta(hours=6)


def fingerprint_about(one: Escalation, failures: Sequence[FailureRow]) -> str:
    """The cause that a person named; else the fingerprint of the newest failure of its category, of its runs first."""
    if one.fingerprint:
        return one.fingerprint
    alike = [row for row in failures if row.category == one.category] if one.category else []
    own = [row for row in alike if row.run in one.runs] or alike
    return own[0].fingerprint if own else ""


def cause_href(one: Escalation, fingerprint: str, now: datetime) -> str:
    """The page of its cause, from some hours before it was asked to its end, or now; empty where none is known.

    What a person asked about may have failed long before: as far back as a page can look. Where it was merged into
    another, the page shows that one.
    """
    if not fingerprint:
        return ""
    last = one.resolved_at or now
    start = last - LONGEST if one.fingerprint else one.opened_at - _BEFORE
    end = min(last, start + LONGEST)
    span = urlencode({"from": instant_words(start), "to": instant_words(end)}, safe=":")
    return f"{reverse('failure', args=[fingerprint])}?{span}"

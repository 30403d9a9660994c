"""Headlines of the overview and the wallboard."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from events.queries.overview_rows import OverviewNumbers
from events.wording import count_text, span_text
from recovery_ops.control.escalations.selectors.queue import EscalationRow, next_due


def calm_headline(numbers: OverviewNumbers) -> str:
    """The empty state of the list of problems."""
    breakers = f"{count_text(numbers.breakers, 'breaker')}, none blocking calls"
    if dark := numbers.breakers_dark:
        breakers = f"{count_text(numbers.breakers, 'breaker')}, none blocking calls, {dark:,} unknown"
    agents = f"{numbers.agents_reporting} of {count_text(numbers.agents, 'agent')} reporting"
    return f"{breakers}. No capacity errors. {agents}."


def escalations_headline(rows: Sequence[EscalationRow], now: datetime) -> str:
    """` 2 open escalations, next deadline in 4m 47s.`; empty where there is none."""
    if not rows:
        return ""
    late, first = sum(row.is_breached for row in rows), next_due(rows)
    if late:
        when = f"{late:,} overdue"
    elif first is None:
        when = "no deadline"
    else:
        when = f"next deadline in {span_text(int((first.due - now).total_seconds()))}"
    return f" {count_text(len(rows), 'open escalation')}, {when}."

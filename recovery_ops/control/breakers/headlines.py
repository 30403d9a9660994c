"""Headlines of breakers, computed from the rows of their pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from events.rows import BreakerRow
from events.wording import category_text, count_text, evidence_text, rate_text, share_text, state_text
from recovery_ops.control.core.wording import all_of, join_clauses, verb_form
from recovery_ops.rules.desired_state import Override
from recovery_ops.rules.enums import OVERRIDES, State
from recovery_ops.rules.fleet.breaker_trouble import FAILING_SHARE, Trouble

_MOST_NAMED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Number of breakers, of those that reject calls (`blocking`), and of those without a reporting instance."""

    total: int
    blocking: int
    dark: int
    troubled: int
    """Breakers that block no calls and whose calls fail or are rejected."""


def flow_of(rows: Sequence[BreakerRow]) -> Flow:
    """Counts behind `breakers_headline`."""
    blocking = sum(not row.is_flowing for row in rows)
    troubled = sum(row.trouble is not None for row in rows)
    return Flow(total=len(rows), blocking=blocking, dark=sum(row.worst is None for row in rows), troubled=troubled)


def breakers_headline(rows: Sequence[BreakerRow], last_report: str = "") -> str:
    """Number of breakers that reject calls, and the worst of them by name; `last_report` is a time in words."""
    blocking, dark = [row for row in rows if not row.is_flowing], flow_of(rows).dark
    held = [row for row in rows if row.is_flowing and any(row.counts.get(state) for state in OVERRIDES)]
    if not blocking and not held and not dark:
        closed = f"{all_of(len(rows), 'breaker', 'is closed', 'are closed')}." if rows else ""
        return " ".join(filter(None, [closed, *_troubled(rows)]))
    if dark == len(rows):
        since = f"no agent has reported since {last_report}" if last_report else "no instance is reporting"
        return f"{count_text(dark, 'breaker')} unknown: {since}. The list shows the last reported states."
    head = f"{len(blocking)} of {count_text(len(rows), 'breaker')} open or half-open."
    overridden = [
        f"{row.name} is {state_text(row.worst)} by an override" for row in held[:_MOST_NAMED] if row.worst in OVERRIDES
    ]
    unknown = f"{dark:,} unknown: no instance is reporting." if dark else ""
    said = [head, *_blocking(blocking), *([join_clauses(overridden)] if overridden else []), *_troubled(rows), unknown]
    return " ".join(filter(None, said))


def breaker_headline(row: BreakerRow, override: Override | None, by: str = "") -> str:
    """State of one breaker, its source, and its effect on calls."""
    worst = row.worst
    if worst is None:
        return "State unknown: no instance is reporting. The table shows the last reported states."
    number = row.counts.get(worst, 0)
    where = f"{number} of {row.instances} {'instance' if row.instances == 1 else 'instances'}"
    if worst is State.FORCED_OPEN:
        who = by if override is not None and by else "an override"
        return f"Forced open by {who}: {where} {verb_form(number, 'rejects', 'reject')} calls."
    if worst is State.OPEN:
        reject = verb_form(number, "rejects", "reject")
        return f"Open{_evidence(row)}. {where} {reject} calls until a probe succeeds."
    if worst is State.HALF_OPEN:
        return f"Half-open: {where} {verb_form(number, 'allows', 'allow')} probe calls."
    if worst is State.DISABLED:
        return f"Disabled by {by or 'an override'}: {where} {verb_form(number, 'allows', 'allow')} every call."
    if worst is State.METRICS_ONLY:
        return f"Metrics only, by {by or 'an override'}: {where} {verb_form(number, 'allows', 'allow')} every call."
    unknown = f" {row.unknown} not reporting." if row.unknown else ""
    return f"Closed on {where}{_trouble_words(row)}.{unknown}"


def _troubled(rows: Sequence[BreakerRow]) -> list[str]:
    """The breakers that block no calls and whose calls fail or are rejected."""
    troubled = [row for row in rows if row.trouble is not None]
    said = [f"{row.name} is {state_text(row.worst)} and {row.trouble}" for row in troubled[:_MOST_NAMED]]
    rest = len(troubled) - len(said)
    if rest > 0:
        said.append(f"{rest:,} more {verb_form(rest, 'fails', 'fail')} or {verb_form(rest, 'rejects', 'reject')} calls")
    return [join_clauses(said)] if said else []


def trouble_detail(row: BreakerRow) -> str:
    """The figure behind the word: the share of failed attempts, or the rejected calls of all per minute."""
    if row.trouble is Trouble.REJECTING:
        return f"{rate_text(row.rejected_per_min)} of {rate_text(row.calls_per_min)} calls/min rejected"
    quarter = row.quarter
    if row.failure_rate is not None and row.failure_rate >= FAILING_SHARE:
        return f"{share_text(row.failure_rate)} of attempts failed, last 2 min"
    if quarter is None or not quarter.attempts:
        return ""
    share = share_text(min(1.0, sum(quarter.failures.values()) / quarter.attempts))
    return f"{share} of {quarter.attempts:,} attempts failed, last 15 min"


def _trouble_words(row: BreakerRow) -> str:
    return f" and {row.trouble}: {trouble_detail(row)}" if row.trouble is not None else ""


def _blocking(rows: Sequence[BreakerRow]) -> list[str]:
    said = []
    for row in rows[:_MOST_NAMED]:
        number = row.counts.get(row.worst, 0) if row.worst else 0
        said.append(f"{row.name} is {state_text(row.worst)} on {number} of {row.instances}")
    rest = len(rows) - len(said)
    if rest > 0:
        said.append(f"{rest:,} more {verb_form(rest, 'is', 'are')} open or half-open")
    return [join_clauses(said)] if said else []


def _evidence(row: BreakerRow) -> str:
    if row.failure_rate is None:
        return ""
    last = f", last {category_text(row.last_category)}" if row.last_category else ""
    return f": {evidence_text(row.failure_rate, row.threshold)}{last}"

"""The sentence each page opens with: what is going on, in words, computed from the same rows as the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from events.overview_rows import OverviewNumbers
from events.rows import AgentRow, BreakerRow
from events.wording import category_text, count_text, evidence_text, span_text
from recovery_ops.control.applying import Applying
from recovery_ops.control.desired import LivePolicy
from recovery_ops.control.escalations.asking import EscalationRow, next_due
from recovery_ops.rules.intent import Override
from recovery_ops.rules.policy import OperationPolicy
from recovery_ops.rules.words import OVERRIDES, State

_HELD = {
    State.FORCED_OPEN: "held open",
    State.DISABLED: "disabled",
    State.METRICS_ONLY: "only observed",
}
_MOST_NAMED = 2


def calm(numbers: OverviewNumbers) -> str:
    """What stands in the list of what needs a person when nothing does."""
    flow = _all(numbers.breakers, "breaker", "flows", "flow")
    if dark := numbers.breakers_dark:
        known = numbers.breakers - dark
        flow = (
            f"{known:,} of {numbers.breakers:,} breakers {_verb(known, 'flows', 'flow')}, of {dark:,} it is not known"
        )
    return f"{flow}, no capacity errors, {numbers.agents_reporting} of {count_text(numbers.agents, 'agent')} reporting."


def asked(rows: Sequence[EscalationRow], now: datetime) -> str:
    """` 2 questions wait for a person, the next deadline is in 4m 47s.`; empty where nobody is asked anything."""
    if not rows:
        return ""
    late, first = sum(row.is_breached for row in rows), next_due(rows)
    if late:
        when = f"{count_text(late, 'deadline has', 'deadlines have')} passed"
    elif first is None:
        when = "and no deadline runs"
    else:
        when = f"the next deadline is in {span_text(int((first.due - now).total_seconds()))}"
    return f" {count_text(len(rows), 'question waits', 'questions wait')} for a person, {when}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """How many breakers there are, how many of them do not flow, and of how many nobody knows."""

    total: int
    blocking: int
    dark: int


def flow_of(rows: Sequence[BreakerRow]) -> Flow:
    """The counts that `breakers` says in words."""
    blocking = sum(not row.is_flowing for row in rows)
    return Flow(total=len(rows), blocking=blocking, dark=sum(row.worst is None for row in rows))


def breakers(rows: Sequence[BreakerRow]) -> str:
    """How many do not flow, and why the worst ones do not."""
    blocking, dark = [row for row in rows if not row.is_flowing], flow_of(rows).dark
    held = [row for row in rows if row.is_flowing and any(row.counts.get(state) for state in OVERRIDES)]
    if not blocking and not held and not dark:
        return f"{_all(len(rows), 'breaker', 'flows', 'flow')}." if rows else ""
    if dark == len(rows):
        they = "the one breaker does" if dark == 1 else f"the {dark:,} breakers do"
        return f"What {they} is not known: nobody that has {_verb(dark, 'it', 'them')} reports."
    head = f"{len(blocking)} of {len(rows)} {'is' if len(blocking) == 1 else 'are'} not flowing."
    overridden = [f"{row.name} is {_HELD[row.worst]} by a person" for row in held[:_MOST_NAMED] if row.worst in _HELD]
    unknown = f"Of {dark} it is not known: nobody that has {_verb(dark, 'it', 'them')} reports." if dark else ""
    said = [head, *_blocking(blocking), *([_sentence(overridden)] if overridden else []), unknown]
    return " ".join(filter(None, said))


def breaker(row: BreakerRow, override: Override | None, by: str = "") -> str:
    """One breaker: who or what put it there and what it does to calls."""
    worst = row.worst
    if worst is None:
        return "None of its instances can be asked: they stopped reporting. What was last heard stands in the table."
    number = row.counts.get(worst, 0)
    where = f"{number} of {row.instances} {'instance' if row.instances == 1 else 'instances'}"
    if worst is State.FORCED_OPEN:
        who = f"Tripped by {by}." if override is not None and by else "Tripped by a person."
        return f"{who} {where} {_verb(number, 'refuses', 'refuse')} calls."
    if worst is State.OPEN:
        refuse = _verb(number, "refuses", "refuse")
        return f"Opened by rule{_evidence(row)}. {where} {refuse} calls until a probe succeeds."
    if worst is State.HALF_OPEN:
        return f"Probing: {where} {_verb(number, 'lets', 'let')} single calls through to see whether it recovered."
    if worst is State.DISABLED:
        return f"Disabled by {by or 'a person'}: {where} let every call through, whatever fails."
    if worst is State.METRICS_ONLY:
        return f"Only observed, by {by or 'a person'}: {where} count and block nothing."
    unknown = f" {row.unknown} cannot be asked." if row.unknown else ""
    return f"Flowing on {where}.{unknown}"


def agents(rows: Iterable[AgentRow], revision: int, drifted: int = 0) -> str:
    """How many report and how many obey the desired revision."""
    rows = list(rows)
    reporting = [row for row in rows if row.is_reachable]
    followers = [row for row in reporting if row.is_follower]
    on_revision = sum(row.revision == revision for row in followers)
    head = f"{len(reporting)} of {count_text(len(rows), 'instance')} {_verb(len(reporting), 'reports', 'report')}."
    tail = f"{on_revision} of them {_verb(on_revision, 'is', 'are')} on revision {revision}." if followers else ""
    ahead = ahead_of(reporting, revision)
    other = drifted - ahead
    drift = f"{other} {_verb(other, 'obeys', 'obey')} something else under the same number." if other > 0 else ""
    later = f"{ahead} {_verb(ahead, 'obeys', 'obey')} a later revision than there is here." if ahead else ""
    versions = Counter(row.version for row in reporting if row.version)
    spread = f"{len(versions)} versions run." if len(versions) > 1 else ""
    return " ".join(part for part in (head, tail, drift, later, spread) if part)


def ahead_of(rows: Iterable[AgentRow], revision: int) -> int:
    """How many that report obey a later revision than there is."""
    return sum(row.is_reachable and row.revision > revision for row in rows)


def policies(live: LivePolicy, applying: Applying, *, ruled: int, of: int) -> str:
    """Which policy is live, how far it has come, and how many operations it speaks of."""
    head = (
        f"Policy {live.version} is live." if live.release is not None else "Nobody has edited the built-in policy yet."
    )
    spread = f"{applying.plain[:1].upper()}{applying.plain[1:]}." if live.release is not None and applying.total else ""
    rules = f"{ruled} of {count_text(of, 'operation')} {_verb(ruled, 'has', 'have')} rules of its own." if of else ""
    return " ".join(
        part for part in (head, spread, rules.replace("its own", "their own") if ruled != 1 else rules) if part
    )


def policy(found: OperationPolicy) -> str:
    """How one operation is retried."""
    knobs = found.knobs
    retries = count_text(found.max_retries(is_foreground=True), "retry", "retries")
    background = count_text(found.max_retries(is_foreground=False), "retry", "retries")
    delay = f"{knobs.base_delay_s:g} s" if knobs.base_delay_s is not None else "no wait"
    capacity = "are retried" if knobs.retry_capacity_errors else "are not retried"
    return (
        f"{retries} in foreground, {background} in background, {delay} before the first; "
        f"capacity errors {capacity} in foreground and never in background."
    )


def _blocking(rows: Sequence[BreakerRow]) -> list[str]:
    said = []
    for row in rows[:_MOST_NAMED]:
        number = row.counts.get(row.worst, 0) if row.worst else 0
        word = "held open by an override" if row.worst is State.FORCED_OPEN else str(row.worst)
        said.append(f"{row.name} is {word} on {number} of {row.instances}")
    rest = len(rows) - len(said)
    if rest > 0:
        said.append(f"{count_text(rest, 'more breaker')} {_verb(rest, 'does', 'do')} not flow")
    return [_sentence(said)] if said else []


def _evidence(row: BreakerRow) -> str:
    if row.failure_rate is None:
        return ""
    last = f", last {category_text(row.last_category)}" if row.last_category else ""
    return f": {evidence_text(row.failure_rate, row.threshold)}{last}"


def _all(number: int, noun: str, singular: str, many: str) -> str:
    return f"The one {noun} {singular}" if number == 1 else f"All {number:,} {noun}s {many}"


def _verb(number: int, singular: str, many: str) -> str:
    return singular if number == 1 else many


def _sentence(clauses: Sequence[str]) -> str:
    return "; ".join(clauses) + "."

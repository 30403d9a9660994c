"""The sentence each page opens with: what is going on, in words, computed from the same rows as the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from events.queries.rows import AgentRow, BreakerRow, CapacityNow, OverviewNumbers
from recovery_ops.control.templatetags.console import count, percent, plural
from recovery_ops.rules.intent import Override
from recovery_ops.rules.words import OVERRIDES, State

_HELD = {
    State.FORCED_OPEN: "held open",
    State.DISABLED: "disabled",
    State.METRICS_ONLY: "only observed",
}
_MOST_NAMED = 2


def overview(numbers: OverviewNumbers) -> str:
    """Who fails, what carries, who holds what, who is silent; or that nothing needs anybody."""
    said = [*_capacity(numbers.capacity), *_blocking(numbers.breakers_blocking), *_second_best(numbers)]
    if numbers.silent:
        silent = len(numbers.silent)
        said.append(f"{plural(silent, 'agent')} stopped reporting, so {_its(silent)} is not known.")
    if said:
        return " ".join(said)
    if not numbers.agents_reporting:
        return "No agent reports right now. This is not the same as all good: nothing is being measured."
    flowing = _all(numbers.breakers, "breaker", "flows", "flow")
    reporting = _all(numbers.agents_reporting, "agent", "reports", "report").lower()
    return f"Nothing needs you. {flowing} and {reporting}; {count(numbers.calls_per_min)} calls per minute."


def calm(numbers: OverviewNumbers) -> str:
    """What stands in the list of what needs a person when nothing does."""
    return (
        f"{_all(numbers.breakers, 'breaker', 'flows', 'flow')}, no capacity errors, "
        f"{numbers.agents_reporting} of {plural(numbers.agents, 'agent')} reporting."
    )


def breakers(rows: Sequence[BreakerRow]) -> str:
    """How many do not flow, and why the worst ones do not."""
    blocking = [row for row in rows if not row.is_flowing]
    held = [row for row in rows if row.is_flowing and any(row.counts.get(state) for state in OVERRIDES)]
    if not blocking and not held:
        return f"{_all(len(rows), 'breaker', 'flows', 'flow')}." if rows else ""
    head = f"{len(blocking)} of {len(rows)} {'is' if len(blocking) == 1 else 'are'} not flowing."
    overridden = [f"{row.name} is {_HELD[row.worst]} by a person" for row in held[:_MOST_NAMED] if row.worst in _HELD]
    return " ".join([head, *_blocking(blocking), *([_sentence(overridden)] if overridden else [])])


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
    on_revision = sum(row.revision == revision for row in reporting)
    head = f"{len(reporting)} of {plural(len(rows), 'instance')} {_verb(len(reporting), 'reports', 'report')}."
    tail = f"{on_revision} of them {_verb(on_revision, 'is', 'are')} on revision {revision}." if reporting else ""
    drift = f"{drifted} {_verb(drifted, 'obeys', 'obey')} something else under the same number." if drifted else ""
    versions = Counter(row.version for row in reporting if row.version)
    spread = f"{len(versions)} versions run." if len(versions) > 1 else ""
    return " ".join(part for part in (head, tail, drift, spread) if part)


def _capacity(capacity: Sequence[CapacityNow]) -> list[str]:
    if not capacity:
        return []
    worst = capacity[0]
    code = 529 if worst.overloaded_per_min >= worst.rate_limited_per_min else 429
    more = f", and {plural(len(capacity) - 1, 'other')} with it" if len(capacity) > 1 else ""
    return [f"{worst.name} has been answering {code} since {worst.since:%H:%M:%S}{more}."]


def _blocking(rows: Sequence[BreakerRow]) -> list[str]:
    said = []
    for row in rows[:_MOST_NAMED]:
        number = row.counts.get(row.worst, 0) if row.worst else 0
        word = "held open by a person" if row.worst is State.FORCED_OPEN else str(row.worst)
        said.append(f"{row.name} is {word} on {number} of {row.instances}")
    rest = len(rows) - len(said)
    if rest > 0:
        said.append(f"{plural(rest, 'more breaker')} {_verb(rest, 'does', 'do')} not flow")
    return [_sentence(said)] if said else []


def _second_best(numbers: OverviewNumbers) -> list[str]:
    operations = sorted({row.operation for row in numbers.degraded if row.operation})
    if not operations:
        return []
    named = ", ".join(operations[:_MOST_NAMED])
    more = f" and {len(operations) - _MOST_NAMED} more" if len(operations) > _MOST_NAMED else ""
    return [f"{named}{more} {_verb(len(operations), 'is', 'are')} answered by second best."]


def _evidence(row: BreakerRow) -> str:
    if row.failure_rate is None:
        return ""
    limit = f", limit {percent(row.threshold)}" if row.threshold else ""
    last = f", last {row.last_category}" if row.last_category else ""
    return f": {percent(row.failure_rate)} of calls failed{limit}{last}"


def _all(number: int, noun: str, singular: str, many: str) -> str:
    return f"The one {noun} {singular}" if number == 1 else f"All {count(number)} {noun}s {many}"


def _its(number: int) -> str:
    return "its state" if number == 1 else "their state"


def _verb(number: int, singular: str, many: str) -> str:
    return singular if number == 1 else many


def _sentence(clauses: Sequence[str]) -> str:
    return "; ".join(clauses) + "."

"""What the page of a breaker says of the quorum rule: how far it is from a trip, or whom a trip of it lets out."""

from __future__ import annotations

from events.rows import BreakerRow
from events.wording import count_text, share_text, span_text
from recovery_ops.control.desired_state.status import Standing
from recovery_ops.rules.desired_state import Override
from recovery_ops.rules.enums import State
from recovery_ops.rules.fleet.breaker_quorum import RELEASE_PART, needed_of, rule_for


def quorum_words(row: BreakerRow, standing: Standing, override: Override | None) -> str:
    """`1 of 40 open; quorum at 20 of 40 (50 %, at least 5) …`; empty where no rule of the policy speaks of it."""
    spared = standing.snapshot.spared.get(override.id) if override is not None else None
    rule = rule_for(standing.policy.quorum, row.name, row.operations)
    opened = sum(row.counts.get(state, 0) for state in (State.OPEN, State.HALF_OPEN))
    reporting = sum(row.counts.values())
    if spared is not None and spared.instances:
        go_on = f"Excludes {count_text(len(spared.instances), 'instance')} that opened the breaker"
        if rule is None:
            return f"{go_on}. The policy has no quorum rule any more."
        least = needed_of(rule, reporting) * RELEASE_PART
        return f"{go_on}. {opened} of {reporting} are open; below {least:g} the override is cleared."
    if rule is None:
        return ""
    return (
        f"{opened} of {reporting} open; trips all at {needed_of(rule, reporting)} of {reporting} "
        f"({share_text(rule.share)}, at least {rule.minimum_count}) for {span_text(rule.hold_s)}."
    )

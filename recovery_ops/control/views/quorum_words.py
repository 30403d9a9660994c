"""What the page of a breaker says of the quorum rule: how far it is from a trip, or whom a trip of it lets out."""

from __future__ import annotations

from events.rows import BreakerRow
from events.wording import count_text, share_text, span_text
from recovery_ops.control.desired_standing import Standing
from recovery_ops.rules.intent import Override
from recovery_ops.rules.quorum import RELEASE_PART, needed_of, rule_for
from recovery_ops.rules.words import State


def quorum_words(row: BreakerRow, standing: Standing, override: Override | None) -> str:
    """`1 of 40 open; quorum at 20 of 40 (50 %, at least 5) …`; empty where no rule of the policy speaks of it."""
    spared = standing.snapshot.spared.get(override.id) if override is not None else None
    rule = rule_for(standing.policy.quorum, row.name, row.operations)
    opened = sum(row.counts.get(state, 0) for state in (State.OPEN, State.HALF_OPEN))
    reporting = sum(row.counts.values())
    if spared is not None and spared.instances:
        go_on = f"The {count_text(len(spared.instances), 'instance')} that opened it go on by their own rules"
        if rule is None:
            return f"{go_on}; no rule of the policy speaks of it any more."
        least = needed_of(rule, reporting) * RELEASE_PART
        return f"{go_on}: {opened} of {reporting} have it open still, and below {least:g} the trip is released."
    if rule is None:
        return ""
    return (
        f"{opened} of {reporting} open; quorum at {needed_of(rule, reporting)} of {reporting} "
        f"({share_text(rule.share)}, at least {rule.minimum_count}) for {span_text(rule.hold_s)}: then the rest is "
        "tripped."
    )

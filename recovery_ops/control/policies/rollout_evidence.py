"""What the gate of a rollout is shown: the cohort under the new policy, and the others, or the cohort as it was before.

The others are the remaining instances of the same services. Where there are none, the cohort is compared with itself
before the rollout began.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from events.queries import fleet
from events.queries.counted import counted
from events.rows import AgentRow
from recovery_ops.control.policies.models.rollouts import PolicyRollout
from recovery_ops.rules.fleet.health_gate import MEASURES, Counts, Opinion, Side, judge

LONGEST_LOOK = timedelta(minutes=30)
"""Of a long rollout only the newest part is compared: what went wrong hours ago has been judged then."""
COHORT, OTHERS, BEFORE = "the canary", "other instances", "the canary before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Both sides, and who they are."""

    cohort: Side
    other: Side
    members: Sequence[AgentRow]
    others: Sequence[AgentRow]

    def opinion(self, rollout: PolicyRollout) -> Opinion:
        """What the gate says of it."""
        return judge(self.cohort, self.other, least_calls=rollout.least_calls)


def split(rollout: PolicyRollout, agents: Collection[AgentRow]) -> tuple[list[AgentRow], list[AgentRow]]:
    """Those that follow the console: in the cohort, and the others of its services."""
    followers = [one for one in agents if one.is_follower]
    cohort = rollout.cohort
    members = [one for one in followers if cohort.holds(service=one.service, instance=one.instance, group=one.group)]
    known = {id(one) for one in members}
    services = {one.service for one in members}
    return members, [one for one in followers if id(one) not in known and one.service in services]


def evidence_of(rollout: PolicyRollout, *, now: datetime, agents: Collection[AgentRow] | None = None) -> Evidence:
    """What is known at `now`. Two queries, three where there is nobody to compare with."""
    agents = fleet(rollout.environment, now=now) if agents is None else agents
    members, others = split(rollout, agents)
    start = max(rollout.started_at, now - LONGEST_LOOK)
    counts = counted(rollout.environment, [one.id for one in (*members, *others)], start=start, end=now)
    ids = {one.id for one in members}
    mine = _summed(counts, lambda whose: whose.agent_id in ids and whose.policy_version == rollout.version)
    cohort = _side(COHORT, members, mine, rollout)
    if others:
        theirs = _summed(counts, lambda whose: whose.agent_id not in ids)
        other = _side(OTHERS, others, theirs, rollout)
    else:
        length = min(LONGEST_LOOK, max(rollout.ends_at - rollout.started_at, timedelta(minutes=10)))
        earlier = counted(rollout.environment, ids, start=rollout.started_at - length, end=rollout.started_at)
        # Nobody fell silent before, as far as this tells: else they would not be members.
        other = Side(word=BEFORE, instances=len(members), by_operation=_summed(earlier, lambda whose: True))
    return Evidence(cohort=cohort, other=other, members=members, others=others)


def _summed(counts: Mapping[Any, Counts], is_wanted: Any) -> dict[str, Counts]:
    found: dict[str, Counts] = {}
    for whose, count in counts.items():
        if is_wanted(whose):
            found[whose.operation] = found.get(whose.operation, Counts()) + count
    return found


def _side(word: str, agents: Sequence[AgentRow], by_operation: dict[str, Counts], rollout: PolicyRollout) -> Side:
    """Who was gone before the rollout began says nothing about it."""
    grace = timedelta(seconds=settings.UNREACHABLE_AFTER_S)
    living = [one for one in agents if one.last_seen >= rollout.started_at - grace]
    return Side(
        word=word,
        instances=len(living),
        silent=sum(not one.is_reachable for one in living),
        refused=sum(one.rejected_revision is not None and one.rejected_revision >= rollout.revision for one in living),
        by_operation=by_operation,
    )


def figures_of(evidence: Evidence) -> dict[str, Any]:
    """Both sides as they are kept and shown: counts, rates per call, p95 in seconds or null."""
    return {"cohort": _figures(evidence.cohort), "other": _figures(evidence.other)}


def _figures(side: Side) -> dict[str, Any]:
    total = side.total
    p95_s = total.p95_s
    return {
        "word": side.word,
        "instances": side.instances,
        "silent": side.silent,
        "refused": side.refused,
        "calls": total.calls,
        **{one.name: getattr(total, one.name) for one in MEASURES},
        "rates": {one.name: round(total.rate(one.name), 6) for one in MEASURES},
        "p95_s": None if p95_s is None or math.isinf(p95_s) else p95_s,
    }

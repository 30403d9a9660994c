"""Which override and which rule of the policy rule a breaker, and why, in sentences for its page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from django.urls import reverse

from events.rows import AgentRow, BreakerRow
from events.wording import count_text
from recovery_ops.control.breakers.precedence import Claim, override_claims, rule_claims
from recovery_ops.control.desired_state.status import Standing
from recovery_ops.rules.desired_state import Override
from recovery_ops.rules.policy.scope import Place


@dataclass(frozen=True, slots=True)
class Ranked:
    """What is said of a claim, None where there is none; `ruled` is how many instances it rules, where that is said."""

    text: str
    claim: Claim | None = None
    ruled: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What the page says: of the override that rules, of the policy's rule, and of each narrower override by its id."""

    override: Ranked | None
    rule: Ranked
    narrower: Mapping[str, Ranked]
    href: str
    """All that speaks of this breaker, one beside the other."""


def ranking_of(row: BreakerRow, standing: Standing, agents: Sequence[AgentRow]) -> Ranking:
    """Why what rules a breaker does so, in which of the instances that have it."""
    operation = row.operations[0] if row.operations else row.name
    service = row.services[0] if len(row.services) == 1 else ""
    place = Place(service=service, instance="", operation=operation, breaker=row.name)
    asked = {"operation": operation, "breaker": row.name, "service": service}
    narrower = standing.narrower_of(row.name)
    ruled = _Ruled(place, standing, agents) if narrower else None
    return Ranking(
        override=_of_override(_first(override_claims(standing.snapshot, place, now=standing.now)), ruled),
        rule=_of_rule(_first(rule_claims(standing.policy, place))),
        narrower={one.id: _of_narrower(one, ruled) for one in narrower if ruled is not None},
        href=f"{reverse('explain')}?{urlencode({name: said for name, said in asked.items() if said})}",
    )


def _first(claims: list[Claim]) -> Claim | None:
    return next((one for one in claims if one.wins), None)


class _Ruled:
    """Which override rules each instance that has the breaker."""

    def __init__(self, place: Place, standing: Standing, agents: Sequence[AgentRow]) -> None:
        self._standing = standing
        self._places = [replace(place, service=one.service, instance=one.instance, group=one.group) for one in agents]
        now = standing.now.timestamp()
        found = [standing.snapshot.winning(one, now) for one in self._places]
        self.counts = Counter(one.id for one in found if one is not None)
        self._first = {one.id: here for one, here in zip(found, self._places, strict=True) if one is not None}

    def share(self, override_id: str) -> str:
        """`4 of 9 instances`."""
        return f"{self.counts[override_id]} of {count_text(len(self._places), 'instance')}"

    def claim(self, override: Override) -> Claim | None:
        """Why it wins where it does, else what beats it at the first instance of its scope; None: there is none."""
        here = self._first.get(override.id) or next((one for one in self._places if override.scope.holds(one)), None)
        claims = [] if here is None else override_claims(self._standing.snapshot, here, now=self._standing.now)
        return next((said for said in claims if said.name == override.id), None)


def _of_override(claim: Claim | None, ruled: _Ruled | None) -> Ranked | None:
    if claim is None:
        return None
    if ruled is None:
        return Ranked(f"Override for {claim.scope} wins: {claim.why}.", claim)
    text = f"Override for {claim.scope} applies to {ruled.share(claim.name)}; narrower overrides win on the others."
    return Ranked(text, claim, ruled.counts[claim.name])


def _of_rule(claim: Claim | None) -> Ranked:
    if claim is None:
        return Ranked("No policy rule matches: agent code and defaults apply.")
    return Ranked(f"Policy rule {claim.name} ({claim.scope}) wins: {claim.why}.", claim)


def _of_narrower(one: Override, ruled: _Ruled) -> Ranked:
    """How many instances it rules and why, or what beats it in its part."""
    claim = ruled.claim(one)
    if claim is None:
        return Ranked("No instance with this breaker is in scope.", ruled=0)
    if claim.wins:
        return Ranked(f"Applies to {ruled.share(one.id)}: {claim.why}.", claim, ruled.counts[one.id])
    return Ranked(f"Applies to no instance: {claim.why}.", claim, 0)

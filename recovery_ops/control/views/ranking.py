"""Which override and which rule of the policy rule a breaker, and why, in sentences for its page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from events.rows import BreakerRow
from recovery_ops.control.precedence import Claim, override_claims, rule_claims
from recovery_ops.control.views.standing import Standing
from recovery_ops.rules.intent import Override
from recovery_ops.rules.scope import ANY, Place, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What the page says: of the override that rules, of the policy's rule, and of each narrower override by its id."""

    override: str
    rule: str
    narrower: Mapping[str, str]
    href: str
    """All that speaks of this breaker, one beside the other."""


def ranking_of(row: BreakerRow, standing: Standing) -> Ranking:
    """Why what rules a breaker does so."""
    operation = row.operations[0] if row.operations else row.name
    service = row.services[0] if len(row.services) == 1 else ""
    place = Place(service=service, instance="", operation=operation, breaker=row.name)
    asked = {"operation": operation, "breaker": row.name, "service": service}
    return Ranking(
        override=_of_override(_first(override_claims(standing.snapshot, place, now=standing.now))),
        rule=_of_rule(_first(rule_claims(standing.policy, place))),
        narrower={one.id: _of_narrower(one, place, standing) for one in standing.narrower_of(row.name)},
        href=f"{reverse('explain')}?{urlencode({name: said for name, said in asked.items() if said})}",
    )


def _first(claims: list[Claim]) -> Claim | None:
    return next((one for one in claims if one.wins), None)


def _of_override(claim: Claim | None) -> str:
    return f"The override of {claim.scope} wins because {claim.why}." if claim is not None else ""


def _of_rule(claim: Claim | None) -> str:
    if claim is None:
        return "No rule of the policy speaks of it: the agent’s code holds, and the defaults."
    return f"Of the policy, rule {claim.name} ({claim.scope}) wins because {claim.why}."


def _of_narrower(one: Override, place: Place, standing: Standing) -> str:
    """Why it rules its part of the environment, or what beats it there; empty where its part is a pattern."""
    there = _place_in(one.scope, place)
    claims = override_claims(standing.snapshot, there, now=standing.now) if there is not None else []
    claim = next((said for said in claims if said.name == one.id), None)
    if claim is None:
        return ""
    return f"It wins there because {claim.why}." if claim.wins else f"It does not win there: {claim.why}."


def _place_in(scope: Scope, place: Place) -> Place | None:
    """This breaker in the part that a scope names; None where a name of it is a pattern."""
    parts = {"service": scope.service, "instance": scope.instance, "group": scope.group}
    if any(ANY in name and name != ANY for name in parts.values()):
        return None
    said = {part: "" if name == ANY else name for part, name in parts.items()}
    return Place(
        operation=place.operation,
        breaker=place.breaker,
        service=said["service"] or place.service,
        instance=said["instance"],
        group=said["group"],
    )

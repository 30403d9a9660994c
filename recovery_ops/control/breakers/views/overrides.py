"""Overrides as pages tell them: one on the card of its breaker, and those that no row of the list of breakers shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from django.urls import reverse

from recovery_ops.control.core.commands import scope_words
from recovery_ops.control.desired_state.status import Standing, is_everywhere
from recovery_ops.rules.desired_state import Override
from recovery_ops.rules.policy.scope import ANY

MOST_ELSEWHERE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Resting:
    """An override that rests on the breaker, as its card tells it."""

    id: str
    mode: str
    by: str
    reason: str
    revision: int
    starts_at: datetime
    expires_at: datetime
    scope_words: str
    release_href: str
    extend_href: str

    @staticmethod
    def of(override: Override, name: str, environment: str) -> Resting:
        """The override with its moments and its addresses."""
        query = f"?override={override.id}"
        return Resting(
            id=override.id,
            mode=override.mode,
            by=override.by,
            reason=override.reason,
            revision=override.revision,
            starts_at=datetime.fromtimestamp(override.starts_at, UTC),
            expires_at=datetime.fromtimestamp(override.expires_at, UTC),
            scope_words=f"{environment}, {scope_words(override.scope)}",
            release_href=reverse("breaker-release", args=[name]) + query,
            extend_href=reverse("breaker-extend", args=[name]) + query,
        )


def elsewhere(standing: Standing) -> list[Resting]:
    """The overrides of a part of the environment, by a pattern or still to begin, the next to change first."""
    now = standing.now.timestamp()
    found = [
        one
        for one in standing.snapshot.overrides
        if one.expires_at > now and (one.starts_at > now or ANY in one.scope.operation or not is_everywhere(one))
    ]
    found.sort(key=lambda one: one.expires_at if one.starts_at <= now else one.starts_at)
    return [Resting.of(one, one.scope.operation, standing.environment) for one in found]

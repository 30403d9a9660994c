"""What a replay counts, in the order in which its page shows it."""

from __future__ import annotations

from dataclasses import dataclass, fields

COST = "cost_usd"


@dataclass(slots=True)
class Measures:
    """Of what was recorded, or of what a policy makes of it. Attempts are those of calls that failed at least once."""

    attempts: int = 0
    retries: int = 0
    waiting_s: float = 0.0
    refused: int = 0
    openings: int = 0
    fallbacks: int = 0
    withdrawn: int = 0
    escalations: int = 0
    failed: int = 0
    stopped: int = 0
    tokens: float = 0.0
    cost_usd: float = 0.0
    """0 where nobody told what anything cost."""

    def add(self, other: Measures) -> None:
        """Add up another instance's."""
        for part in fields(Measures):
            setattr(self, part.name, getattr(self, part.name) + getattr(other, part.name))

    def as_numbers(self) -> dict[str, float | None]:
        """By name, rounded as far as anybody reads; a cost that nobody told is None."""
        found: dict[str, float | None] = {part.name: round(getattr(self, part.name), 1) for part in fields(Measures)}
        return found | {COST: round(self.cost_usd, 6) or None}


WORDS = {
    "attempts": "Attempts of failed calls",
    "retries": "Retries",
    "waiting_s": "Waits, seconds",
    "refused": "Rejected calls",
    "openings": "Breaker openings",
    "fallbacks": "Fallback answers",
    "withdrawn": "Tools withdrawn",
    "escalations": "Escalations",
    "failed": "Failed calls",
    "stopped": "Stopped runs",
    "tokens": "Tokens of attempts, estimated",
    COST: "Cost of attempts in USD, estimated",
}
"""What each is called on a screen."""

"""Local ceilings: what the desired state may not widen in this process, whoever wrote it."""

from __future__ import annotations

from dataclasses import replace

from recovery_ops.rules.intent import Override, Shed
from recovery_ops.rules.policy import Knobs, OperationPolicy
from recovery_ops.rules.records import dataclass
from recovery_ops.rules.words import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is clamped is reported with `desired_state_applied`. None leaves a thing unlimited."""

    most_retries: int | None = None
    longest_override_s: float | None = None
    may_be_disabled: bool = True
    may_be_paused: bool = True
    """Whether people may have it begin no new runs."""

    def applied_to(self, policy: OperationPolicy, operation: str) -> tuple[OperationPolicy, list[str]]:
        """The policy within the ceilings, and the names of what was clamped."""
        if self.most_retries is None:
            return policy, []
        clamped = []
        knobs = policy.knobs
        for name in ("max_retries", "max_retries_background"):
            if (getattr(knobs, name) or 0) > self.most_retries:
                knobs = Knobs(**{name: self.most_retries}).over(knobs)  # type: ignore[arg-type]  # both are whole numbers
                clamped.append(f"{operation}.{name}")
        return replace(policy, knobs=knobs), clamped

    def override_allowed(self, override: Override, wall: float) -> tuple[float, list[str]]:
        """How many seconds the override may still last here (0: not at all), and what was clamped."""
        lasts_s = override.expires_at - wall
        if override.mode is State.DISABLED and not self.may_be_disabled:
            return 0.0, [f"{override.id}.mode"]
        if self.longest_override_s is None or override.expires_at - override.starts_at <= self.longest_override_s:
            return lasts_s, []
        return min(lasts_s, override.starts_at + self.longest_override_s - wall), [f"{override.id}.expires_at"]

    def shed_allowed(self, shed: Shed, wall: float) -> tuple[float, list[str]]:
        """How many seconds load may still be shed here, and what was clamped."""
        lasts_s = shed.expires_at - wall
        if self.longest_override_s is None or shed.expires_at - shed.starts_at <= self.longest_override_s:
            return lasts_s, []
        return min(lasts_s, shed.starts_at + self.longest_override_s - wall), [f"{shed.id}.expires_at"]


NO_LIMITS = Limits()

"""Local ceilings: what the desired state may not widen in this process, whoever wrote it."""

from __future__ import annotations

from dataclasses import replace

from recovery_ops.rules.desired_state import Override, Shed
from recovery_ops.rules.enums import State
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.model import OperationPolicy, Settings
from recovery_ops.runtime.errors import ConfigurationError
from recovery_ops.runtime.guards.argument_checks import check_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Ceilings of this process that the console cannot exceed. None is no limit.

    - `max_retries`: retries of a call. `max_override_s`: an operator's override, in seconds.
    - `allow_disable`: an operator may switch a breaker off. `allow_pause`: an operator may pause new runs.

    Clamped values are reported to the console. Rules: docs/guide/production.md#with-a-console

    >>> from recovery_ops.runtime.testing import Lab
    >>> careful = Lab(limits=Limits(max_retries=1)).recovery
    >>> @careful.guard("search", read_only=True, max_retries=9)
    ... def search():
    ...     raise ConnectionRefusedError("refused")
    >>> try:
    ...     search()
    ... except RecoveryExhausted as error:
    ...     print(error.attempts)
    2
    """

    max_retries: int | None = None
    max_override_s: float | None = None
    allow_disable: bool = True
    allow_pause: bool = True
    """Whether people may have it begin no new runs."""

    def __post_init__(self) -> None:
        """Refuse ceilings that could never hold."""
        check_type("Limits", bool, {"allow_disable": self.allow_disable, "allow_pause": self.allow_pause})
        for name, value in (("max_retries", self.max_retries), ("max_override_s", self.max_override_s)):
            check_type("Limits", (int, float), {name: value})
            if value is not None and not value >= 0:
                raise ConfigurationError(f"Limits: {name} must not be negative, and is {value!r}")

    def applied_to(self, policy: OperationPolicy, operation: str) -> tuple[OperationPolicy, list[str]]:
        """The policy within the ceilings, and the names of what was clamped."""
        if self.max_retries is None:
            return policy, []
        clamped = []
        settings = policy.settings
        for name in ("max_retries", "max_retries_background"):
            if (getattr(settings, name) or 0) > self.max_retries:
                settings = Settings(**{name: self.max_retries}).over(settings)  # type: ignore[arg-type]  # both are whole numbers
                clamped.append(f"{operation}.{name}")
        return replace(policy, settings=settings), clamped

    def override_allowed(self, override: Override, wall: float) -> tuple[float, list[str]]:
        """How many seconds the override may still last here (0: not at all), and what was clamped."""
        lasts_s = override.expires_at - wall
        if override.mode is State.DISABLED and not self.allow_disable:
            return 0.0, [f"{override.id}.mode"]
        if self.max_override_s is None or override.expires_at - override.starts_at <= self.max_override_s:
            return lasts_s, []
        return min(lasts_s, override.starts_at + self.max_override_s - wall), [f"{override.id}.expires_at"]

    def shed_allowed(self, shed: Shed, wall: float) -> tuple[float, list[str]]:
        """How many seconds load may still be shed here, and what was clamped."""
        lasts_s = shed.expires_at - wall
        if self.max_override_s is None or shed.expires_at - shed.starts_at <= self.max_override_s:
            return lasts_s, []
        return min(lasts_s, shed.starts_at + self.max_override_s - wall), [f"{shed.id}.expires_at"]


NO_LIMITS = Limits()

"""When retries burn their budget too fast: the rates of many windows, long ones for certainty, short ones for speed.

A retry budget is how many retries may be made for each call that was attempted, over 30 days. Burning at 1 spends
exactly all of it in that time. An alert needs both of its windows above its rate, not at it: the long one says that it
matters, the short one that it still goes on, so the alert ends soon after the trouble does. The long one must hold
calls from before the short one: minutes after a start both windows hold the same calls, and say the same thing twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.notifications.grouping import Severity

BUDGET_S = 30 * 86_400
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_DUST = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Burn:
    """One alert: the rate above which it is on, in both windows (seconds)."""

    name: str
    rate: float
    long_s: int
    short_s: int
    severity: Severity


BURNS = (
    Burn(name="fast", rate=14.4, long_s=_HOUR, short_s=5 * _MINUTE, severity=Severity.CRITICAL),
    Burn(name="steady", rate=6.0, long_s=6 * _HOUR, short_s=30 * _MINUTE, severity=Severity.CRITICAL),
    Burn(name="slow", rate=1.0, long_s=3 * _DAY, short_s=6 * _HOUR, severity=Severity.WARNING),
)
"""The fastest first: 14.4 spends 2 % of the budget in an hour, 6 spends 5 % in six, 1 spends 10 % in three days."""
WINDOWS_S = tuple(sorted({*(one.long_s for one in BURNS), *(one.short_s for one in BURNS), BUDGET_S}))

LEAST_RETRIES = 10
"""Fewer retries than this in the long window are no alert, whatever share of a handful of calls they are."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What was counted in one window: calls that were attempted, and retries."""

    calls: int
    retries: int

    def rate(self, budget: float) -> float | None:
        """How many times faster than allowed retries were made; None where that cannot be said."""
        if not self.calls or budget <= 0:
            return None
        return self.retries / self.calls / budget


def is_over(spent: float | None) -> bool:
    """Whether more is spent than may be: 1 is the whole budget, which is all of it and not too much."""
    return spent is not None and spent > 1 + _DUST


def has_enough_data(long: Spent, short: Spent) -> bool:
    """Whether the long window holds calls from before the short one."""
    return long.calls > short.calls


def burning(spent: Mapping[int, Spent], budget: float) -> tuple[Burn, ...]:
    """The alerts that are on, the fastest first. `spent` by the length of its window in seconds; `budget` a share."""
    return tuple(one for one in BURNS if _is_on(one, spent, budget))


def _is_on(one: Burn, spent: Mapping[int, Spent], budget: float) -> bool:
    long, short = spent.get(one.long_s), spent.get(one.short_s)
    if long is None or short is None or long.retries < LEAST_RETRIES or not has_enough_data(long, short):
        return False
    rates = (long.rate(budget), short.rate(budget))
    return all(rate is not None and rate > one.rate + _DUST for rate in rates)

"""Spend caps: whether one more call fits under the limits of an account, in calls, tokens and dollars.

A call is admitted while what is spent and what open calls may still spend lie below the limit. So however many calls
run at once, an account ends at most one call above its limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from math import inf

from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.spend_settings import CHEAPER_MODEL, SpendCaps

MEASURES = ("calls", "tokens", "cost_usd")
"""What a cap may limit, in the order in which limits are checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """Calls, tokens and dollars: spent, or the most that one call may spend. Infinity is a bound that is not known."""

    calls: int = 0
    tokens: float = 0
    cost_usd: float = 0.0

    def plus(self, other: Spending) -> Spending:
        """The sum of both."""
        return Spending(
            calls=self.calls + other.calls, tokens=self.tokens + other.tokens, cost_usd=self.cost_usd + other.cost_usd
        )


UNKNOWN_CALL = Spending(calls=1, tokens=inf, cost_usd=inf)
"""A call whose tokens and price have no known bound: beside it no other is admitted under such a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendCap:
    """The limits of one account; None is no limit."""

    calls: float | None = None
    tokens: float | None = None
    cost_usd: float | None = None

    def times(self, factor: float) -> SpendCap:
        """The same limits, so many times as high."""
        return SpendCap(**{name: None if (one := getattr(self, name)) is None else one * factor for name in MEASURES})


class Admission(StrEnum):
    """Whether a call may be made."""

    ADMITTED = "admitted"
    BUSY = "busy"
    """Open calls may use up the rest: ask again when one of them ends."""
    AT_CAP = "at_cap"
    """The limit is spent."""


SPEND_CAP = "spend_cap"
"""The reason of events, errors and questions about a cap that is reached."""
QUEUE = "budgets"
"""The queue of questions about a cap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendRuling:
    """The answer for one call; where it is not admitted: the account, the measure, what is spent, and the limit."""

    admission: Admission = Admission.ADMITTED
    account: str = ""
    measure: str = ""
    spent: float = 0.0
    limit: float = 0.0
    raises: int = 0
    """How often a person has raised the limits of the account."""


ADMITTED = SpendRuling()


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountState:
    """One account: what is spent, the bounds of its open calls, and how often a person raised its limits by the cap."""

    spent: Spending = Spending()
    open_calls: Spending = Spending()
    raises: int = 0


def admit(accounts: Mapping[str, AccountState], caps: Mapping[str, SpendCap]) -> SpendRuling:
    """Whether one more call fits into every account. A spent limit wins over one that is only busy."""
    rulings = [
        found for name, cap in caps.items() for found in _refusals(name, accounts.get(name, AccountState()), cap)
    ]
    return min(rulings, key=lambda one: one.admission is not Admission.AT_CAP, default=ADMITTED)


def _refusals(name: str, state: AccountState, cap: SpendCap) -> Iterable[SpendRuling]:
    held = cap.times(1 + state.raises) if state.raises else cap
    for measure in MEASURES:
        limit = getattr(held, measure)
        spent, reserved = getattr(state.spent, measure), getattr(state.open_calls, measure)
        if limit is None or spent + reserved < limit:
            continue
        admission = Admission.AT_CAP if spent >= limit else Admission.BUSY
        yield SpendRuling(
            admission=admission, account=name, measure=measure, spent=spent, limit=limit, raises=state.raises
        )


class SpendBook:
    """Accounts in memory for whoever drives one call after the other, and charges each as it is made."""

    def __init__(self) -> None:
        self._accounts: dict[str, AccountState] = {}

    def admit(self, caps: Mapping[str, SpendCap]) -> SpendRuling:
        """Whether one more call fits into every account."""
        return admit(self._accounts, caps)

    def charge(self, accounts: Iterable[str], spent: Spending) -> None:
        """What a call has spent."""
        for name in accounts:
            held = self._accounts.get(name, AccountState())
            self._accounts[name] = AccountState(spent=held.spent.plus(spent), raises=held.raises)


def account_caps(
    caps: SpendCaps, *, run: str, source: str, at_s: float, has_cheaper: bool = False
) -> dict[str, SpendCap]:
    """The accounts that a model call counts for, with their limits; none where nothing is limited.

    `run` is the outermost run, empty outside runs. `at_s` is in seconds since the epoch. Where the action is a cheaper
    model and there is one (`has_cheaper`), a call may not use up the share that is kept for it.
    """
    day = account_day(at_s)
    named = {f"source:{source}:{day}": "source", f"day:{day}": "day"}
    if run:
        named = {f"run:{run}": "run", **named}
    share = 1.0 - caps.cheaper_share if has_cheaper and caps.action == CHEAPER_MODEL else 1.0
    limits = {name: _cap(caps, part) for name, part in named.items()}
    return {name: cap.times(share) for name, cap in limits.items() if cap != NO_LIMIT}


def caps_of(caps: SpendCaps, account: str) -> SpendCap:
    """The limits of an account by its name, without what a person raised."""
    part = account.partition(":")[0]
    return _cap(caps, part) if part in ("run", "source", "day") else NO_LIMIT


def account_day(at_s: float) -> str:
    """The day of the accounts of a moment, in UTC."""
    return datetime.fromtimestamp(at_s, UTC).date().isoformat()


NO_LIMIT = SpendCap()


def _cap(caps: SpendCaps, part: str) -> SpendCap:
    return SpendCap(**{name: getattr(caps, f"{part}_{name}") or None for name in MEASURES})


def call_bound(caps: SpendCaps, known: Spending = UNKNOWN_CALL) -> Spending:
    """The most that one call may spend: what is known of its request, else what the policy says, else infinity."""
    return Spending(
        calls=1,
        tokens=known.tokens if known.tokens < inf else caps.call_tokens or inf,
        cost_usd=known.cost_usd if known.cost_usd < inf else caps.call_cost_usd or inf,
    )

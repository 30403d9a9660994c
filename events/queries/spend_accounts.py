"""Reads what spend accounts hold now, as the newest heartbeats of the instances report it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

from events.models import Agent
from events.moments import from_us, to_us
from events.queries.fleet import silent_since_us
from events.queries.readings import number_or_none
from events.wording import share_text, spend_text
from recovery_ops.rules.policy.spend_settings import SpendCaps
from recovery_ops.rules.spending import MEASURES, account_day, caps_of

PLACE = (int, str, str, str)
"""Of what `Account.place` is made."""
_DAYS, _RUN = ("day:", "source:"), "run:"


@dataclass(frozen=True, slots=True)
class Balance:
    """One measure of an account: what is spent, and the limit; None is no limit."""

    measure: str
    spent: float
    limit: float | None

    @property
    def share(self) -> float | None:
        """The spent share of the limit."""
        return None if self.limit is None else self.spent / self.limit

    @property
    def numbers(self) -> str:
        """`5.02 of 20.00 USD`, or `12 calls` without a limit."""
        return spend_text(self.spent, self.limit, self.measure)


@dataclass(slots=True)
class Account:
    """One account of one ledger: a ledger is shared by the processes of one service on one machine."""

    service: str
    ledger: str
    account: str
    at: datetime
    """When the newest heartbeat reported it."""
    balances: tuple[Balance, ...]
    raises: int
    """How often a person raised its cap."""
    instances: set[str] = field(default_factory=set)

    @property
    def share(self) -> float:
        """The largest spent share of its limits."""
        return max((one.share or 0.0 for one in self.balances), default=0.0)

    @property
    def share_words(self) -> str:
        """`42%`, of the limit that it is nearest to."""
        return share_text(self.share)

    @property
    def place(self) -> tuple[int, str, str, str]:
        """Its place in the list: the nearest to a limit first."""
        return -round(1e6 * min(self.share, 1e6)), self.service, self.account, self.ledger

    @property
    def run(self) -> str:
        """The run that it is of; empty for an account of a source or a day."""
        return self.account.removeprefix(_RUN) if self.account.startswith(_RUN) else ""


def spend_accounts(environment: str, caps: SpendCaps, now: datetime, *, run: str = "") -> list[Account]:
    """The accounts of the current day in UTC, and of runs of living instances, nearest to their limits first.

    One query. With `run` the accounts of that run alone, while it is under way.
    """
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    found = Agent.objects.filter(environment=environment, heartbeat_us__isnull=False).exclude(spending="{}")
    if run:
        found = found.filter(spending__contains=orjson.dumps(f"{_RUN}{run}").decode())
    else:
        found = found.filter(heartbeat_us__gte=to_us(midnight))
    columns = ("service", "instance", "heartbeat_us", "last_seen_us", "spending")
    rows = found.order_by("-heartbeat_us").values_list(*columns)
    accounts: dict[tuple[str, str, str], Account] = {}
    alive_us, day = silent_since_us(now), account_day(now.timestamp())
    for service, instance, at_us, seen_us, text in rows:
        for one in _accounts(service, from_us(at_us), text, caps):
            is_wanted = one.run == run if run else _is_current(one, day, is_alive=seen_us >= alive_us)
            if is_wanted:
                accounts.setdefault((service, one.ledger, one.account), one).instances.add(instance)
    return sorted(accounts.values(), key=lambda one: one.place)


def _is_current(one: Account, day: str, *, is_alive: bool) -> bool:
    return is_alive if one.run else one.account.endswith(day)


def _accounts(service: str, at: datetime, text: str, caps: SpendCaps) -> Iterator[Account]:
    said = orjson.loads(text)
    maps: list[Mapping[str, Any]] = [said.get(measure, {}) for measure in MEASURES]
    for name in _names(maps):
        if not name.startswith((*_DAYS, _RUN)):
            continue
        raises = int(number_or_none(said.get("raises", {}).get(name)) or 0)
        spent = [number_or_none(one.get(name)) or 0.0 for one in maps]
        cap = caps_of(caps, name).times(1 + raises)
        limits = (getattr(cap, measure) for measure in MEASURES)
        balances = tuple(map(Balance, MEASURES, spent, limits))
        yield Account(service, str(said["ledger"]), name, at, balances, raises)


def _names(maps: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted({str(name) for one in maps for name in one})

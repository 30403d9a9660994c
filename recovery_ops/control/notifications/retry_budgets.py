"""Watches retry budgets: notes how fast each is spent, and begins and ends alerts by the rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q

from events.queries.retrying import calls_and_retries
from recovery_ops.control.demonstration.selectors import generated_until
from recovery_ops.control.desired_state.document import live_policy
from recovery_ops.control.notifications.check_lock import look_lock
from recovery_ops.control.notifications.models.notifications import BurnAlert, NotifyLook, RetryBudget
from recovery_ops.rules.incidents.burn_rate import (
    BUDGET_S,
    BURNS,
    LEAST_RETRIES,
    WINDOWS_S,
    Burn,
    Spent,
    burning,
    has_enough_data,
    is_over,
)
from recovery_ops.rules.policy.model import Policy, parse_policy
from recovery_ops.rules.policy.scope import Place

_EVERY = timedelta(seconds=20)
_YOUNG_S = BURNS[-1].short_s
"""The share of 30 days is shown when the oldest call is older than this, in seconds."""
_SEEN_FOR = timedelta(hours=6)
_BURNS = {one.name: one for one in BURNS}
ROWS_MOST = 200
_ALERTS_READ = 1_000
_Counts = Mapping[int, Mapping[str, tuple[int, int]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRow:
    """One operation's budget as the page shows it. Rates are times the allowed; None where nothing was called."""

    operation: str
    budget: float
    spent: float | None
    """Of the budget of 30 days, by the calls of these days; None while the oldest call is less than 6 h ago."""
    retries: int
    """In 30 days."""
    has_calls: bool
    """Whether anything was called in 30 days."""
    rates: Sequence[tuple[str, float | None]]
    alerts: Sequence[BurnAlert]

    @property
    def is_over(self) -> bool:
        """Whether more than the whole budget of 30 days is spent."""
        return is_over(self.spent)

    @property
    def is_too_few(self) -> bool:
        """Whether there are so few retries that no share of them is an alert."""
        return self.retries < LEAST_RETRIES


def watch(environment: str, now: datetime) -> int:
    """Look at every operation that was called lately; return how many alerts began or ended. Harmless when doubled."""
    with transaction.atomic():
        look_lock(environment, now)
        look = NotifyLook.objects.get(environment=environment)
        if look.burns_at is not None and timedelta() <= now - look.burns_at < _EVERY:
            return 0
        NotifyLook.objects.filter(environment=environment).update(burns_at=now)
        since = generated_until(environment)
        counts = calls_and_retries(environment, windows_s=WINDOWS_S, now=now, since=since)
        policy = parse_policy(live_policy(environment).document)
        budgets = {operation: _budget(policy, operation) for operation in counts[max(WINDOWS_S)]}
        _keep(environment, budgets, counts, now)
        return _alert(environment, budgets, counts, now)


def budget_rows(environment: str, *, now: datetime, open_alerts: Iterable[BurnAlert] | None = None) -> list[BudgetRow]:
    """The budgets of operations that retried in 30 days, those spent fastest first. Two queries, one where the alerts
    that are not over have been read.
    """
    if open_alerts is None:
        open_alerts = BurnAlert.objects.filter(environment=environment, ended_at=None).order_by("pk")
    alerts: dict[str, list[BurnAlert]] = {}
    for alert in open_alerts:
        alerts.setdefault(alert.operation, []).append(alert)
    found = RetryBudget.objects.filter(environment=environment, at__gte=now - _SEEN_FOR).order_by("operation")
    rows = [_row(one, alerts.get(one.operation, [])) for one in found[:ROWS_MOST]]
    return sorted(rows, key=lambda row: (not row.alerts, -(row.rates[0][1] or 0.0), -(row.spent or 0.0), row.operation))


def burn_alerts(environment: str, *, start: datetime, end: datetime) -> tuple[list[BurnAlert], list[BurnAlert]]:
    """The alerts that are not over, the oldest first, and the newest of those that touch [start, end). One query."""
    found = BurnAlert.objects.filter(environment=environment).exclude(ended_at__lt=start)
    known = list(found.filter(Q(began_at__lt=end) | Q(ended_at=None)).order_by("-began_at", "-pk")[:_ALERTS_READ])
    touching = [one for one in known if one.began_at < end]
    return sorted((one for one in known if one.ended_at is None), key=lambda one: one.pk), touching[:ROWS_MOST]


def burn_of(alert: BurnAlert) -> Burn:
    """The row of the rule that an alert is of."""
    return _BURNS.get(alert.burn, BURNS[-1])


def _row(one: RetryBudget, alerts: Sequence[BurnAlert]) -> BudgetRow:
    spent = {int(window_s): Spent(*counts) for window_s, counts in one.windows.items()}
    nothing = Spent(0, 0)
    whole = spent.get(BUDGET_S, nothing)
    return BudgetRow(
        operation=one.operation,
        budget=one.budget,
        spent=whole.rate(one.budget) if has_enough_data(whole, spent.get(_YOUNG_S, nothing)) else None,
        retries=whole.retries,
        has_calls=whole.calls > 0,
        rates=[(burn.name, _shown_rate(burn, spent, one.budget)) for burn in BURNS],
        alerts=alerts,
    )


def _shown_rate(burn: Burn, spent: Mapping[int, Spent], budget: float) -> float | None:
    """The rate in the long window of an alert; None where there is too little data for the alert."""
    nothing = Spent(0, 0)
    long, short = spent.get(burn.long_s, nothing), spent.get(burn.short_s, nothing)
    return long.rate(budget) if has_enough_data(long, short) else None


def default_budget(document: Mapping[str, Any]) -> float:
    """The budget of an operation of which a policy says nothing else."""
    return _budget(parse_policy(document), "")


def _budget(policy: Policy, operation: str) -> float:
    settings = policy.for_operation(Place(service="", instance="", operation=operation)).settings
    return settings.retry_budget or 0.0


def _keep(environment: str, budgets: Mapping[str, float], counts: _Counts, now: datetime) -> None:
    rows = [
        RetryBudget(
            environment=environment,
            operation=operation,
            budget=budget,
            windows={str(window_s): list(counts[window_s].get(operation, (0, 0))) for window_s in WINDOWS_S},
            at=now,
        )
        for operation, budget in budgets.items()
        if counts[BUDGET_S].get(operation, (0, 0))[1]
    ]
    RetryBudget.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["environment", "operation"],
        update_fields=["budget", "windows", "at"],
    )


def _alert(environment: str, budgets: Mapping[str, float], counts: _Counts, now: datetime) -> int:
    open_ = {(one.operation, one.burn): one for one in BurnAlert.objects.filter(environment=environment, ended_at=None)}
    changed = 0
    for operation, budget in budgets.items():
        spent = {window_s: Spent(*counts[window_s].get(operation, (0, 0))) for window_s in WINDOWS_S}
        for burn in burning(spent, budget):
            rate = spent[burn.long_s].rate(budget) or 0.0
            alert = open_.pop((operation, burn.name), None)
            if alert is None:
                BurnAlert.objects.create(
                    environment=environment,
                    operation=operation,
                    burn=burn.name,
                    budget=budget,
                    began_at=now,
                    worst=rate,
                )
                changed += 1
            elif rate > alert.worst:
                BurnAlert.objects.filter(pk=alert.pk).update(worst=rate)
    ended = BurnAlert.objects.filter(pk__in=[one.pk for one in open_.values()], ended_at=None)
    return changed + ended.update(ended_at=now)

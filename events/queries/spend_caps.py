"""Reads which spend caps were reached in a window, one row for each account of a service."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from events.models import Fact
from events.moments import from_us, to_us
from events.queries.readings import Attributes, number_or_none, text_of
from events.wording import spend_text
from recovery_ops.rules.events import SpendCapReached
from recovery_ops.wire import names

EVENTS_READ = 1_000
ACCOUNTS_MOST = 50
_EVENT = names.EVENTS[SpendCapReached].name
_SAID = Attributes(SpendCapReached, "account", "measure", "spent", "limit", "action", "to_model")


@dataclass(slots=True)
class CapReached:
    """One account of a service at its cap: the newest numbers, and when it was reached first and last."""

    service: str
    account: str
    measure: str
    spent: float
    limit: float
    action: str
    last_at: datetime
    first_at: datetime
    operation: str = ""
    run: str = ""
    """The newest run that reached it; empty outside runs."""
    events: int = 0
    runs: set[str] = field(default_factory=set)

    @property
    def numbers(self) -> str:
        """`5.02 of 5.00 USD`."""
        return spend_text(self.spent, self.limit, self.measure)

    @property
    def action_words(self) -> str:
        """What followed the newest time."""
        return self.action.replace("_", " ")


def caps_reached(environment: str, *, start: datetime, end: datetime) -> list[CapReached]:
    """The accounts that reached a cap in [start, end), the newest first, of the newest `EVENTS_READ` events. One query;
    index `fact_by_event`.
    """
    found = Fact.objects.filter(environment=environment, event=_EVENT, at_us__gte=to_us(start), at_us__lt=to_us(end))
    return _rows(found.select_related("agent").order_by("-at_us", "-id")[:EVENTS_READ])


def _rows(facts: Iterable[Fact]) -> list[CapReached]:
    rows: dict[tuple[str, str, str], CapReached] = {}
    for fact in facts:
        said, at = _SAID.of(fact.attributes), from_us(fact.at_us)
        service, account, measure = fact.agent.service, text_of(said["account"]), text_of(said["measure"])
        row = rows.get((service, account, measure))
        if row is None:
            if len(rows) >= ACCOUNTS_MOST:
                continue
            row = rows[service, account, measure] = CapReached(
                service=service,
                account=account,
                measure=measure,
                spent=number_or_none(said["spent"]) or 0.0,
                limit=number_or_none(said["limit"]) or 0.0,
                action=text_of(said["action"]),
                last_at=at,
                first_at=at,
                operation=fact.operation,
                run=fact.run,
            )
        row.events, row.first_at = row.events + 1, at
        row.runs.update({fact.run} - {""})
    return list(rows.values())

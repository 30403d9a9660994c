"""What the playbook did about failures in a range: which verdict, which compensation, how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from events.models import Fact
from events.moments import from_us, to_us
from events.store.stored_json import text_at
from recovery_ops.rules.events import CompensationFinished
from recovery_ops.wire import names

READ = 5_000
_EVENT = names.EVENTS[CompensationFinished].name
_TOLD = {name: names.attribute_of(CompensationFinished, name) for name in ("verdict", "compensation", "outcome")}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedRow:
    """So often a verdict was answered with a compensation that ended so; as they were sent, empty where not said."""

    verdict: str
    compensation: str
    outcome: str
    count: int
    last: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The most frequent first. `is_cut`: only the newest 5,000 of the range were read."""

    rows: Sequence[PlayedRow]
    is_cut: bool


def played(environment: str, *, start: datetime, end: datetime) -> Played:
    """What was done in [start, end). One query; index `fact_by_event`."""
    done = Fact.objects.filter(environment=environment, event=_EVENT, at_us__gte=to_us(start), at_us__lt=to_us(end))
    told = done.annotate(**{f"said_{name}": text_at(key) for name, key in _TOLD.items()})
    newest = list(told.order_by("-at_us").values_list(*(f"said_{name}" for name in _TOLD), "at_us")[: READ + 1])
    found: dict[tuple[str, str, str], list[int]] = {}
    for verdict, compensation, outcome, at_us in newest[:READ]:
        found.setdefault((verdict or "", compensation or "", outcome or ""), []).append(at_us)
    rows = [
        PlayedRow(verdict=key[0], compensation=key[1], outcome=key[2], count=len(times), last=from_us(max(times)))
        for key, times in found.items()
    ]
    ordered = sorted(rows, key=lambda row: (-row.count, row.verdict, row.compensation, row.outcome))
    return Played(rows=ordered, is_cut=len(newest) > READ)

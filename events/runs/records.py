"""Everything that is stored of a run as it was sent: for its trace, its attributes, and for files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from events.moments import from_us
from events.runs.stored import facts_of_run
from recovery_ops.wire import names

RECORDS_MOST = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One fact. `attributes` are under the names that travel; ids are lower-case hexadecimal, or empty."""

    fact_id: int
    at: datetime
    event: str
    severity: int
    operation: str
    category: str
    instance: str
    trace_id: str
    span_id: str
    body: str
    attributes: Mapping[str, Any]

    @property
    def is_error(self) -> bool:
        """Whether its severity is that of an error (OpenTelemetry: 17 and above)."""
        return self.severity >= 17

    @property
    def full_name(self) -> str:
        """The event as it travels."""
        return f"{names.PREFIX}{self.event}"


def records_of(environment: str, run: str, *, most: int = RECORDS_MOST) -> list[RunRecord]:
    """The first facts of a run, in order; one more than `most` where it has more. One query; `fact_by_run`."""
    found = facts_of_run(environment, run).select_related("agent")
    return [
        RunRecord(
            fact_id=one.pk,
            at=from_us(one.at_us),
            event=one.event,
            severity=one.severity,
            operation=one.operation,
            category=one.category,
            instance=one.agent.instance,
            trace_id=one.trace_id,
            span_id=one.span_id,
            body=one.body,
            attributes=one.attributes if isinstance(one.attributes, dict) else {},
        )
        for one in found.order_by("at_us", "sequence_number", "pk")[: most + 1]
    ]

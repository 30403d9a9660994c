"""What stored events that became of another kind change in the folded tables."""

from __future__ import annotations

from dataclasses import dataclass, field

from events.ingest.records import Row
from events.issues.fold import FAILED, FailureCell, name_of
from events.models import MinuteSum, SpanSum
from events.projections.fold import fold
from events.projections.summing import COUNTERS, Sums, dimensions_digest, over_spans
from events.runs.fold import RunName


@dataclass(slots=True)
class Corrections:
    """Signed differences of sums. Runs and minutes of failures are folded anew: no difference undoes a least moment."""

    sums: Sums = field(default_factory=dict)
    runs: set[RunName] = field(default_factory=set)
    failures: set[FailureCell] = field(default_factory=set)

    def add(self, row: Row, times: int) -> None:
        """A row counts so many times more than before."""
        for name, counters in fold([row]).sums.items():
            known = self.sums.get(name) or [0] * len(counters)
            self.sums[name] = [one + times * other for one, other in zip(known, counters, strict=True)]
        if row.event == FAILED:
            self.failures.add(name_of(row).cell)
        if row.run:
            self.runs.add(RunName(row.environment, row.run))

    def forget_empty(self) -> None:
        """Delete sums that count nothing any more: once an event has another operation or category. In a transaction,
        when the differences are stored.
        """
        nothing = dict.fromkeys(COUNTERS, 0)
        for name, counters in self.sums.items():
            if any(one < 0 for one in counters):
                whose = {"environment": name.environment, "minute": name.minute}
                MinuteSum.objects.filter(**whose, dimensions=dimensions_digest(name[2:]), **nothing).delete()
        for span in over_spans(self.sums, {}):
            whose = dict(zip(("environment", "view", "minutes", "span"), span[:4], strict=True))
            SpanSum.objects.filter(**whose, dimensions=dimensions_digest(span[4:]), **nothing).delete()

    def __bool__(self) -> bool:
        return bool(self.sums or self.runs or self.failures)

"""What narrows a list of breakers beside their state: words, a service, a group of instances, a provider."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from events.pages.narrowing import Narrowed
from events.rows import BreakerRow

ASKS = {
    "q": "text in the name of the breaker or of one of its operations",
    "service": "service that has the breaker",
    "group": "group that has the breaker",
    "provider": "provider reported for the breaker in the last 24 h",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerFilter(Narrowed):
    """What is asked for; empty asks for nothing."""

    q: str = ""
    service: str = ""
    group: str = ""
    provider: str = ""

    def keeps(self, row: BreakerRow, *, but: str = "") -> bool:
        """Whether a breaker, with its providers, is one of these; `but` is what does not count."""
        return all(self._keeps(name, row) for name in ASKS if name != but)

    def _keeps(self, name: str, row: BreakerRow) -> bool:
        if name == "q":
            return self.q.lower() in " ".join((row.name, *row.operations)).lower()
        asked = getattr(self, name)
        return not asked or asked in _said(row, name)

    def options(self, name: str, rows: Iterable[BreakerRow]) -> list[tuple[str, int]]:
        """What may be asked for by this name, and how many of the rows that the rest leaves would be shown."""
        every = list(rows)
        left = Counter(one for row in every if self.keeps(row, but=name) for one in _said(row, name))
        return [(one, left[one]) for one in sorted({one for row in every for one in _said(row, name)})]

    @property
    def words(self) -> dict[str, str]:
        """Each clause that is asked for, by its name in addresses."""
        return {name: f"“{value}”" if name == "q" else f"{name} {value}" for name, value in self.said.items()}


def _said(row: BreakerRow, name: str) -> Sequence[str]:
    found: Sequence[str] = getattr(row, f"{name}s")
    return found

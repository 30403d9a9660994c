"""How measurements are told: as rows for a table and for JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured thing. `beside` is the same work without us, `aim` what we want to reach, in the same unit.

    `value` is None for what could not be measured; `note` then says why. `middle` is the median where `value` is the
    least of many rounds, `of_floor` the multiple of a hand-written least.
    """

    what: str
    value: float | None
    unit: str
    beside: float | None = None
    aim: float | None = None
    note: str = ""
    middle: float | None = None
    of_floor: float | None = None

    @property
    def ratio(self) -> float | None:
        """How it compares with the same work without us."""
        return self.value / self.beside if self.beside and self.value is not None else None


@dataclass(slots=True)
class Report:
    """The figures of one measurement."""

    name: str
    figures: list[Figure] = field(default_factory=list)

    def add(self, what: str, value: float, unit: str, **more: Any) -> None:
        """One more figure."""
        self.figures.append(Figure(what, value, unit, **more))

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {"name": self.name, "figures": [asdict(one) | {"ratio": one.ratio} for one in self.figures]}

    @classmethod
    def read(cls, document: dict[str, Any]) -> Self:
        """What another process made a document of."""
        names = {one.name for one in fields(Figure)}
        read = [Figure(**{name: value for name, value in one.items() if name in names}) for one in document["figures"]]
        return cls(document["name"], read)


def percentile(values: list[float], share: float) -> float:
    """The value below which this share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

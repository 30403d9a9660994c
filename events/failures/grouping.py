"""Which failures are one cause where people said otherwise than their fingerprints: a name for each, nothing stored.

Whoever keeps what people said hands it in; without it a cause is a fingerprint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from events.failures.rows import Field, Sample

SPLIT_FIELDS = (Field.OPERATION, Field.BACKEND)
"""What failures of one fingerprint may be told apart by: what every count of them knows."""


@dataclass(frozen=True, slots=True)
class Split:
    """Failures with this value of a field are a cause of their own, `name`."""

    field: Field
    value: str
    name: str


@dataclass(frozen=True, slots=True)
class Grouping:
    """`splits` by the fingerprint they take from, `merged` from a cause to the one it belongs to. Splits come first."""

    merged: Mapping[str, str] = field(default_factory=dict)
    splits: Mapping[str, Sequence[Split]] = field(default_factory=dict)

    def head(self, name: str) -> str:
        """The cause that a name belongs to in the end."""
        seen = {name}
        while (into := self.merged.get(name)) is not None and into not in seen:
            seen.add(into)
            name = into
        return name

    def name_of(self, fingerprint: str, values: Mapping[Field, str]) -> str:
        """The cause of a failure with this fingerprint and these values."""
        for one in self.splits.get(fingerprint, ()):
            if values.get(one.field) == one.value:
                return self.head(one.name)
        return self.head(fingerprint)

    def parts(self, name: str) -> list[str]:
        """The causes that belong to one, itself first."""
        return [name, *(one for one in self.merged if one != name and self.head(one) == name)]

    def split_from(self, name: str) -> str:
        """The fingerprint whose failures this cause is a part of; empty where it is whole."""
        return next((one for one, parts in self.splits.items() if any(part.name == name for part in parts)), "")

    def of(self, sample: Sample) -> Sample:
        """The same failures under the names of their causes."""
        if not self.merged and not self.splits:
            return sample
        seen = [one._replace(fingerprint=self.name_of(one.fingerprint, one.values)) for one in sample.seen]
        return Sample(seen=seen, grid=sample.grid)


AS_SENT = Grouping()
"""Nobody said anything: causes are fingerprints."""


def split_name(fingerprint: str, value: str) -> str:
    """What the part of a fingerprint with this value is called."""
    return f"{fingerprint}~{value}"

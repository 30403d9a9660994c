"""What narrows a list of capacity events, on its page, in its files and for programs alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Self

from events.capacity.rows import CapacityEventRow, Owner, is_about

GOING_ON, OVER = "going_on", "over"
ASKS = {
    "provider": "only what is an outage of this provider",
    "model": "only what is an outage of this model",
    "region": "only what failed in this region",
    "code": "only what was answered with this HTTP status, as 529",
    "owner": f"only what is one of {', '.join(Owner)}",
    "state": f"{GOING_ON} or {OVER}",
    "breaker": "only what opened this breaker",
    "service": "only what reached this service",
    "runs": "only what reached so many runs at least",
    "lasted_s": "only what lasted so many seconds at least, or does so far",
}
NUMBERS = ("runs", "lasted_s")
_TEXT_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrow:
    """What is asked for, as it was written; empty asks for nothing."""

    provider: str = ""
    model: str = ""
    region: str = ""
    code: str = ""
    owner: str = ""
    state: str = ""
    breaker: str = ""
    service: str = ""
    runs: str = ""
    lasted_s: str = ""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """What an address asks for; what is no number, owner or state asks for nothing."""
        said = {name: given.get(name, "").strip()[:_TEXT_CHARS] for name in ASKS}
        known = {"owner": {*map(str, Owner)}, "state": {GOING_ON, OVER}}
        wrong = {name for name, words in known.items() if said[name] not in words}
        wrong |= {name for name in NUMBERS if not _is_number(said[name])}
        return cls(**(said | dict.fromkeys(wrong, "")))

    @property
    def said(self) -> dict[str, str]:
        """What is asked for, by name."""
        return {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name)}

    def without(self, name: str) -> Narrow:
        """The same, with one thing not asked for."""
        return replace(self, **{name: ""})

    def keeps(self, row: CapacityEventRow, now: datetime) -> bool:
        """Whether an event is one of those that are asked for."""
        return (
            is_about(row, provider=self.provider, region=self.region)
            and (not self.model or self.model in {part.model for part in row.parts or (row,)})
            and (not self.code or self.code in row.codes)
            and self.owner in ("", row.owner)
            and (not self.state or row.is_over == (self.state == OVER))
            and (not self.breaker or self.breaker in row.breakers)
            and (not self.service or self.service in row.services)
            and row.runs >= float(self.runs or 0)
            and row.lasted(now).total_seconds() >= float(self.lasted_s or 0)
        )


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and float(text) >= 0
    except ValueError:
        return False

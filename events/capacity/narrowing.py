"""What narrows a list of capacity events, on its page, in its files and for programs alike."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from events.capacity.rows import CapacityEventRow, Owner, is_about
from events.pages.narrowing import Narrowed, is_number

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
_WORDS = {"owner": tuple(map(str, Owner)), "state": (GOING_ON, OVER)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrow(Narrowed):
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
    def is_readable(cls, name: str, text: str) -> bool:
        """A number, an owner or a state has to be one."""
        return is_number(text) if name in NUMBERS else text in _WORDS.get(name, (text,))

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

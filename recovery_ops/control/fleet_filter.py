"""Which instances a list of the fleet keeps, for its page, its files and the API alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Self

from events.rows import AgentRow

REPORTING, UNREACHABLE = "reporting", "unreachable"
STATES = (REPORTING, "starting", "running", "draining", UNREACHABLE)
"""What an instance says of itself; `reporting` is every one that can be reached."""
ASKS = {
    "service": "only instances of this service",
    "group": "only instances of this group",
    "version": "only instances of this version",
    "state": f"one of {', '.join(STATES)}",
    "silent_s": "only instances that were last heard of so many seconds ago at least",
    "q": "only instances with this in their name",
}
_TEXT_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFilter:
    """What is asked for; empty asks for nothing."""

    service: str = ""
    group: str = ""
    version: str = ""
    state: str = ""
    silent_s: str = ""
    q: str = ""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """What an address asks for; a number or a status that is none asks for nothing."""
        said = {name: given.get(name, "").strip()[:_TEXT_CHARS] for name in ASKS}
        if said["state"] not in STATES:
            said["state"] = ""
        if not _is_number(said["silent_s"]):
            said["silent_s"] = ""
        return cls(**said)

    @property
    def said(self) -> dict[str, str]:
        """What is asked for, by name."""
        return {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name)}

    def without(self, name: str) -> FleetFilter:
        """The same, with one thing not asked for."""
        return replace(self, **{name: ""})

    def keeps(self, agent: AgentRow, now: datetime) -> bool:
        """Whether an instance is one of those that are asked for."""
        silent_s = (now - agent.last_seen).total_seconds()
        return (
            self.service in ("", agent.service)
            and self.group in ("", agent.group)
            and self.version in ("", agent.version)
            and (self.state in ("", status_of(agent)) or (self.state == REPORTING and agent.is_reachable))
            and (not self.silent_s or silent_s >= float(self.silent_s))
            and self.q.lower() in agent.instance.lower()
        )


def status_of(agent: AgentRow) -> str:
    """What an instance says of itself; silence counts more than its last word."""
    return (agent.status or REPORTING) if agent.is_reachable else UNREACHABLE


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and float(text) >= 0
    except ValueError:
        return False

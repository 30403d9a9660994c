"""Which instances a list of the fleet keeps, for its page, its files and the API alike."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from events.pages.narrowing import Narrowed, is_number
from events.rows import AgentRow

REPORTING, UNREACHABLE, RETIRED = "reporting", "unreachable", "retired"
STATES = (
    REPORTING,
    "starting",
    "running",
    "draining",
    "drained",
    "stopping",
    "stopped_by_operator",
    UNREACHABLE,
    RETIRED,
)
"""What an instance says of itself; `reporting` is every one that can be reached, `retired` what people called gone:
only who asks for it is shown it.
"""
ASKS = {
    "service": "only instances of this service",
    "group": "only instances of this group",
    "version": "only instances of this version",
    "region": "only instances of this region",
    "label": "only instances with this label",
    "state": f"one of {', '.join(STATES)}",
    "silent_s": "only instances last seen at least this many seconds ago",
    "q": "only instances whose name contains this text",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFilter(Narrowed):
    """What is asked for; empty asks for nothing."""

    service: str = ""
    group: str = ""
    version: str = ""
    region: str = ""
    label: str = ""
    state: str = ""
    silent_s: str = ""
    q: str = ""

    @classmethod
    def is_readable(cls, name: str, text: str) -> bool:
        """A number or a status has to be one."""
        return is_number(text) if name == "silent_s" else name != "state" or text in STATES

    @property
    def is_of_retired(self) -> bool:
        """Whether it asks for those that the rest of the console does not miss."""
        return self.state == RETIRED

    def keeps(self, agent: AgentRow, now: datetime, labels: Collection[str] = ()) -> bool:
        """Whether an instance with these labels is one of those that are asked for."""
        silent_s = (now - agent.last_seen).total_seconds()
        return (
            self.service in ("", agent.service)
            and self.group in ("", agent.group)
            and self.version in ("", agent.version)
            and self.region in ("", agent.region)
            and (not self.label or self.label.lower() in labels)
            and (self.state in ("", status_of(agent)) or (self.state == REPORTING and agent.is_reachable))
            and (not self.silent_s or silent_s >= float(self.silent_s))
            and self.q.lower() in agent.instance.lower()
        )


def status_of(agent: AgentRow) -> str:
    """What an instance says of itself; silence counts more than its last word, and what people said more than that."""
    if agent.retired_at is not None:
        return RETIRED
    return (agent.status or REPORTING) if agent.is_reachable else UNREACHABLE


def status_text(agent: AgentRow) -> str:
    """The same as words, for screens."""
    return status_of(agent).replace("_", " ")

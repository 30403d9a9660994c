"""Which instances tell their own failures, so that nothing is derived from their plain instrumentation as well.

An agent with our runtime may also be instrumented, and its spans tell the same failures in other words; nothing in them
says which fact is which. Whoever has sent a heartbeat has the runtime.
"""

from __future__ import annotations

import threading
import time

from events.ingest.records import AgentName, Intake
from events.live.giving_back import give_back
from events.models import Agent
from recovery_ops.wire import names

ASK_AGAIN_S = 30.0
_MOST = 10_000


class Reporters:
    """Remembers who has sent a heartbeat; asks the database about everybody else, each at most every 30 s."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[AgentName, float] = {}
        """Until when it is known not to be one; infinite for one that is."""

    def leave_out(self, intake: Intake) -> None:
        """Drop what was derived for instances that tell it themselves."""
        derived = [row for row in (*intake.rows, *intake.held) if names.DERIVED_FROM in row.attributes]
        if not derived:
            return
        beating = {row.agent for row in intake.rows if row.event == "instance_heartbeat"}
        telling = beating | self._telling({row.agent for row in derived} - beating)
        if telling:
            kept = [row for row in intake.rows if row.agent not in telling or names.DERIVED_FROM not in row.attributes]
            intake.ignored += len(intake.rows) - len(kept)
            intake.rows = kept
            intake.held = [row for row in intake.held if row.agent not in telling]

    def forget(self) -> None:
        """Ask anew about everybody."""
        with self._lock:
            self._known.clear()

    def _telling(self, agents: set[AgentName]) -> set[AgentName]:
        now = time.monotonic()
        unknown = [agent for agent in agents if self._known.get(agent, 0.0) <= now]
        if unknown:
            found = _with_heartbeats(unknown)
            with self._lock:
                if len(self._known) + len(unknown) > _MOST:
                    self._known.clear()
                self._known.update({agent: float("inf") if agent in found else now + ASK_AGAIN_S for agent in unknown})
        return {agent for agent in agents if self._known.get(agent) == float("inf")}


reporters = Reporters()
"""Of this process."""


def _with_heartbeats(agents: list[AgentName]) -> set[AgentName]:
    try:
        stored = Agent.objects.filter(
            environment=agents[0].environment,
            service__in={agent.service for agent in agents},
            instance__in={agent.instance for agent in agents},
            heartbeat_us__isnull=False,
        )
        return {AgentName(*found) for found in stored.values_list("environment", "service", "instance")}
    finally:
        give_back()

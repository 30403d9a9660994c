"""What the page of a run says of a stop of its agent: who stopped it, and what the agent reports."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from events.queries import agent_named
from events.rows import AgentRow
from events.runs.rows import RunStory
from events.wording import lasted_text
from recovery_ops.control.agents.models.pauses import WorkPause
from recovery_ops.control.agents.pause_status import heed_of_pause
from recovery_ops.rules.desired_state import STOP
from recovery_ops.rules.enums import RunStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTold:
    """A stop that reached a run, or is to reach it; `state` is `aborted`, `unknown`, or why the agent is not done."""

    stop: WorkPause
    agent: AgentRow | None
    state: str
    mark: str
    words: str


def stop_told(environment: str, story: RunStory, now: datetime) -> StopTold | None:
    """The newest stop of the run's agent while the run was in flight; None where there was none. One query, or two."""
    if story.ended is not None and story.status is not RunStatus.CANCELLED:
        return None
    stops = WorkPause.objects.filter(environment=environment, kind=STOP, service=story.service)
    stops = stops.filter(instance__in=("", story.holder), at__gte=story.started)
    stops = stops.live(environment) if story.ended is None else stops.filter(at__lte=story.ended)
    stop = stops.order_by("-at", "-pk").first()
    if stop is None:
        return None
    agent = agent_named(environment, story.service, story.holder, now=now)
    if story.ended is not None:
        words = f"{story.holder} aborted the run after {lasted_text((story.ended - stop.at).total_seconds())}."
        return StopTold(stop=stop, agent=agent, state="aborted", mark="closed", words=words)
    if agent is None:
        return StopTold(stop=stop, agent=None, state="unknown", mark="unknown", words=f"{story.holder} is not known.")
    heed = heed_of_pause(agent, stop)
    words = f"{story.holder}: {heed.label}; {heed.words}"
    return StopTold(stop=stop, agent=agent, state=heed.reason.value, mark=heed.mark, words=words)

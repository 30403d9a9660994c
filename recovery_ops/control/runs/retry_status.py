"""Runs that are to be begun again: which may be, by which instance, and what is observed of the wish."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from events.queries import agent_named, fleet
from events.rows import AgentRow
from events.runs.again import Again, begun_again
from events.runs.rows import LOST, RunStory
from events.wording import lasted_text
from recovery_ops.control.desired_state.document import RETRIES_KEPT
from recovery_ops.control.runs.models.retries import RunRetry
from recovery_ops.control.runs.status import Standing
from recovery_ops.rules.enums import RunStatus

EXPIRY = "expiry"
"""Who ends wishes that nobody obeyed in time."""
_ENDED_BADLY = (RunStatus.FAILED, RunStatus.STOPPED, RunStatus.CANCELLED)
_FORGOTTEN = "Expired after two days; request it again."
_SLACK = timedelta(milliseconds=100)
_PROCESS = re.compile(r"(-\d+)?(~\d+-[0-9a-f]+)*$")
"""What tells the processes of one machine apart in the names that the runtime gives: `host-4711`, and a fork's mark."""


class RetryFault(StrEnum):
    """Why nobody can begin a run again, as a code."""

    RUNS = "runs"
    ENDED_WELL = "ended_well"
    NOBODY_THERE = "nobody_there"
    NOT_SAID = "not_said"
    """Its agents do not tell whether they begin runs again."""
    NO_HOOK = "no_hook"


class RetryState(StrEnum):
    """What is observed of a wish that a run begins again, as a code."""

    TAKEN_BACK = "taken_back"
    FORGOTTEN = "forgotten"
    BEGUN = "begun"
    RAISED = "raised"
    SILENT = "silent"
    UNHEARD = "unheard"
    PAUSED = "paused"
    HEARD = "heard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """By whom a run can be begun again, the best first; where it cannot be, why not, in words and as a code."""

    instances: Sequence[AgentRow] = ()
    why_not: str = ""
    fault: RetryFault | None = None
    is_own: bool = False
    """Whether the first is the instance that had it in hand."""
    is_over_badly: bool = True
    """Whether it failed, was stopped or called off, or its process was gone in the middle of it."""


def _over_fault(
    story: RunStory, standing: Standing, agents: Iterable[AgentRow], now: datetime
) -> tuple[RetryFault, str] | None:
    """Why nobody can have this run begun again, whoever is there to do it; None where they can."""
    if story.ended is None and standing.word != LOST and not _is_left(story, agents, now):
        return RetryFault.RUNS, f"The run is active ({standing.word}); abort it first."
    if story.ended is not None and story.status not in _ENDED_BADLY:
        return RetryFault.ENDED_WELL, "The run has completed; there is nothing to retry."
    return None


def _is_left(story: RunStory, agents: Iterable[AgentRow], now: datetime) -> bool:
    """Whether the process that had it in hand is gone, and another one goes by the name of its instance since."""
    one = next((one for one in agents if (one.service, one.instance) == (story.service, story.holder)), None)
    if one is None or one.heartbeat_age_s is None:
        return False
    # Both by the agent's own clock.
    up_since = now - timedelta(seconds=one.heartbeat_age_s + one.uptime_s)
    return (story.last_begun or story.started) < up_since - _SLACK


def chance_of(story: RunStory, standing: Standing, agents: Sequence[AgentRow], now: datetime) -> Chance:
    """Who can begin a run again, of a whole fleet: its own instance, one beside it, another one of its service."""
    if found := _over_fault(story, standing, agents, now):
        return Chance(fault=found[0], why_not=found[1], is_over_badly=False)
    there = [one for one in agents if one.service == story.service and one.is_reachable]
    if not there:
        why_not = f"No instance of {story.service} is reporting."
        return Chance(fault=RetryFault.NOBODY_THERE, why_not=why_not)
    able = [one for one in there if one.takes_retries]
    if not able:
        return _no_chance(story.service, there)
    able.sort(key=lambda one: (one.instance != story.holder, _place(one.instance) != _place(story.holder)))
    return Chance(instances=able, is_own=able[0].instance == story.holder)


def _no_chance(service: str, there: Sequence[AgentRow]) -> Chance:
    if all(one.takes_retries is None for one in there):
        why_not = f"The version of {service} does not report retry support."
        return Chance(fault=RetryFault.NOT_SAID, why_not=why_not)
    why_not = f"{service} does not support retries; its runtime has no on_retry."
    return Chance(fault=RetryFault.NO_HOOK, why_not=why_not)


def _place(instance: str) -> str:
    return _PROCESS.sub("", instance)


def fleet_for(environment: str, stories: Iterable[RunStory], now: datetime) -> Sequence[AgentRow]:
    """Who there is to begin runs again; not asked for where all of them go on or went well. One query, or none."""
    ended = [one.ended is None or one.status in _ENDED_BADLY for one in stories]
    return fleet(environment, now=now) if any(ended) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryTold:
    """What the page of a run says of somebody's wish that it begins again."""

    wish: RunRetry
    state: RetryState
    mark: str
    words: str
    begun_after_s: float | None = None
    """How long after the wish it was begun; None where it was not."""
    can_withdraw: bool
    is_waiting: bool
    """Whether it rests on the run still: then nobody is asked a second time."""


def retry_told(environment: str, story: RunStory, now: datetime) -> RetryTold | None:
    """The newest wish that this run begins again, and what came of it; None where there was none."""
    wish = RunRetry.objects.filter(environment=environment, run=story.run).order_by("-at", "-pk").first()
    if wish is None:
        return None
    if wish.ended_at is not None and wish.begun_at is None:
        return _forgotten(wish) if wish.ended_by == EXPIRY else _taken_back(wish)
    again = begun_again(environment, {wish.run: wish.at})[wish.run]
    begun = again.begun or wish.begun_at
    if begun is not None:
        return _begun(wish, (begun - wish.at).total_seconds())
    if wish.at <= now - RETRIES_KEPT:
        return _forgotten(wish)
    state, mark, words = _observed(environment, wish, again, now)
    return RetryTold(wish=wish, state=state, mark=mark, words=words, can_withdraw=True, is_waiting=True)


def _begun(wish: RunRetry, after_s: float) -> RetryTold:
    after = "immediately" if after_s < 1 else f"after {lasted_text(after_s)}"
    told = _over(wish, RetryState.BEGUN, "closed", f"Run restarted {after}.")
    return replace(told, begun_after_s=after_s)


def _forgotten(wish: RunRetry) -> RetryTold:
    return _over(wish, RetryState.FORGOTTEN, "unknown", _FORGOTTEN)


def _taken_back(wish: RunRetry) -> RetryTold:
    return _over(wish, RetryState.TAKEN_BACK, "unknown", f"Cancelled by {wish.ended_by}.")


def _over(wish: RunRetry, state: RetryState, mark: str, words: str) -> RetryTold:
    return RetryTold(wish=wish, state=state, mark=mark, words=words, can_withdraw=False, is_waiting=False)


def _observed(environment: str, wish: RunRetry, again: Again, now: datetime) -> tuple[RetryState, str, str]:
    """How it stands with a wish that rests on its run: as a code, as a mark and in words."""
    name = wish.instance
    if again.failure:
        words = f"Restart on {name} failed: {again.failure}. Cancel the retry to request it again."
        return RetryState.RAISED, "open", words
    agent = agent_named(environment, wish.service, name, now=now)
    if agent is None or not agent.is_reachable:
        return RetryState.SILENT, "unknown", f"{name} stopped reporting; it receives the retry on its return."
    if agent.revision < wish.revision:
        return RetryState.UNHEARD, "half_open", f"Pending on {name}: it has applied revision {agent.revision}."
    if agent.takes_new_work is False:
        words = f"{name} has received the retry; new runs are paused."
        return RetryState.PAUSED, "half_open", words
    return RetryState.HEARD, "half_open", f"{name} has received the retry; restart pending."


def retries_asked(environment: str, stories: Iterable[RunStory], now: datetime) -> frozenset[str]:
    """Which of these runs are to begin again and have not told that, by their names. Two queries, one or none."""
    ended = {one.run: one.ended for one in stories if one.ended is None or one.status in _ENDED_BADLY}
    if not ended:
        return frozenset()
    held = RunRetry.objects.filter(
        environment=environment, run__in=list(ended), ended_at=None, at__gt=now - RETRIES_KEPT
    )
    wanted = dict(held.values_list("run", "at"))
    return frozenset(run for run, again in begun_again(environment, wanted).items() if again.begun is None)

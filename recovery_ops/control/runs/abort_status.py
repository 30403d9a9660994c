"""What pages say of a wish that a run ends: what is observed of it, never what is wished."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from events.queries import agent_named
from events.runs.rows import RunStory
from events.wording import lasted_text
from recovery_ops.control.desired_state.document import ABORTS_KEPT
from recovery_ops.control.runs.models.aborts import RunAbort
from recovery_ops.rules.enums import RunStatus


class Observed(StrEnum):
    """What came of a wish that a run ends, as a code beside the words."""

    WITHDRAWN = "withdrawn"
    CALLED_OFF = "called_off"
    ENDED = "ended"
    EXPIRED = "expired"
    UNLED = "unled"
    SILENT = "silent"
    HEARD = "heard"
    UNHEARD = "unheard"


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTold:
    """What the page of a run says of somebody's wish that it ends."""

    wish: RunAbort
    state: Observed
    mark: str
    words: str
    can_withdraw: bool


def abort_told(environment: str, story: RunStory, now: datetime) -> AbortTold | None:
    """The newest wish that this run ends, and what came of it; None where there was none."""
    wish = RunAbort.objects.filter(environment=environment, run=story.run).order_by("-at", "-pk").first()
    if wish is None:
        return None
    if wish.withdrawn_at is not None:
        words = f"Cancelled by {wish.withdrawn_by}."
        return AbortTold(wish=wish, state=Observed.WITHDRAWN, mark="unknown", words=words, can_withdraw=False)
    state, mark, words = _observed(environment, story, wish, now)
    return AbortTold(wish=wish, state=state, mark=mark, words=words, can_withdraw=wish.at > now - ABORTS_KEPT)


def _observed(environment: str, story: RunStory, wish: RunAbort, now: datetime) -> tuple[Observed, str, str]:
    if story.ended is not None and story.ended >= wish.at:
        took = lasted_text((story.ended - wish.at).total_seconds())
        if story.status is RunStatus.CANCELLED:
            return Observed.CALLED_OFF, "closed", f"Run aborted after {took}."
        return Observed.ENDED, "closed", f"Run ended before the abort, after {took}: {story.status or 'ended'}."
    if wish.at <= now - ABORTS_KEPT:
        return Observed.EXPIRED, "unknown", "Expired after two days; request it again."
    agent = agent_named(environment, story.service, story.holder, now=now)
    if agent is None or not agent.is_follower:
        return Observed.UNLED, "unknown", f"{story.holder} is not connected to a console; the abort cannot reach it."
    if not agent.is_reachable:
        return Observed.SILENT, "unknown", f"{story.holder} stopped reporting; it receives the abort on its return."
    if agent.revision >= wish.revision:
        words = f"{story.holder} has received the abort; a call in progress completes first."
        return Observed.HEARD, "half_open", words
    return Observed.UNHEARD, "half_open", f"Pending on {story.holder}: it has applied revision {agent.revision}."


def aborts_asked(environment: str, stories: Iterable[RunStory], now: datetime) -> frozenset[str]:
    """Which of these runs have not ended although somebody wants them to, by their names. One query, or none."""
    names = [one.run for one in stories if one.ended is None]
    if not names:
        return frozenset()
    held = RunAbort.objects.filter(environment=environment, run__in=names, withdrawn_at=None, at__gt=now - ABORTS_KEPT)
    return frozenset(held.values_list("run", flat=True))

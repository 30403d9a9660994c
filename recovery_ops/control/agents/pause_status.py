"""What is observed of paused and stopped agents: who follows, what is still in flight, and who is missing, by name.

A wish is never shown as reached: what counts is what an instance said of itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property

from django.db.models import Q

from events.rows import AgentRow
from events.wording import count_text
from recovery_ops.control.agents.models.pauses import WorkPause
from recovery_ops.control.desired_state.propagation import Named, Part, parts_of
from recovery_ops.rules.desired_state import Pause, winning_pause

EXPIRY = "expiry"
"""Who ends what has ended by its time."""
STOPPING, STOPPED_BY_OPERATOR = "stopping", "stopped_by_operator"
"""Status of a stopped instance, as it reports it itself."""
FOLLOWED_FOR = timedelta(minutes=15)
"""For how long the fleet tells who has not begun again after new work was resumed."""
_MOST_NAMED = 6
_AT_RECONNECT = "applies the change when it reconnects"


class Heed(StrEnum):
    """Progress of an instance with a pause or a resume."""

    STOPPED = "stopped"
    DRAINED = "drained"
    STOPPING = "stopping"
    DRAINING = "draining"
    ONLY_PAUSES = "only pauses"
    WAITED_FOR = "not heard yet"
    AT_WORK = "takes work all the same"
    UNTOLD = "does not tell"
    SILENT = "silent"
    BACK = "takes new work"


_LABELS: Mapping[Heed, str] = {
    Heed.STOPPED: "stopped",
    Heed.DRAINED: "drained",
    Heed.STOPPING: "stopping",
    Heed.DRAINING: "draining",
    Heed.ONLY_PAUSES: "paused, not stopped",
    Heed.WAITED_FOR: "pending",
    Heed.AT_WORK: "still accepts runs",
    Heed.UNTOLD: "not reported",
    Heed.SILENT: "unreachable",
    Heed.BACK: "accepts runs",
}
"""Labels on screens; the values of `Heed` are those of the API."""


class HeedReason(StrEnum):
    """Reason of the progress, as a code."""

    RUNS_IN_HAND = "runs_in_hand"
    NONE_LEFT = "none_left"
    NOT_CONFIRMED = "not_confirmed"
    OWN_CEILING = "own_ceiling"
    BEGINS_RUNS = "begins_runs"
    UNREACHABLE = "unreachable"
    NO_FOLLOWER = "no_follower"
    OLD_VERSION = "old_version"
    REFUSED = "refused"
    HEARD = "heard"
    OLDER_REVISION = "older_revision"
    NOTHING_APPLIED = "nothing_applied"


_AT_END = (Heed.STOPPED, Heed.DRAINED, Heed.BACK)
_IN_FLIGHT = (Heed.STOPPING, Heed.DRAINING)
_FILLS: Mapping[Heed, str] = {
    Heed.BACK: "",
    Heed.STOPPED: "",
    Heed.DRAINED: "",
    Heed.STOPPING: "url(#p-half_open)",
    Heed.DRAINING: "url(#p-half_open)",
    Heed.ONLY_PAUSES: "url(#p-open)",
    Heed.WAITED_FOR: "url(#p-pending)",
    Heed.AT_WORK: "url(#p-open)",
    Heed.UNTOLD: "url(#p-disabled)",
    Heed.SILENT: "url(#p-unknown)",
}
_MARKS: Mapping[Heed, str] = {
    Heed.BACK: "closed",
    Heed.STOPPED: "closed",
    Heed.DRAINED: "closed",
    Heed.STOPPING: "half_open",
    Heed.DRAINING: "half_open",
    Heed.ONLY_PAUSES: "open",
    Heed.WAITED_FOR: "half_open",
    Heed.AT_WORK: "open",
    Heed.UNTOLD: "unknown",
    Heed.SILENT: "unknown",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Heeded:
    """Progress of one instance with one pause or resume."""

    agent: AgentRow
    heed: Heed
    reason: HeedReason
    words: str
    is_of_resume: bool = False
    is_of_stop: bool = False

    @property
    def label(self) -> str:
        """Label of the progress on screens."""
        return _LABELS[self.heed]

    @property
    def mark(self) -> str:
        """The mark beside the label."""
        return _MARKS[self.heed]

    @property
    def is_done(self) -> bool:
        """Whether the instance follows; runs in flight may continue to their end."""
        return self.heed in (Heed.STOPPED, Heed.DRAINED, Heed.DRAINING, Heed.BACK)


def heed_of_pause(agent: AgentRow, pause: WorkPause) -> Heeded:
    """What an instance has said of a pause."""
    if (away := _away(agent)) is not None:
        return away
    if agent.takes_new_work is False and pause.is_stop:
        return _heed_of_stop(agent, pause.revision)
    if agent.takes_new_work is False and agent.runs_in_flight:
        return _heeded(
            agent, Heed.DRAINING, HeedReason.RUNS_IN_HAND, f"{count_text(agent.runs_in_flight, 'run')} in flight"
        )
    if agent.takes_new_work is False:
        return _heeded(agent, Heed.DRAINED, HeedReason.NONE_LEFT, "starts no new runs, none in flight")
    if agent.revision >= pause.revision and f"{pause.pk}.pause" in agent.clamped:
        return _heeded(agent, Heed.AT_WORK, HeedReason.OWN_CEILING, "a local limit of the agent rejects pauses")
    return _not_yet(agent, pause.revision)


def _heed_of_stop(agent: AgentRow, revision: int) -> Heeded:
    """What an instance that begins no runs has said of a stop: only its own word shows that its runs are aborted."""
    in_flight = f"{count_text(agent.runs_in_flight, 'run')} in flight"
    if agent.status == STOPPED_BY_OPERATOR:
        return _heeded(agent, Heed.STOPPED, HeedReason.NONE_LEFT, "makes no calls, no run in flight")
    if agent.status == STOPPING:
        return _heeded(agent, Heed.STOPPING, HeedReason.RUNS_IN_HAND, f"aborts its runs, {in_flight}")
    if agent.revision < revision:
        return _not_yet(agent, revision)
    words = f"starts no new runs; has not confirmed the stop, {in_flight}"
    return _heeded(agent, Heed.ONLY_PAUSES, HeedReason.NOT_CONFIRMED, words)


def heed_of_resume(agent: AgentRow, revision: int) -> Heeded:
    """What an instance has said of the end of a pause, which this revision brought."""
    if (away := _away(agent)) is not None:
        return away
    if agent.takes_new_work:
        return _heeded(agent, Heed.BACK, HeedReason.BEGINS_RUNS, "starts new runs")
    return _not_yet(agent, revision)


def _away(agent: AgentRow) -> Heeded | None:
    if not agent.is_reachable:
        return _heeded(agent, Heed.SILENT, HeedReason.UNREACHABLE, _AT_RECONNECT)
    if not agent.is_follower:
        return _heeded(agent, Heed.UNTOLD, HeedReason.NO_FOLLOWER, "sends telemetry only; applies no desired state")
    if agent.takes_new_work is None:
        return _heeded(
            agent, Heed.UNTOLD, HeedReason.OLD_VERSION, "its version does not report whether it accepts new runs"
        )
    return None


def _not_yet(agent: AgentRow, revision: int) -> Heeded:
    if agent.rejected_revision is not None and agent.rejected_revision >= revision:
        said = f"rejected revision {agent.rejected_revision}: {agent.rejected_reason}"
        return _heeded(agent, Heed.AT_WORK, HeedReason.REFUSED, said)
    if agent.revision >= revision:
        return _heeded(agent, Heed.WAITED_FOR, HeedReason.HEARD, "received the revision, has not confirmed it yet")
    if agent.revision:
        return _heeded(agent, Heed.WAITED_FOR, HeedReason.OLDER_REVISION, f"on revision {agent.revision}")
    return _heeded(agent, Heed.WAITED_FOR, HeedReason.NOTHING_APPLIED, "no revision applied yet")


def _heeded(agent: AgentRow, heed: Heed, reason: HeedReason, words: str) -> Heeded:
    return Heeded(agent=agent, heed=heed, reason=reason, words=words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Pauses or resumes of one request, their progress, and its bar."""

    pauses: Sequence[WorkPause]
    heeded: Sequence[Heeded]
    gone: Sequence[str] = ()
    """Named instances that have not reported within a day, or have stopped."""
    parts: Sequence[Part] = field(default_factory=list)

    @property
    def first(self) -> WorkPause:
        """The first pause; author, reason and end are the same of all."""
        return self.pauses[0]

    @property
    def is_over(self) -> bool:
        """Whether the pause is resumed or expired."""
        return self.first.ended_at is not None

    @property
    def names(self) -> Sequence[str]:
        """Names of the paused instances and services."""
        return [one.name for one in self.pauses]

    @property
    def total(self) -> int:
        """Number of reporting instances in the request."""
        return len(self.heeded)

    @property
    def done(self) -> int:
        """Number of instances that follow."""
        return sum(one.is_done for one in self.heeded)

    @property
    def head(self) -> str:
        """`2/3 paused`, `2/3 stopped`, `2/3 resumed`."""
        if not self.total:
            return "No instance reports"
        done = "resumed" if self.is_over else "stopped" if self.first.is_stop else "paused"
        return f"{self.done}/{self.total} {done}"

    @property
    def rest(self) -> str:
        """`, 1 draining with 3 runs in flight, 1 pending`."""
        said = ""
        for heed, found in self.by_heed.items():
            if heed in _IN_FLIGHT:
                said += f", {len(found)} {_LABELS[heed]} with {count_text(self.in_hand, 'run')} in flight"
            elif heed not in _AT_END:
                said += f", {len(found)} {_LABELS[heed]}"
        return said if self.total else "; the change applies as soon as one does."

    @property
    def plain(self) -> str:
        """The same as one sentence."""
        return self.head + self.rest

    @property
    def legend(self) -> Sequence[Part]:
        """The words of the bar."""
        return self.parts

    @property
    def in_hand(self) -> int:
        """Runs in flight of draining and stopping instances."""
        return sum(one.agent.runs_in_flight for one in self.heeded if one.heed in _IN_FLIGHT)

    @property
    def by_heed(self) -> dict[Heed, list[Heeded]]:
        """Instances by progress, in the order of the bar."""
        found = {heed: [one for one in self.heeded if one.heed is heed] for heed in _FILLS}
        return {heed: rows for heed, rows in found.items() if rows}

    def missing(self) -> list[tuple[str, list[Named], int]]:
        """Instances that do not follow yet: label, first names with reasons, number of further ones."""
        lists = []
        for heed, rows in self.by_heed.items():
            if heed in _AT_END:
                continue
            named = [Named(instance=one.agent.instance, note=one.words) for one in rows[:_MOST_NAMED]]
            lists.append((_LABELS[heed].capitalize(), named, max(0, len(rows) - _MOST_NAMED)))
        if self.gone:
            gone = [Named(instance=name, note=_AT_RECONNECT) for name in self.gone[:_MOST_NAMED]]
            lists.append(("Stopped reporting", gone, max(0, len(self.gone) - _MOST_NAMED)))
        return lists


class Pauses:
    """The pauses that hold in an environment now, and those that ended a short time ago. One query."""

    def __init__(self, environment: str, now: datetime) -> None:
        found = WorkPause.objects.filter(environment=environment).filter(
            Q(ended_at=None) | Q(ended_at__gt=now - FOLLOWED_FOR)
        )
        rows = [_as_noted(one, now) for one in found.order_by("-revision", "service", "instance")]
        self._now = now
        self.held = [one for one in rows if _is_held(one, now)]
        self._ended = [one for one in rows if not _is_held(one, now) and one.end_reason != "replaced"]

    @classmethod
    def in_snapshot(cls, pauses: Iterable[Pause], now: datetime) -> Pauses:
        """Those that hold, of a state that was read already; when each was asked for is not told in it. No query."""
        made = cls.__new__(cls)
        made._now, made._ended = now, []
        rows = [
            WorkPause(
                id=one.id,
                service=one.service,
                instance=one.instance,
                by=one.by,
                reason=one.reason,
                revision=one.revision,
                kind=one.kind,
                expires_at=None if one.expires_at is None else datetime.fromtimestamp(one.expires_at, UTC),
            )
            for one in pauses
        ]
        made.held = [one for one in rows if _is_held(one, now)]
        return made

    def of(self, agent: AgentRow) -> WorkPause | None:
        """The pause that is in force of an instance; None where nobody has paused it."""
        found = winning_pause(self._wishes, self._now.timestamp(), service=agent.service, instance=agent.instance)
        return None if found is None else next(one for one in self.held if one.pk == found.id)

    @cached_property
    def _wishes(self) -> Sequence[Pause]:
        """What holds, as agents read it: which of several wins is one rule for both."""
        return [one.as_desired() for one in self.held]

    def told(self, agent: AgentRow) -> Heeded | None:
        """What an instance has said of the wish that rests on it, or of the end of one that it does not follow yet."""
        held = self.of(agent)
        if held is not None:
            return replace(heed_of_pause(agent, held), is_of_stop=held.is_stop)
        ended = next((one for one in self._ended if one.is_for(agent.service, agent.instance)), None)
        if ended is None or agent.takes_new_work is not False:
            return None
        return replace(heed_of_resume(agent, ended.end_revision or ended.revision), is_of_resume=True)

    def activities(self, agents: Iterable[AgentRow]) -> list[Activity]:
        """What was asked for at once, the newest first; of what has ended that which somebody does not follow yet."""
        agents = list(agents)
        held = [self._activity(rows, agents) for rows in _together(self.held, lambda one: one.revision)]
        over = _together(self._ended, lambda one: one.end_revision or one.revision)
        ended = [self._activity(rows, agents) for rows in over]
        return [*held, *(one for one in ended if one.total > one.done)]

    def _activity(self, pauses: Sequence[WorkPause], agents: Sequence[AgentRow]) -> Activity:
        heeded, named = [], {(one.service, one.instance) for one in pauses if one.instance}
        for agent in agents:
            pause = next((one for one in pauses if one.is_for(agent.service, agent.instance)), None)
            if pause is None:
                continue
            named.discard((agent.service, agent.instance))
            if _is_held(pause, self._now):
                heeded.append(heed_of_pause(agent, pause))
            elif self.of(agent) is None:  # another pause rests on it: that it takes no work is as it is wanted
                heeded.append(heed_of_resume(agent, pause.end_revision or pause.revision))
        found = Activity(pauses=pauses, heeded=heeded)
        parts = list(parts_of((_LABELS[heed], len(rows), _FILLS[heed]) for heed, rows in found.by_heed.items()))
        gone = [f"{service}/{instance}" for service, instance in sorted(named)]
        return Activity(pauses=pauses, heeded=heeded, gone=gone, parts=parts)


def _as_noted(one: WorkPause, now: datetime) -> WorkPause:
    """One whose time is over as it will be when somebody has noted that, which may take a while; not saved."""
    if one.ended_at is None and not _is_held(one, now):
        one.ended_at, one.ended_by, one.end_reason = one.expires_at, EXPIRY, "expired"
    return one


def _is_held(one: WorkPause, now: datetime) -> bool:
    return one.ended_at is None and (one.expires_at is None or one.expires_at > now)


def _together(pauses: Iterable[WorkPause], revision_of: Callable[[WorkPause], int]) -> list[list[WorkPause]]:
    found: dict[int, list[WorkPause]] = {}
    for one in pauses:
        found.setdefault(revision_of(one), []).append(one)
    return [found[revision] for revision in sorted(found, reverse=True)]

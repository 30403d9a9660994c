"""What is desired now and how far it has come, read once for a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from events.rows import AgentRow
from recovery_ops.control.breakers.models.ramps import ResetRamp
from recovery_ops.control.core.approvals import requires_second_approver
from recovery_ops.control.core.models.approval_requests import ApprovalRequest
from recovery_ops.control.core.models.audit import AuditHead
from recovery_ops.control.desired_state.action_propagation import FOLLOWED, Asked, Obeyed, all_obeyed, asked_lately
from recovery_ops.control.desired_state.document import Snapshot, Standards, read
from recovery_ops.control.desired_state.propagation import Applying, applying
from recovery_ops.rules.desired_state import Override, Shed, winning_override
from recovery_ops.rules.enums import ApplyStatus
from recovery_ops.rules.policy.model import Policy, parse_policy
from recovery_ops.rules.policy.scope import ANY, Place

_MOST_HALTED = 3


class Standing:
    """The desired state of one environment at one moment, and what each instance makes of it."""

    def __init__(self, environment: str, *, now: datetime, head: str | None = None) -> None:
        """`head` is the hash at the end of the audit log, where it has been read already."""
        self.environment = environment
        self.now = now
        found = newest(environment, head)
        self.head = found.head
        self.snapshot, self.halted, self.is_second_needed = found.snapshot, found.halted, found.is_second_needed
        self._held_acts = found.held_acts
        self.has_resets = found.has_resets
        self._standards = Standards(self.snapshot)

    @property
    def revision(self) -> int:
        """The newest revision."""
        return self.snapshot.revision

    @property
    def held_acts(self) -> list[ApprovalRequest]:
        """What waits for a second person now, and what went without one and was not looked at."""
        return [one for one in self._held_acts if one.state_at(self.now) != ApprovalRequest.EXPIRED]

    @cached_property
    def policy(self) -> Policy:
        """The live policy, checked."""
        return parse_policy(self.snapshot.policy.document, version=self.snapshot.policy.version)

    @property
    def overrides(self) -> list[Override]:
        """Those in force, the one that ends first in front."""
        in_force = [one for one in self.snapshot.overrides if one.holds_at(self.now.timestamp())]
        return sorted(in_force, key=lambda one: one.expires_at)

    @property
    def shed(self) -> Shed | None:
        """Load that is shed now."""
        return self.snapshot.shed_at(self.now.timestamp())

    @property
    def sheds_ahead(self) -> list[Shed]:
        """Load that is to be shed later, the next first."""
        return [one for one in self.snapshot.sheds if one.starts_at > self.now.timestamp()]

    def override_of(self, breaker: str) -> Override | None:
        """The override that rules a breaker wherever nothing narrower does."""
        everywhere = [one for one in self.overrides if is_everywhere(one)]
        place = Place(service="", instance="", breaker=breaker)
        return winning_override(everywhere, [place], self.now.timestamp())

    def narrower_of(self, breaker: str) -> list[Override]:
        """Overrides of a breaker in a part of the environment only."""
        return [one for one in self.overrides if not is_everywhere(one) and _names(one, breaker)]

    def ahead_of(self, breaker: str) -> list[Override]:
        """Overrides of a breaker that are to begin, the next one first."""
        coming = [one for one in self.snapshot.overrides if one.starts_at > self.now.timestamp()]
        return sorted((one for one in coming if _names(one, breaker)), key=lambda one: one.starts_at)

    def status_of(self, agent: AgentRow, revision: int) -> ApplyStatus:
        """Where one instance stands against a revision."""
        return self._standards.status_of(agent, revision)

    def applying(
        self, agents: Iterable[AgentRow], revision: int, *, made_at: datetime | None = None, what: str = ""
    ) -> Applying:
        """How far a revision has come in some instances. `made_at` tells for how long what is pending has been so."""
        by_status: dict[ApplyStatus, list[AgentRow]] = {}
        for agent in (one for one in agents if one.is_follower):
            by_status.setdefault(self.status_of(agent, revision), []).append(agent)
        waited_s = (self.now - made_at).total_seconds() if made_at is not None else None
        rows: Mapping[ApplyStatus, Sequence[AgentRow]] = by_status
        return applying(revision, dict(rows), newest=self.revision, waited_s=waited_s, what=what)

    def late(self, agents: Sequence[AgentRow]) -> list[Obeyed]:
        """What people asked for and not everybody does who can be reached, the newest first. No query while nothing
        changes.
        """
        known = _asked.get(self.environment)
        if known is None or known[0] != self.head:
            known = _asked[self.environment] = (self.head, asked_lately(self.environment, self.now))
        found = all_obeyed(known[1], self.snapshot, agents, now=self.now)
        return [one for one in found.values() if one.is_late(self.now) and one.act.at >= self.now - FOLLOWED]


class Newest(NamedTuple):
    """What is so in an environment while its audit log says nothing new."""

    head: str
    """The hash at the end of the audit log; empty while it has no entry."""
    snapshot: Snapshot
    halted: tuple[ResetRamp, ...]
    """Resets of many that wait for a person."""
    has_resets: bool
    """Whether any reset of many was not over: where none was, only an act can have begun one."""
    held_acts: tuple[ApprovalRequest, ...]
    """What waits for a second person, also when its time is over; and what went without one."""
    is_second_needed: bool


_known: dict[str, tuple[str, Newest]] = {}
"""What was read last of each environment, by the hash of the audit log when it was."""


_asked: dict[str, tuple[str, Asked]] = {}
"""What people asked for within a day of each environment, by the hash of the audit log when it was read."""


def newest(environment: str, head: str | None = None) -> Newest:
    """The current state. One query while nothing changes, none with the `head` of the audit log: every change moves
    the hash at its end.
    """
    if head is None:
        head = AuditHead.objects.filter(environment=environment).values_list("hash", flat=True).first() or ""
    known = _known.get(environment)
    if known is None or known[0] != head:
        # Read after the hash: should a change come in between, the next reader finds another hash and reads again.
        resets = ResetRamp.objects.filter(environment=environment, state__in=ResetRamp.UNFINISHED).order_by("-number")
        halted = [one for one in resets if one.state == ResetRamp.HALTED]
        found = Newest(
            head=head,
            snapshot=read(environment),
            halted=tuple(halted[:_MOST_HALTED]),
            has_resets=len(resets) > 0,
            held_acts=tuple(ApprovalRequest.objects.for_people(environment)),
            is_second_needed=requires_second_approver(environment),
        )
        known = _known[environment] = (head, found)
    return known[1]


def is_everywhere(override: Override) -> bool:
    """Whether it speaks of every service, instance and group."""
    return override.scope.service == override.scope.instance == override.scope.group == ANY


def _names(override: Override, breaker: str) -> bool:
    scope = override.scope
    place = Place(service=scope.service, instance=scope.instance, group=scope.group, breaker=breaker)
    return scope.holds(place)

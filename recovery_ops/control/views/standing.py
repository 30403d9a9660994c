"""What is desired now and how far it has come, read once for a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property

from events.rows import AgentRow
from recovery_ops.control.desired import Snapshot, Standards, read
from recovery_ops.control.models import AuditHead
from recovery_ops.control.views.applying import Applying, applying
from recovery_ops.rules.intent import Override, winning_override
from recovery_ops.rules.policy import Policy, parse_policy
from recovery_ops.rules.scope import ANY, Place
from recovery_ops.rules.words import ApplyStatus


class Standing:
    """The desired state of one environment at one moment, and what each instance makes of it."""

    def __init__(self, environment: str, *, now: datetime) -> None:
        self.environment = environment
        self.now = now
        self.snapshot = newest(environment)
        self._standards = Standards(self.snapshot)

    @property
    def revision(self) -> int:
        """The newest revision."""
        return self.snapshot.revision

    @cached_property
    def policy(self) -> Policy:
        """The live policy, checked."""
        return parse_policy(self.snapshot.policy.document, version=self.snapshot.policy.version)

    @property
    def overrides(self) -> list[Override]:
        """Those in force, the one that ends first in front."""
        in_force = [one for one in self.snapshot.overrides if one.holds_at(self.now.timestamp())]
        return sorted(in_force, key=lambda one: one.expires_at)

    def override_of(self, breaker: str) -> Override | None:
        """The override that rules a breaker wherever nothing narrower does."""
        everywhere = [one for one in self.overrides if is_everywhere(one)]
        return winning_override(everywhere, Place(service="", instance="", breaker=breaker), self.now.timestamp())

    def narrower_of(self, breaker: str) -> list[Override]:
        """Overrides of a breaker in a part of the environment only."""
        return [one for one in self.overrides if not is_everywhere(one) and _names(one, breaker)]

    def status_of(self, agent: AgentRow, revision: int) -> ApplyStatus:
        """Where one instance stands against a revision."""
        return self._standards.status_of(agent, revision)

    def applying(
        self, agents: Iterable[AgentRow], revision: int, *, made_at: datetime | None = None, what: str = ""
    ) -> Applying:
        """How far a revision has come in some instances. `made_at` tells for how long what is pending has been so."""
        by_status: dict[ApplyStatus, list[AgentRow]] = {}
        for agent in agents:
            by_status.setdefault(self.status_of(agent, revision), []).append(agent)
        waited_s = (self.now - made_at).total_seconds() if made_at is not None else None
        rows: Mapping[ApplyStatus, Sequence[AgentRow]] = by_status
        return applying(revision, dict(rows), waited_s=waited_s, what=what)


_known: dict[str, tuple[str, Snapshot]] = {}
"""The last snapshot of each environment, under the hash of the audit log when it was read."""


def newest(environment: str) -> Snapshot:
    """The current state. One query while nothing changes: every change moves the hash at the end of the audit log."""
    head = AuditHead.objects.filter(environment=environment).values_list("hash", flat=True).first() or ""
    known_head, snapshot = _known.get(environment, ("", None))
    if snapshot is None or known_head != head:
        # Read after the hash: should a change come in between, the next reader finds another hash and reads again.
        snapshot = read(environment)
        _known[environment] = (head, snapshot)
    return snapshot


def is_everywhere(override: Override) -> bool:
    """Whether it speaks of every service, instance and group."""
    return override.scope.service == override.scope.instance == override.scope.group == ANY


def _names(override: Override, breaker: str) -> bool:
    scope = override.scope
    place = Place(service=scope.service, instance=scope.instance, group=scope.group, breaker=breaker)
    return scope.holds(place)

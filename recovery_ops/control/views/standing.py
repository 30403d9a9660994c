"""What is desired now and how far it has come, read once for a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from events.rows import AgentRow
from recovery_ops.control.desired import Snapshot, Standards, read
from recovery_ops.control.models import Revision
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

    @property
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


_newest: dict[str, tuple[datetime, Snapshot]] = {}
"""The last snapshot of each environment, with the moment its revision was made."""


def newest(environment: str) -> Snapshot:
    """The current state. One query while nothing changes: what a snapshot holds depends on its revision alone."""
    revision = Revision.objects.filter(environment=environment).first()
    if revision is None:
        return Snapshot.of_nothing(environment)
    made_at, snapshot = _newest.get(environment, (None, None))
    if snapshot is None or (snapshot.revision, made_at) != (revision.number, revision.changed_at):
        snapshot = read(environment)
        if snapshot.revision == revision.number:
            _newest[environment] = (revision.changed_at, snapshot)
    return snapshot


def is_everywhere(override: Override) -> bool:
    """Whether it speaks of every service, instance and group."""
    return override.scope.service == override.scope.instance == override.scope.group == ANY


def _names(override: Override, breaker: str) -> bool:
    scope = override.scope
    place = Place(service=scope.service, instance=scope.instance, group=scope.group, breaker=breaker)
    return scope.holds(place)

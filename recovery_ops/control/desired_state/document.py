"""Folds overrides, resets and the live policy into the one document an agent must obey, and says who obeys it.

What a document holds depends on the revision alone, never on the clock: within one revision it has one hash, so an
agent that reports another hash for it has drifted. What would fall out by age is measured from the revision's own time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import DateTimeField, Q, Value
from django.db.models.functions import Cast

from events.queries import fleet
from events.rows import AgentRow
from recovery_ops import wire
from recovery_ops.control.agents.models.pauses import WorkPause
from recovery_ops.control.breakers.models.load_shedding import LoadShed
from recovery_ops.control.breakers.models.overrides import BreakerProbe, Override, Reset
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.revisions import Revision
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.policies.models.policies import PolicyRelease
from recovery_ops.control.policies.models.rollouts import PolicyRollout
from recovery_ops.control.runs.models.aborts import RunAbort
from recovery_ops.control.runs.models.retries import RunRetry
from recovery_ops.rules.desired_state import STOP, Abort, Answer, Pause, Probe, Retry, Shed, winning_override
from recovery_ops.rules.desired_state import Override as DesiredOverride
from recovery_ops.rules.desired_state import Reset as DesiredReset
from recovery_ops.rules.enums import ApplyStatus
from recovery_ops.rules.fleet.canary_cohort import WHOLE, Cohort, Spared
from recovery_ops.rules.policy.model import BUILT_IN, document_of
from recovery_ops.rules.policy.scope import ANY, Place, Scope

RESETS_KEPT = timedelta(days=7)
"""An agent that was away for less than this still learns of a reset when it comes back."""
PROBES_KEPT = timedelta(hours=1)
"""A probe is for now: whoever comes back later has other news by then."""
ANSWERS_KEPT = timedelta(days=2)
"""For how long a run that was away still finds the answer to its question."""
ABORTS_KEPT = timedelta(days=2)
"""For how long a run that was away still learns that it is to end."""
RETRIES_KEPT = ABORTS_KEPT
"""For how long an instance that was away still learns that it is to begin a run again."""
EXPIRED_KEPT = timedelta(days=1)
"""Should nobody note that overrides have ended: for how long agents go on hearing of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """Whom a document is for. None: not said, so nothing is left out for it; `group` "" is an instance without one."""

    service: str | None = None
    instance: str | None = None
    group: str | None = None

    def is_in(self, scope: Scope) -> bool:
        """Whether the scope reaches this instance, or could."""
        if self.service is not None and self.instance is not None and self.group is not None:
            return scope.reaches(service=self.service, instance=self.instance, group=self.group)
        known = Scope(
            service=ANY if self.service is None else scope.service,
            instance=ANY if self.instance is None else scope.instance,
            group=ANY if self.group is None else scope.group,
        )
        return known.reaches(service=self.service or "", instance=self.instance or "", group=self.group or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePolicy:
    """The policy in force: the newest release, or the built-in one where nothing was ever released."""

    release: PolicyRelease | None
    document: Mapping[str, Any]
    version: str

    @property
    def name(self) -> str:
        """In words: `policy 3`, `the built-in policy`, or `canary-2`, which is none of the releases."""
        if self.release is not None:
            return f"policy {self.version}"
        return "the default policy" if self.version == BUILT_IN.version else self.version

    @staticmethod
    def built_in() -> LivePolicy:
        """What holds where nothing was ever released."""
        return LivePolicy(release=None, document=document_of(BUILT_IN), version=BUILT_IN.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """The policy that a cohort obeys instead of the live one."""

    cohort: Cohort
    policy: LivePolicy

    def is_for(self, who: Who) -> bool:
        """Whether it is for this instance; whoever does not say who they are gets the live policy."""
        if who.service is None or not who.instance:
            return False
        return self.cohort.holds(service=who.service, instance=who.instance, group=who.group or "")


Places = tuple[int, ...]
Reach = tuple[Places, Places, Places, Places, Places, Places, Places, bool]
"""Which overrides, resets, answers, aborts, pauses, retries and probes of a snapshot concern somebody, by their places
in it, and whether they obey the canary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything one environment desires at one revision."""

    environment: str
    revision: int
    policy: LivePolicy
    overrides: tuple[DesiredOverride, ...] = ()
    resets: tuple[DesiredReset, ...] = ()
    answers: tuple[Answer, ...] = ()
    aborts: tuple[Abort, ...] = ()
    pauses: tuple[Pause, ...] = ()
    retries: tuple[Retry, ...] = ()
    probes: tuple[Probe, ...] = ()
    sheds: tuple[Shed, ...] = ()
    """The load that is shed, and what is to be, the earliest first."""
    canary: Canary | None = None
    spared: Mapping[str, Spared] = field(default_factory=dict)
    """Whom an override lets out, by its id."""
    bands: Mapping[tuple[int, Scope], Cohort] = field(default_factory=dict)
    """For whom alone a reset is, by its revision and scope: a step of a ramp."""

    @staticmethod
    def of_nothing(environment: str) -> Snapshot:
        """What an environment desires before anybody has changed anything in it."""
        return Snapshot(environment=environment, revision=0, policy=LivePolicy.built_in())

    def reach(self, who: Who) -> Reach:
        """What of it concerns an instance. Two with the same reach have the same document."""
        return (
            tuple(index for index, one in enumerate(self.overrides) if who.is_in(one.scope) and self._holds(one, who)),
            tuple(index for index, one in enumerate(self.resets) if who.is_in(one.scope) and self._is_for(one, who)),
            tuple(index for index, one in enumerate(self.answers) if who.is_in(Scope(service=one.service))),
            tuple(index for index, one in enumerate(self.aborts) if who.is_in(Scope(service=one.service))),
            _places_for(who, self.pauses),
            _places_for(who, self.retries),
            tuple(index for index, one in enumerate(self.probes) if who.is_in(one.scope)),
            self.canary is not None and self.canary.is_for(who),
        )

    def common_reach(self) -> Reach | None:
        """The reach of everybody, where nothing is for some alone; else None.

        So it mostly is, and a thousand streams then need not be asked one by one who they are.
        """
        is_for_some = self.answers or self.aborts or self.pauses or self.retries
        if is_for_some or self.canary is not None or self.spared or self.bands:
            return None
        scopes = [one.scope for one in self.overrides]
        scopes += [one.scope for one in self.resets] + [one.scope for one in self.probes]
        is_for_all = all((one.service, one.instance, one.group) == (ANY, ANY, ANY) for one in scopes)
        return self.reach(Who()) if is_for_all else None

    def lets_out(self, override_id: str, who: Who) -> bool:
        """Whether an override leaves this instance to its own rules; who does not say who they are is held."""
        spared = self.spared.get(override_id)
        if spared is None or who.service is None or not who.instance:
            return False
        return spared.holds(service=who.service, instance=who.instance)

    def winning(self, place: Place, now: float) -> DesiredOverride | None:
        """The override that rules an instance's operation at this moment, in seconds since the epoch."""
        who = Who(service=place.service, instance=place.instance, group=place.group)
        return winning_override((one for one in self.overrides if not self.lets_out(one.id, who)), [place], now)

    def _holds(self, override: DesiredOverride, who: Who) -> bool:
        return not self.lets_out(override.id, who)

    def _is_for(self, reset: DesiredReset, who: Who) -> bool:
        """Whoever does not say who they are is of the last step."""
        band = self.bands.get((reset.revision, reset.scope))
        if band is None:
            return True
        if who.service is None or not who.instance:
            return band.limit == WHOLE
        return band.holds(service=who.service, instance=who.instance)

    def policy_for(self, who: Who) -> LivePolicy:
        """The policy that an instance obeys: the canary in its cohort, elsewhere the live one."""
        return self.canary.policy if self.canary is not None and self.canary.is_for(who) else self.policy

    def document(self, reach: Reach, *, issued_at: float) -> dict[str, Any]:
        """The document for those with this reach; `issued_at` in seconds since the epoch."""
        overrides, resets, answers, aborts, pauses, retries, probes, is_canary = reach
        policy = self.canary.policy if is_canary and self.canary is not None else self.policy
        return wire.desired_document(
            environment=self.environment,
            revision=self.revision,
            policy=policy.document,
            policy_version=policy.version,
            overrides=[self.overrides[index] for index in overrides],
            resets=[self.resets[index] for index in resets],
            issued_at=issued_at,
            answers=[self.answers[index] for index in answers],
            aborts=[self.aborts[index] for index in aborts],
            pauses=[self.pauses[index] for index in pauses],
            retries=[self.retries[index] for index in retries],
            probes=[self.probes[index] for index in probes],
            shed=self.sheds[0] if self.sheds else None,
            sheds_ahead=self.sheds[1:],
        )

    def shed_at(self, now: float) -> Shed | None:
        """The load that is shed at a moment, in seconds since the epoch."""
        return next((one for one in self.sheds if one.holds_at(now)), None)


def _places_for(who: Who, wishes: Sequence[Pause | Retry]) -> Places:
    return tuple(index for index, one in enumerate(wishes) if one.is_for(service=who.service, instance=who.instance))


def live_policy(environment: str) -> LivePolicy:
    """The policy in force."""
    release = PolicyRelease.objects.filter(environment=environment).order_by("-version").first()
    if release is None:
        return LivePolicy.built_in()
    return LivePolicy(release=release, document=release.document, version=str(release.version))


def read(environment: str) -> Snapshot:
    """One state, whole: read again when a change was committed in between."""
    while True:
        before = Revision.objects.filter(environment=environment).first()
        snapshot = _read(environment, before)
        if current_revision(environment) == snapshot.revision:
            return snapshot


def _read(environment: str, revision: Revision | None) -> Snapshot:
    if revision is None:
        return Snapshot.of_nothing(environment)
    live = list(Override.objects.live(environment).filter(expires_at__gt=revision.changed_at - EXPIRED_KEPT))
    resets = _resets(environment, revision.changed_at - RESETS_KEPT)
    return Snapshot(
        environment=environment,
        revision=revision.number,
        policy=live_policy(environment),
        overrides=tuple(one.as_desired() for one in live),
        resets=tuple(one.as_desired() for one in resets),
        answers=_answers(environment, revision),
        **_work(environment, revision.changed_at - ABORTS_KEPT, revision.changed_at - EXPIRED_KEPT),
        probes=_probes(environment, revision.changed_at - PROBES_KEPT),
        sheds=_sheds(environment, revision.changed_at - EXPIRED_KEPT),
        canary=_canary(environment),
        spared={one.pk: one.spared for one in live if one.spares},
        bands={(one.revision, one.scope): one.cohort for one in resets if one.cohort is not None},
    )


def _sheds(environment: str, since: datetime) -> tuple[Shed, ...]:
    return tuple(one.as_desired() for one in LoadShed.objects.live(environment).filter(expires_at__gt=since))


def _canary(environment: str) -> Canary | None:
    found = PolicyRollout.objects.running(environment).first()
    if found is None:
        return None
    policy = LivePolicy(release=None, document=found.document, version=found.version)
    return Canary(cohort=found.cohort, policy=policy)


def _answers(environment: str, revision: Revision) -> tuple[Answer, ...]:
    """What was decided about questions that runs wait for, up to this revision."""
    decided = Escalation.objects.filter(
        environment=environment,
        revision__lte=revision.number,
        resolved_at__gt=revision.changed_at - ANSWERS_KEPT,
    )
    return tuple(one.as_answer() for one in decided.order_by("revision", "pk"))


def _work(environment: str, runs_since: datetime, pauses_since: datetime) -> dict[str, Any]:
    """Runs that are to end or to begin again, and new work that is not to begin. One query: most pages read it all."""
    # PostgreSQL takes a NULL of no kind for text as soon as two of the three have one.
    none, never = Value(""), Cast(Value(None), DateTimeField())
    said = ("by", "reason", "revision")
    aborts = RunAbort.objects.filter(environment=environment, withdrawn_at=None, at__gt=runs_since).values_list(
        Value("abort"), none, "run", "service", none, *said, never, none
    )
    retries = RunRetry.objects.filter(environment=environment, ended_at=None, at__gt=runs_since).values_list(
        Value("retry"), "id", "run", "service", "instance", *said, never, "input"
    )
    held = WorkPause.objects.filter(environment=environment, ended_at=None)
    pauses = held.filter(Q(expires_at=None) | Q(expires_at__gt=pauses_since)).values_list(
        "kind", "id", none, "service", "instance", *said, "expires_at", none
    )
    found: dict[str, list[Any]] = {"abort": [], "retry": [], "pause": []}
    rows = aborts.union(retries, pauses, all=True)
    for kind, pk, run, service, instance, by, reason, revision, ends, given in sorted(
        rows, key=lambda row: (row[7], row[2:5], row[1])
    ):
        told = {"service": service, "by": by, "reason": reason, "revision": revision}
        if kind == "abort":
            wish: RunAbort | RunRetry | WorkPause = RunAbort(run=run, **told)
        elif kind == "retry":
            wish = RunRetry(id=pk, run=run, instance=instance, input=given, **told)
        else:
            wish = WorkPause(id=pk, instance=instance, expires_at=ends, kind=kind, **told)
        found["pause" if kind == STOP else kind].append(wish.as_desired())
    return {"aborts": tuple(found["abort"]), "retries": tuple(found["retry"]), "pauses": tuple(found["pause"])}


def _probes(environment: str, since: datetime) -> tuple[Probe, ...]:
    kept = BreakerProbe.objects.filter(environment=environment, at__gt=since).order_by("revision")
    newest = {one.scope: one.as_desired() for one in kept}
    return tuple(sorted(newest.values(), key=lambda one: one.revision))


def _resets(environment: str, since: datetime) -> list[Reset]:
    """Of several of one scope the newest; the steps of a ramp stand together, and what is reset for all is newer."""
    kept: dict[Scope, list[Reset]] = {}
    for one in Reset.objects.filter(environment=environment, at__gt=since).order_by("revision", "pk"):
        before = kept.get(one.scope, [])
        is_for_all = one.cohort is None
        is_last_step = one.limit == WHOLE
        if is_for_all:
            before = []
        elif is_last_step:
            before = [other for other in before if other.salt == one.salt]
        kept[one.scope] = [*before, one]
    return sorted((one for rows in kept.values() for one in rows), key=lambda one: (one.revision, one.pk))


def document(
    environment: str,
    *,
    service: str | None = None,
    instance: str | None = None,
    group: str | None = None,
    now: datetime,
) -> dict[str, Any]:
    """What an instance has to obey now: the whole environment's state where it is not said which instance."""
    who = Who(service=service, instance=instance, group=group)
    snapshot = read(environment)
    return snapshot.document(snapshot.reach(who), issued_at=now.timestamp())


# -- who obeys it -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class ApplySummary:
    """Where the instances in a scope stand against one revision, each by name in exactly one list.

    `made_at` is when the revision was made, None where no row tells: what is pending has been so since then.
    """

    revision: int
    made_at: datetime | None = None
    applied: list[AgentRow] = field(default_factory=list)
    pending: list[AgentRow] = field(default_factory=list)
    failed: list[AgentRow] = field(default_factory=list)
    unreachable: list[AgentRow] = field(default_factory=list)
    drifted: list[AgentRow] = field(default_factory=list)

    @property
    def by_status(self) -> dict[ApplyStatus, Sequence[AgentRow]]:
        """The same lists by their words."""
        return {status: getattr(self, status.value) for status in ApplyStatus}

    @property
    def total(self) -> int:
        """How many instances the scope reaches."""
        return sum(len(rows) for rows in self.by_status.values())

    def lag_s(self, row: AgentRow) -> float | None:
        """How long after the revision was made this instance said that it obeys it; None while it does not say so."""
        if self.made_at is None or row.applied_at is None or row not in self.applied:
            return None
        return max(0.0, (row.applied_at - self.made_at).total_seconds())

    def waited_s(self, now: datetime) -> float | None:
        """For how long what is pending has been so."""
        return None if self.made_at is None else max(0.0, (now - self.made_at).total_seconds())


def apply_status(
    environment: str, revision: int, scope: Scope, *, now: datetime, agents: Iterable[AgentRow] | None = None
) -> ApplySummary:
    """Who in the scope obeys at least this revision. `agents` saves a query to a caller who has read the fleet.

    Silence hides everything else: whether an instance that cannot be reached still obeys is not known.
    """
    agents = fleet(environment, now=now) if agents is None else agents
    made_at = AuditEntry.objects.filter(environment=environment, revision=revision).values_list("at", flat=True).first()
    members = [row for row in agents if row.is_follower and who_is(row).is_in(scope)]
    return apply_status_of(members, revision, Standards(read(environment)), made_at=made_at)


def apply_status_of(
    agents: Iterable[AgentRow], revision: int, standards: Standards, *, made_at: datetime | None = None
) -> ApplySummary:
    """Who of these obeys at least this revision."""
    summary = ApplySummary(revision=revision, made_at=made_at)
    for row in agents:
        getattr(summary, standards.status_of(row, revision).value).append(row)
    return summary


class Standards:
    """What each instance would report if it obeyed the current state, to tell those that do not."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._hashes: dict[Reach, str] = {}

    def status_of(self, row: AgentRow, revision: int) -> ApplyStatus:
        """Where one instance stands against a revision."""
        if not row.is_reachable:
            return ApplyStatus.UNREACHABLE
        if row.rejected_revision is not None and row.rejected_revision >= revision:
            return ApplyStatus.FAILED
        if self._has_drifted(row):
            return ApplyStatus.DRIFTED
        return ApplyStatus.APPLIED if row.revision >= revision else ApplyStatus.PENDING

    def _has_drifted(self, row: AgentRow) -> bool:
        """Whether it claims a revision that was never made, or the current one with other contents."""
        current = self._snapshot.revision
        if row.revision != current or not row.config_hash or not current:
            return row.revision > current
        return row.config_hash != self._hash_for(who_is(row))

    def _hash_for(self, who: Who) -> str:
        reach = self._snapshot.reach(who)
        if reach not in self._hashes:
            self._hashes[reach] = str(self._snapshot.document(reach, issued_at=0.0)["config_hash"])
        return self._hashes[reach]


def who_is(row: AgentRow) -> Who:
    """An instance, as it asks for its document."""
    return Who(service=row.service, instance=row.instance, group=row.group)

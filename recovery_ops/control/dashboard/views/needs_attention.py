"""The list of current problems, worst first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

from django.urls import reverse
from django.utils import timezone

from events.capacity.rows import OWNER_WORDS, CapacityEventRow, Owner
from events.failures.naming import Called, cause_title, cause_words
from events.queries.overview_rows import CapacityNow, OverviewNumbers
from events.rows import AgentRow, BreakerRow, DegradationRow
from events.wording import count_text, evidence_text, listing, rate_text, span_text, state_text
from recovery_ops.control.breakers.headlines import trouble_detail
from recovery_ops.control.breakers.stuck import stuck_among
from recovery_ops.control.breakers.views.load_shedding import sentence_of
from recovery_ops.control.breakers.views.ramp_wording import names_of
from recovery_ops.control.core.models.approval_requests import ApprovalRequest
from recovery_ops.control.core.wording import with_reason
from recovery_ops.control.dashboard.due import REGRESSED, Due, new_lately, of_kind
from recovery_ops.control.desired_state.action_propagation import Obeyed
from recovery_ops.control.desired_state.propagation import Applying
from recovery_ops.control.desired_state.status import Standing
from recovery_ops.control.escalations.selectors.queue import ROWS_MOST, EscalationRow
from recovery_ops.rules.desired_state import Override
from recovery_ops.rules.enums import State
from recovery_ops.rules.fleet.stuck_breakers import Kind

MOST = 10
_MOST_SILENT = 3
_MOST_LATE = 4
_MOST_ACTS = 3
_MOST_STUCK = 3
_MOST_BACK = 3
_MOST_NAMED = 3
_OUTAGE_WORDS = {
    Owner.PROVIDER: "overloaded",
    Owner.QUOTA: "rate limited",
    Owner.NETWORK: "unreachable",
    Owner.UNREACHABLE: "unreachable",
}
_STUCK_WORDS = {
    Kind.HALF_OPEN: "stuck half-open",
    Kind.IDLE_OPEN: "stuck open without calls",
    Kind.UNCOUNTED: "failing, breaker stays closed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One row: state mark, link, detail, start or end. `key` is the same from refresh to refresh."""

    key: str
    state: str
    title: str
    detail: str
    href: str
    since: datetime | None = None
    ends: datetime | None = None
    since_word: str = "so far"
    acknowledges: int | None = None
    """The number of an unacknowledged escalation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """The shown rows and their total number; a lower bound where not all escalations were read."""

    shown: Sequence[Item]
    total: int
    is_least: bool = False

    @property
    def rest(self) -> int:
        """Number of rows that are not shown."""
        return self.total - len(self.shown)


def items_now(
    numbers: OverviewNumbers,
    standing: Standing,
    *,
    escalations: Sequence[EscalationRow] = (),
    outages: Sequence[CapacityEventRow] = (),
    due: Sequence[Due] = (),
    called: Mapping[str, Called] = MappingProxyType({}),
    most: int | None = MOST,
) -> Items:
    """The worst items, or with `most=None` all of them, in the order of their urgency. `called` has the names of
    issues. Actions are read only while an instance has not applied them.

    Of one kind only a few come first, or they would hide all others; the rest of it follows further down.
    """
    applying = standing.applying(numbers.fleet, standing.revision)
    late = standing.late(numbers.fleet) if applying.waits_for_reachable else []
    held = {one.scope.operation: one for one in standing.overrides if one.mode is State.FORCED_OPEN}
    named = {name for row in outages for name in row.names}
    breached = [row for row in escalations if row.is_breached]
    stuck = list(_stuck(numbers, standing))
    troubled = list(_troubled(numbers, except_for={item.key.removeprefix("stuck-") for item in stuck}))
    blocking: dict[bool, list[Item]] = {False: [], True: []}
    for row in numbers.breakers_blocking:
        blocking[row.worst is State.HALF_OPEN].append(_blocking(row, held.get(row.name)))
    found = [
        *map(_escalation, breached[:_MOST_LATE]),
        *map(_held_act, standing.held_acts),
        *_shed(standing),
        *map(_late, late[:_MOST_ACTS]),
        *_incomplete(applying),
        *_refusing(numbers.fleet),
        *blocking[False],
        *_halted(standing),
        *map(_outage, outages),
        *(_capacity(one) for one in numbers.capacity if one.name not in named),
        *blocking[True],
        *stuck[:_MOST_STUCK],
        *troubled[:_MOST_STUCK],
        *_back(of_kind(due, REGRESSED), called),
        *_new(new_lately(due, standing.now), called),
        *map(_escalation, breached[_MOST_LATE:]),
        *map(_late, late[_MOST_ACTS:]),
        *stuck[_MOST_STUCK:],
        *troubled[_MOST_STUCK:],
        *(_escalation(row) for row in escalations if not row.is_breached),
        *_degraded(numbers.degraded),
        *_silent(numbers.silent),
        *_restored(numbers.restored),
    ]
    return Items(shown=found[:most], total=len(found), is_least=len(escalations) >= ROWS_MOST)


def _held_act(one: ApprovalRequest) -> Item:
    is_waiting = one.state == ApprovalRequest.WAITING
    return Item(
        key=f"request-{one.number}",
        state="half_open" if is_waiting else "open",
        title=f"Approval request {one.number} is waiting"
        if is_waiting
        else f"Approval request {one.number} used break-glass, review pending",
        detail=with_reason(one.by, one.reason),
        href=reverse("held-act", args=[one.number]),
        since=None if is_waiting else one.asked_at,
        ends=one.expires_at if is_waiting else None,
    )


def _late(one: Obeyed) -> Item:
    """An action that not all reachable instances have applied."""
    return Item(
        key=f"act-{one.act.number}",
        state="half_open",
        title=f"{one.what[:1].upper()}{one.what[1:]} is incomplete: {one.share}",
        detail=f"Requested by {one.act.actor_name}. {one.rest}",
        href=one.path,
        since=one.act.at,
    )


def _incomplete(applying: Applying) -> Iterator[Item]:
    if applying.total and not applying.is_complete and applying.revision:
        yield Item(
            key="incomplete",
            state="unknown" if not applying.waits_for_reachable else "half_open",
            title=f"Revision {applying.revision} not applied everywhere",
            detail=applying.plain,
            href=reverse("agents"),
        )


def _refusing(fleet: Sequence[AgentRow]) -> Iterator[Item]:
    for agent in fleet:
        if agent.is_reachable and agent.rejected_revision is not None:
            yield Item(
                key=f"refusing-{agent.id}",
                state="open",
                title=f"{agent.instance} rejected revision {agent.rejected_revision}",
                detail=agent.rejected_reason,
                href=reverse("agents"),
            )


def _blocking(row: BreakerRow, override: Override | None) -> Item:
    worst = row.worst or State.OPEN
    number = row.counts.get(worst, 0)
    where = f"on {number} of {row.instances}"
    title = f"{row.name} is {state_text(worst)} {where}"
    if worst is State.FORCED_OPEN and override is not None:
        return Item(
            key=f"breaker-{row.name}",
            state=worst,
            title=title,
            detail=f"{override.by}: {override.reason}",
            href=reverse("breaker", args=[row.name]),
            ends=datetime.fromtimestamp(override.expires_at, UTC),
        )
    rate = evidence_text(row.failure_rate, row.threshold) if row.failure_rate is not None else ""
    blocked = f"{rate_text(row.rejected_per_min)} calls/min rejected" if row.rejected_per_min else ""
    return Item(
        key=f"breaker-{row.name}",
        state=worst,
        title=title,
        detail=", ".join(part for part in (rate, blocked) if part),
        href=reverse("breaker", args=[row.name]),
        since=row.since,
    )


def _shed(standing: Standing) -> Iterator[Item]:
    if standing.shed is not None:
        yield Item(
            key="shed",
            state="forced_open",
            title="Load shedding active",
            detail=sentence_of(standing.shed, now=standing.now),
            href=reverse("shed"),
            ends=datetime.fromtimestamp(standing.shed.expires_at, UTC),
        )


def _halted(standing: Standing) -> Iterator[Item]:
    """Bulk resets that are halted."""
    for one in standing.halted:
        yield Item(
            key=f"ramp-{one.number}",
            state="open",
            title=f"Bulk reset {one.number} halted: {names_of(one.breakers)}",
            detail=one.end_reason,
            href=reverse("reset-ramp", args=[one.number]),
            since=one.ended_at,
        )


def _stuck(numbers: OverviewNumbers, standing: Standing) -> Iterator[Item]:
    found = stuck_among(numbers.breaker_rows, standing.policy, now=standing.now)
    for name, several in found.items():
        yield Item(
            key=f"stuck-{name}",
            state="half_open",
            title=f"{name} {_STUCK_WORDS[several[0].kind]}",
            detail=several[0].sentence,
            href=reverse("breaker", args=[name]),
        )


def _troubled(numbers: OverviewNumbers, *, except_for: Collection[str]) -> Iterator[Item]:
    """Breakers that block no calls and whose calls fail or are rejected."""
    for row in numbers.breaker_rows:
        if row.trouble is not None and row.name not in except_for:
            yield Item(
                key=f"trouble-{row.name}",
                state="half_open",
                title=f"{row.name} is {state_text(row.worst)} and {row.trouble}",
                detail=trouble_detail(row),
                href=reverse("breaker", args=[row.name]),
            )


def _back(causes: Sequence[Due], called: Mapping[str, Called]) -> Iterator[Item]:
    """Regressed issues, the newest first."""
    for one in causes[: -_MOST_BACK - 1 : -1]:
        yield Item(
            key=f"back-{one.ref}",
            state="open",
            title=f"{cause_title(one.ref, called.get(one.ref))} regressed",
            detail=f"Resolved by {one.by}{f': {one.why}' if one.why else ''}",
            href=reverse("failure", args=[one.ref]),
        )
    rest = len(causes) - _MOST_BACK
    if rest > 0:
        yield Item(
            key="back-rest",
            state="open",
            title=f"{count_text(rest, 'more regressed issue')}",
            detail="",
            href=reverse("failures"),
        )


def _new(causes: Sequence[Due], called: Mapping[str, Called]) -> Iterator[Item]:
    """New issues as one row: a release often brings several."""
    names = [cause_words(one.ref, called.get(one.ref)) for one in causes]
    if len(causes) == 1:
        [one] = causes
        name = cause_title(one.ref, called.get(one.ref))
        title, href = f"New issue: {name}", reverse("failure", args=[one.ref])
    else:
        title, href = f"{count_text(len(causes), 'new issue')}", reverse("failures")
    if causes:
        yield Item(
            key="new-causes",
            state="half_open",
            title=title,
            detail="" if len(causes) == 1 else listing(names, most=_MOST_NAMED),
            href=href,
            since=causes[0].at,
            since_word="ago",
        )


def _escalation(row: EscalationRow) -> Item:
    is_acknowledged = row.one.acknowledged_at is not None
    clock = row.resolving if is_acknowledged else row.acknowledging
    return Item(
        key=f"escalation-{row.number}",
        state="open" if row.is_breached else "half_open",
        title=f"{row.one} in {row.one.queue}: {row.title}",
        detail=f"{row.asks.rstrip(' .')}{'' if row.asks.endswith('?') else '.'} {row.holder}",
        href=reverse("escalation", args=[row.number]),
        ends=clock.ends if clock.is_running and not clock.is_breached else None,
        since=clock.ends if clock.is_running and clock.is_breached else None,
        since_word="overdue",
        acknowledges=None if is_acknowledged else row.number,
    )


def _outage(row: CapacityEventRow) -> Item:
    impact = ""
    if row.is_read:
        runs = f"{count_text(row.runs, 'run')} on " if row.runs else ""
        impact = f". {'≥ ' if row.is_partial else ''}{runs}{count_text(row.instances, 'instance')}"
    return Item(
        key=f"outage-{row.id}",
        state="open",
        title=f"{row.name} {'are' if len(row.names) > 1 else 'is'} {_OUTAGE_WORDS[row.owner]}",
        detail=f"{row.number}: {OWNER_WORDS[row.owner]}{impact}",
        href=reverse("capacity-event", args=[row.id]),
        since=row.started,
    )


def _capacity(one: CapacityNow) -> Item:
    is_overload = one.overloaded_per_min >= one.rate_limited_per_min
    owner = "529, attribution: provider" if is_overload else "429, attribution: our quota"
    return Item(
        key=f"capacity-{one.name}",
        state="open",
        title=f"{one.name} is {'overloaded' if is_overload else 'limiting our rate'}",
        detail=f"{rate_text(one.per_min)}/min, {owner}",
        href=reverse("capacity"),
        since=one.since,
    )


def _degraded(rows: Sequence[DegradationRow]) -> Iterator[Item]:
    by_operation: dict[tuple[str, str, str], list[DegradationRow]] = {}
    for row in rows:
        by_operation.setdefault((row.operation, row.kind, row.to_name), []).append(row)
    for (operation, kind, to_name), group in by_operation.items():
        name = operation or group[0].from_name
        answer = (
            f"is served by fallback {to_name}"
            if to_name
            else "is unavailable"
            if kind == "withdrawn"
            else "is degraded"
        )
        instances = len({(row.service, row.instance) for row in group})
        yield Item(
            key=f"degraded-{operation}-{kind}-{to_name}",
            state="half_open",
            title=f"{name} {answer}",
            detail=f"{count_text(instances, 'instance')}{', ' + group[0].reason if group[0].reason else ''}",
            href=reverse("degradations"),
            since=min(row.started for row in group),
        )


def _restored(rows: Sequence[DegradationRow]) -> Iterator[Item]:
    """Operations that recovered a short time ago."""
    by_operation: dict[str, list[DegradationRow]] = {}
    for row in rows:
        by_operation.setdefault(row.operation or row.from_name, []).append(row)
    for name, group in by_operation.items():
        ended = max(row.ended for row in group if row.ended is not None)
        lasted = span_text(ended - min(row.started for row in group))
        instances = len({(row.service, row.instance) for row in group})
        yield Item(
            key=f"restored-{name}",
            state="closed",
            title=f"{name} recovered",
            detail=f"At {timezone.localtime(ended):%H:%M:%S}, after {lasted} on {count_text(instances, 'instance')}",
            href=reverse("degradations"),
        )


def _silent(agents: Sequence[AgentRow]) -> Iterator[Item]:
    for agent in agents[:_MOST_SILENT]:
        yield Item(
            key=f"silent-{agent.id}",
            state="unknown",
            title=f"{agent.instance} stopped reporting",
            detail=f"Last seen {timezone.localtime(agent.last_seen):%H:%M:%S}, state unknown",
            href=reverse("agents"),
        )
    rest = len(agents) - _MOST_SILENT
    if rest > 0:
        yield Item(
            key="silent-rest",
            state="unknown",
            title=f"{count_text(rest, 'more agent')} stopped reporting",
            detail="State unknown",
            href=reverse("agents"),
        )

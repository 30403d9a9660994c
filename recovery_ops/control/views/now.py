"""What needs a person now, worst first: the list at the heart of the overview."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.urls import reverse

from events.rows import AgentRow, BreakerRow, CapacityNow, DegradationRow, OverviewNumbers
from events.wording import count_text, rate_text, share_text
from recovery_ops.control.views.applying import Applying
from recovery_ops.control.views.standing import Standing
from recovery_ops.rules.intent import Override
from recovery_ops.rules.words import State

MOST = 10
_MOST_SILENT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One line: a mark, a link, a detail; since when it is so or when it ends. `key` lasts from refresh to refresh."""

    key: str
    state: str
    title: str
    detail: str
    href: str
    since: datetime | None = None
    ends: datetime | None = None


def items_now(numbers: OverviewNumbers, standing: Standing) -> list[Item]:
    """At most ten items, in the order in which a person should look at them."""
    held = {one.scope.operation: one for one in standing.overrides if one.mode is State.FORCED_OPEN}
    found = [
        *_incomplete(standing.applying(numbers.fleet, standing.revision)),
        *_refusing(numbers.fleet),
        *(_blocking(row, held.get(row.name)) for row in numbers.breakers_blocking),
        *(_capacity(one) for one in numbers.capacity),
        *_degraded(numbers.degraded),
        *_silent(numbers.silent),
    ]
    return found[:MOST]


def _incomplete(applying: Applying) -> Iterator[Item]:
    if applying.total and not applying.is_complete and applying.revision:
        yield Item(
            key="incomplete",
            state="unknown" if not applying.waits_for_reachable else "half_open",
            title=f"Revision {applying.revision} is not everywhere yet",
            detail=applying.plain,
            href=reverse("agents"),
        )


def _refusing(fleet: Sequence[AgentRow]) -> Iterator[Item]:
    for agent in fleet:
        if agent.is_reachable and agent.rejected_revision is not None:
            yield Item(
                key=f"refusing-{agent.id}",
                state="open",
                title=f"{agent.instance} refuses revision {agent.rejected_revision}",
                detail=agent.rejected_reason,
                href=reverse("agents"),
            )


def _blocking(row: BreakerRow, override: Override | None) -> Item:
    worst = row.worst or State.OPEN
    number = row.counts.get(worst, 0)
    where = f"on {number} of {row.instances}"
    title = f"{row.name} is held open {where}" if worst is State.FORCED_OPEN else f"{row.name} is {worst} {where}"
    if worst is State.FORCED_OPEN and override is not None:
        return Item(
            key=f"breaker-{row.name}",
            state=worst,
            title=title,
            detail=f"{override.by}: {override.reason}",
            href=reverse("breaker", args=[row.name]),
            ends=datetime.fromtimestamp(override.expires_at, UTC),
        )
    rate = f"{share_text(row.failure_rate)} of calls failed" if row.failure_rate is not None else ""
    blocked = f"{rate_text(row.rejected_per_min)} calls per minute refused" if row.rejected_per_min else ""
    return Item(
        key=f"breaker-{row.name}",
        state=worst,
        title=title,
        detail=", ".join(part for part in (rate, blocked) if part),
        href=reverse("breaker", args=[row.name]),
        since=row.since,
    )


def _capacity(one: CapacityNow) -> Item:
    is_overload = one.overloaded_per_min >= one.rate_limited_per_min
    owner = "529, provider overloaded, no action by you" if is_overload else "429, our quota"
    return Item(
        key=f"capacity-{one.name}",
        state="open",
        title=f"{one.name} is {'overloaded' if is_overload else 'limiting our rate'}",
        detail=f"{rate_text(one.per_min)} per minute, {owner}",
        href=reverse("timelines"),
        since=one.since,
    )


def _degraded(rows: Sequence[DegradationRow]) -> Iterator[Item]:
    by_operation: dict[tuple[str, str, str], list[DegradationRow]] = {}
    for row in rows:
        by_operation.setdefault((row.operation, row.kind, row.to_name), []).append(row)
    for (operation, kind, to_name), group in by_operation.items():
        name = operation or group[0].from_name
        answer = f"answers from {to_name}" if to_name else "is withdrawn" if kind == "withdrawn" else "is degraded"
        instances = len({(row.service, row.instance) for row in group})
        yield Item(
            key=f"degraded-{operation}-{kind}-{to_name}",
            state="half_open",
            title=f"{name} {answer}",
            detail=f"{count_text(instances, 'instance')}{', ' + group[0].reason if group[0].reason else ''}",
            href=reverse("timelines"),
            since=min(row.started for row in group),
        )


def _silent(agents: Sequence[AgentRow]) -> Iterator[Item]:
    for agent in agents[:_MOST_SILENT]:
        yield Item(
            key=f"silent-{agent.id}",
            state="unknown",
            title=f"{agent.instance} stopped reporting",
            detail=f"Last heard {agent.last_seen:%H:%M:%S}. Its state is not known",
            href=reverse("agents"),
        )
    rest = len(agents) - _MOST_SILENT
    if rest > 0:
        yield Item(
            key="silent-rest",
            state="unknown",
            title=f"{count_text(rest, 'more agent')} stopped reporting",
            detail="Their state is not known",
            href=reverse("agents"),
        )

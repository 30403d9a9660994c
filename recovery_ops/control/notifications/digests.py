"""Digests: what is down or needs somebody at an hour, and nothing else; at most one message for each time it is due.

What is due stands in tables: the row of a moment is unique, and the message is made in the transaction that writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.urls import reverse

from events.capacity.asking import events_going_on
from events.capacity.rows import OWNER_WORDS, CapacityEventRow
from events.queries import breakers, fleet
from events.rows import AgentRow, BreakerRow
from events.wording import count_text, span_text
from recovery_ops.control.desired_state.action_propagation import Obeyed, all_obeyed, asked_lately
from recovery_ops.control.desired_state.document import Snapshot, read
from recovery_ops.control.escalations.selectors.queue import EscalationRow, rows_of
from recovery_ops.control.notifications.models.digests import Digest
from recovery_ops.control.notifications.models.notifications import TEXT_CHARS, TITLE_CHARS, Delivery, Notification
from recovery_ops.control.notifications.wording import shown
from recovery_ops.rules.desired_state import Override
from recovery_ops.rules.enums import State
from recovery_ops.rules.notifications.digests import Every, Timetable
from recovery_ops.rules.notifications.grouping import Phase, Severity

KIND = "digest"
TOLD_FOR = timedelta(hours=3)
"""So much later it is still told where nobody looked in time; after that it is left out."""
EACH_MOST = 10
"""Lines about one kind of thing; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Down:
    """What is down or needs somebody at a moment, by kind: how many in words, and a line for each."""

    kinds: Sequence[tuple[str, Sequence[str]]]
    counts: Mapping[str, int] = field(default_factory=dict)
    """How many there are, by kind: escalations, acts, breakers, outages, agents; the gravest first, none at 0."""

    @property
    def is_calm(self) -> bool:
        """Whether nothing is."""
        return not self.kinds

    @property
    def title(self) -> str:
        """`Digest: 2 breakers blocking calls, 1 incident ongoing`."""
        words = ", ".join(words for words, _ in self.kinds)
        return shown(f"Digest: {words or 'no open problems'}", TITLE_CHARS)

    @property
    def lines(self) -> list[str]:
        """A line for each, the gravest kind first."""
        return [shown(line, TEXT_CHARS) for _, lines in self.kinds for line in _cut(lines)]


def digests_on(environment: str) -> list[Digest]:
    """Those that are on, of channels that are. One query."""
    found = Digest.objects.filter(environment=environment, is_on=True, channel__is_on=True, channel__removed_at=None)
    return list(found.select_related("channel").order_by("pk"))


def tell_digests(digests: Sequence[Digest], now: datetime) -> int:
    """Make the messages that are due; return how many. To be called under the look's lock.

    One query while none is due.
    """
    due = {(one.origin, _event(moment)): one for one in digests if (moment := _due(one, now)) is not None}
    if not due:
        return 0
    origins, events = {origin for origin, _ in due}, {event for _, event in due}
    told = Notification.objects.filter(origin__in=origins, event__in=events, kind=KIND)
    known = set(told.values_list("origin", "event"))
    fresh = {key: one for key, one in due.items() if key not in known}
    if not fresh:
        return 0
    down = what_is_down(next(iter(fresh.values())).environment, now)
    for (_, event), one in fresh.items():
        says = not down.is_calm or one.tells_calm
        _note(one, event, down, _delivery(one, down, now) if says else None, now)
    return sum(1 for one in fresh.values() if not down.is_calm or one.tells_calm)


def what_is_down(environment: str, now: datetime) -> Down:
    """What a digest says at this moment. About twenty queries."""
    snapshot, agents = read(environment), fleet(environment, now=now)
    blocking = [row for row in breakers(environment, now=now) if not row.is_flowing]
    outages = events_going_on(environment, now=now)
    asked = [row for row in rows_of(environment, "open", by=None, now=now) if _needs_somebody(row)]
    acts = all_obeyed(asked_lately(environment, now), snapshot, agents, now=now).values()
    late = [one for one in acts if one.is_late(now)]
    silent = [row for row in agents if not row.is_reachable]
    counts = {
        "escalations": len(asked),
        "acts": len(late),
        "breakers": len(blocking),
        "outages": len(outages),
        "agents": len(silent),
    }
    kinds = (
        (count_text(len(asked), "escalation"), "unacknowledged or overdue", list(map(_of_escalation, asked))),
        (count_text(len(late), "change"), "not applied everywhere", list(map(_of_act, late))),
        (count_text(len(blocking), "breaker"), "blocking calls", _of_breakers(blocking, snapshot, now)),
        (count_text(len(outages), "incident"), "ongoing", [_of_outage(row, now) for row in outages]),
        (count_text(len(silent), "agent"), "not reporting", [_of_agent(row, now) for row in silent]),
    )
    return Down(
        kinds=[(f"{number} {words}", lines) for number, words, lines in kinds if lines],
        counts={name: number for name, number in counts.items() if number},
    )


def next_at(one: Digest, now: datetime) -> datetime:
    """When it is due next."""
    return _timetable(one).next(now.astimezone(_zone(one)))


def _due(one: Digest, now: datetime) -> datetime | None:
    """The moment that is to be told now, whether or not it was; None where none is."""
    moment = _timetable(one).newest(now.astimezone(_zone(one)))
    return moment if one.since <= moment and now - moment <= TOLD_FOR else None


def _event(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M}"


def _timetable(one: Digest) -> Timetable:
    return Timetable(every=Every(one.every), at=one.at, weekday=one.weekday)


def _zone(one: Digest) -> ZoneInfo:
    try:
        return ZoneInfo(one.zone)
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo("UTC")


def _delivery(one: Digest, down: Down, now: datetime) -> Delivery:
    return Delivery.objects.create(
        environment=one.environment,
        channel=one.channel,
        origin=one.origin,
        lane=one.origin,
        phase=Phase.TOLD.value,
        severity=(Severity.INFO if down.is_calm else Severity.WARNING).value,
        title=down.title,
        lines=down.lines,
        path=reverse("overview"),
        made_at=now,
        not_before=now,
    )


def _note(one: Digest, event: str, down: Down, delivery: Delivery | None, now: datetime) -> None:
    """The row that says that this moment was told, also where there was nothing to say."""
    Notification.objects.create(
        environment=one.environment,
        origin=one.origin,
        channel=one.channel,
        event=event,
        kind=KIND,
        phase=Phase.TOLD.value,
        subject=one.origin,
        severity=Severity.INFO.value,
        at=now,
        found_at=now,
        title=down.title,
        path=reverse("overview"),
        delivery=delivery,
    )


# -- its lines ---------------------------------------------------------------------------------------------------------
def _needs_somebody(row: EscalationRow) -> bool:
    return row.one.acknowledged_at is None or row.is_breached


def _of_escalation(row: EscalationRow) -> str:
    late = ", overdue" if row.is_breached else ""
    return f"{row.one} in {row.one.queue}: {row.title}. {row.holder}{late}."


def _of_breakers(rows: Sequence[BreakerRow], snapshot: Snapshot, now: datetime) -> list[str]:
    held = {one.scope.operation: one for one in snapshot.overrides if one.holds_at(now.timestamp())}
    lines = []
    for row in rows:
        worst = row.worst or State.OPEN
        override = held.get(row.name) if worst is State.FORCED_OPEN else None
        where = f"on {row.counts.get(worst, 0)} of {row.instances}"
        lines.append(
            f"{row.name} is {worst.replace('_', '-' if worst is State.HALF_OPEN else ' ')} {where}{_held_by(override)}"
        )
    return lines


def _held_by(override: Override | None) -> str:
    if override is None:
        return "."
    until = datetime.fromtimestamp(override.expires_at, UTC)
    return f", until {until:%Y-%m-%d %H:%M} UTC, by {override.by}: “{override.reason}”"


def _of_agent(row: AgentRow, now: datetime) -> str:
    return f"{row.instance} of {row.service}: last seen {span_text(now - row.last_seen)} ago."


def _of_act(one: Obeyed) -> str:
    return f"{one.what[:1].upper()}{one.what[1:]}: {one.share}. {one.rest}"


def _of_outage(row: CapacityEventRow, now: datetime) -> str:
    return f"{row.number}: {row.name}. {OWNER_WORDS[row.owner]}, for {span_text(now - row.started)} so far."


def _cut(lines: Sequence[str]) -> list[str]:
    more = len(lines) - EACH_MOST
    return [*lines[:EACH_MOST], *([f"… and {more:,} more"] if more > 0 else [])]

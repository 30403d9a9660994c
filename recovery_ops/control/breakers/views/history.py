"""What became of one breaker, told once: what people did and what the instances reported, newest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from events.rows import Transition
from events.wording import cause_sentence, count_text, state_text, state_word
from recovery_ops.control.audit.wording import verb_of
from recovery_ops.control.core.models.audit import AuditEntry

MOST = 60
TOGETHER = timedelta(seconds=60)
"""Moves of many instances for one reason within this time are one event."""

_STATE_OF = {"breaker.trip": "forced_open", "breaker.disable": "disabled", "breaker.observe": "metrics_only"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One paragraph of the story. `by` and `reason` where a person did it, `detail` where instances reported it."""

    key: str
    at: datetime
    state: str
    title: str
    by: str = ""
    reason: str = ""
    detail: str = ""
    revision: int | None = None


def history_of(
    entries: Iterable[AuditEntry], moves: Iterable[Transition], *, start: datetime, end: datetime
) -> list[Event]:
    """The newest events of a window."""
    done = [_by_person(entry) for entry in entries if start <= entry.at < end]
    events = sorted([*done, *_reported(moves)], key=lambda event: event.at, reverse=True)
    return events[:MOST]


def _by_person(entry: AuditEntry) -> Event:
    return Event(
        key=f"entry-{entry.number}",
        at=entry.at,
        state=_STATE_OF.get(entry.verb, "half_open" if entry.verb == "breaker.release" else "closed"),
        title=f"{verb_of(entry)} {entry.object}",
        by=entry.actor_name,
        reason=entry.reason,
        revision=entry.revision,
    )


def _reported(moves: Iterable[Transition]) -> Iterator[Event]:
    """The moves (newest first) put together: nine instances whose probes fail in the same minute are one event."""
    groups: list[list[Transition]] = []
    newest: dict[tuple[str, str], list[Transition]] = {}
    for move in moves:
        kind = (move.state, move.trigger or "")
        group = newest.get(kind)
        if group is None or group[0].at - move.at > TOGETHER:
            group = newest[kind] = []
            groups.append(group)
        group.append(move)
    return map(_event, groups)


def _event(group: Sequence[Transition]) -> Event:
    newest, first = group[0], group[-1]
    instances = list(dict.fromkeys(move.instance for move in group))
    where = instances[0] if len(instances) == 1 else f"{count_text(len(instances), 'instance')}, first {first.instance}"
    return Event(
        key=f"move-{first.fact_id}",
        at=newest.at,
        state=state_word(newest.state),
        title=f"{state_text(newest.state)}: {cause_sentence(newest, state=newest.state)}",
        detail=where,
    )

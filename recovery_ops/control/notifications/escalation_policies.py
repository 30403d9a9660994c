"""Escalation chains at work: the steps whose time has come are asked, each once; who was asked hears how it went on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import BigIntegerField, CharField, DateTimeField, Q, Value
from django.urls import reverse

from events.wording import span_text
from recovery_ops.control.escalations.models import Escalation, EscalationNote
from recovery_ops.control.escalations.selectors.queue import title_of
from recovery_ops.control.notifications.detectors.escalations import TAKES, asks_of, is_end_of, severity_of
from recovery_ops.control.notifications.models import notifications as tables
from recovery_ops.control.notifications.models.notifications import Channel, Delivery, EscalationChain, Notification
from recovery_ops.control.notifications.recipients import called
from recovery_ops.control.notifications.wording import shown
from recovery_ops.rules.notifications.escalation_levels import (
    EVERYBODY,
    STARTS,
    ChainClock,
    ChainStep,
    StepKey,
    Turn,
    clock_at,
    due_steps,
    keys_of,
    parse_steps,
)
from recovery_ops.rules.notifications.grouping import Phase

_ENDED_LATELY = timedelta(days=1)
EVERY_QUEUE = "*"
STEP = "chain_step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One step as people read it: who is asked, when it was or will be, and what became of it.

    `is_former`: they were asked, and the chain names them no more. `is_too_late`: the run that waits is answered first.
    `is_passed_over`: somebody had a later step asked before.
    """

    who: str
    after_s: float
    asked_at: datetime | None = None
    due_at: datetime | None = None
    delivery: int | None = None
    state: str = ""
    is_former: bool = False
    is_too_late: bool = False
    is_passed_over: bool = False
    is_for_everybody: bool = False

    @property
    def after(self) -> str:
        """`now`, or how long after."""
        return "at once" if not self.after_s else f"after {span_text(self.after_s)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Who is asked when about one escalation. `chain` is None where its queue has none; one that is off asks nobody.

    `changed_at`: the chain was changed since the question was put to its queue, and the rest goes by what it is now.
    """

    chain: EscalationChain | None
    clock: ChainClock
    steps: Sequence[Planned]
    changed_at: datetime | None = None

    @property
    def has_coming(self) -> bool:
        """Whether some step's time has not come yet."""
        return any(step.asked_at is None and step.after_s > self.clock.ran_s for step in self.steps)


def any_on(environment: str) -> bool:
    """Whether some chain is on, or one has asked somebody who is still to hear how it ended."""
    chains = EscalationChain.objects.filter(environment=environment, removed_at=None, is_on=True)
    return chains.exists() or Notification.objects.filter(environment=environment, kind=STEP, is_open=True).exists()


def ask(environment: str, now: datetime) -> int:
    """Ask whom the clock says, and tell those who were asked how it went on. To be called under the look's lock."""
    chains = chains_of(environment)
    recent = Q(resolved_at=None) | Q(resolved_at__gte=now - _ENDED_LATELY)
    found = list(Escalation.objects.filter(recent, environment=environment))
    stories = _stories(found)
    asked = _asked(environment, found)
    channels = {one.pk: one for one in Channel.objects.filter(environment=environment, removed_at=None)}
    made = 0
    for one in found:
        notes = stories.get(one.pk, [])
        made += _tell_the_asked(one, notes, asked.get(origin_of(one), []), now)
        chain = chain_for(one.queue, chains)
        if chain is None or not chain.is_on or one.resolved_at is not None:
            continue
        steps, _ = parse_steps(chain.steps)
        turns = turns_of(notes)
        clock = clock_at(turns, now.timestamp(), chain.since.timestamp())
        known = {note.event for note in asked.get(origin_of(one), [])}
        keys = keys_of(steps)
        for place in due_steps(steps, clock):
            channel = channels.get(steps[place].channel)
            event = _event(clock.round, keys[place])
            if channel is not None and event not in known:
                waited_s = clock_at(turns, now.timestamp()).waited_s if place else 0.0
                _ask(one, steps[place], channel, event=event, waited_s=waited_s, now=now)
                made += 1
    return made


def chains_of(environment: str) -> dict[str, EscalationChain]:
    """The chains by the queue that they are for. One query."""
    found = EscalationChain.objects.filter(environment=environment, removed_at=None)
    return {one.name: one for one in found.order_by("name")}


def chain_for(queue: str, chains: Mapping[str, EscalationChain]) -> EscalationChain | None:
    """The chain of a queue: its own, on or off, or the one of every queue. One that is off asks nobody."""
    return chains.get(queue) or chains.get(EVERY_QUEUE)


def turns_of(notes: Iterable[EscalationNote]) -> list[Turn]:
    """A story as the chain's clock reads it."""
    return [Turn(note.at.timestamp(), _verb(note), note.chain_s or 0.0) for note in notes]


def plan_of(
    one: Escalation,
    notes: Sequence[EscalationNote],
    now: datetime,
    chains: Mapping[str, EscalationChain] | None = None,
) -> Plan:
    """Who was asked, and who will be if nobody takes it. Two queries, one where the chains are known.

    Who was asked since the question was put to this queue stays asked, whatever became of the chain; the rest goes by
    the chain as it is now (docs/decisions/0017).
    """
    chain = chain_for(one.queue, chains_of(one.environment) if chains is None else chains)
    until = (one.resolved_at or now).timestamp()
    turns = turns_of(sorted(notes, key=lambda note: (note.at, note.pk)))
    clock = clock_at(turns, until, chain.since.timestamp() if chain else 0.0)
    if one.resolved_at is not None:
        clock = replace(clock, is_running=False)
    names, asked = _names_and_asked(one, clock.round)
    is_on = chain is not None and chain.is_on
    steps, _ = parse_steps(chain.steps) if chain is not None and is_on else ((), [])
    ends = one.resolve_by if one.ends_by_default and one.default_done_at is None else None  # it is decided then
    planned = [
        _planned(step, names, asked.pop(_event(clock.round, key), None), clock, now, ends)
        for step, key in zip(steps, keys_of(steps), strict=True)
    ]
    former = [_former(note, names) for note in asked.values()]
    began = max((turn.at for turn in turns if turn.verb in STARTS), default=0.0)
    is_changed = chain is not None and chain.changed_at.timestamp() > began
    return Plan(
        chain=chain,
        clock=clock,
        steps=[*former, *planned],
        changed_at=chain.changed_at if chain is not None and is_changed else None,
    )


class Coming(NamedTuple):
    """A step that is still to come: its number from 1 on, how far the clock is then, and whom it asks."""

    number: int
    after_s: float
    who: str


def coming_of(found: Sequence[Escalation], now: datetime) -> dict[int, list[Coming]]:
    """The steps to come of each of these, by its number; those whose queue has no chain are left out. Three queries.

    Steps of one time are asked together: the first of them stands for all.
    """
    standing = _standing_of(found, now)
    names = names_of(found[0].environment) if standing else {}
    coming = {}
    for number, (steps, clock) in standing.items():
        times = sorted({step.after_s for step in steps if step.after_s > clock.ran_s})
        coming[number] = [_coming(steps, after_s, names) for after_s in times]
    return coming


def who_is_at(one: Escalation, number: int) -> str:
    """Whom a step of the chain asks, with those of the same time; empty for none. Two queries."""
    chain = chain_for(one.queue, chains_of(one.environment))
    steps = parse_steps(chain.steps)[0] if chain is not None and chain.is_on else ()
    is_there = 1 <= number <= len(steps)
    return _coming(steps, steps[number - 1].after_s, names_of(one.environment)).who if is_there else ""


def _coming(steps: Sequence[ChainStep], after_s: float, names: Mapping[int, str]) -> Coming:
    together = [place for place, step in enumerate(steps) if step.after_s == after_s]
    return Coming(together[0] + 1, after_s, " and ".join(who_of(steps[place], names) for place in together))


def _standing_of(found: Sequence[Escalation], now: datetime) -> Mapping[int, tuple[Sequence[ChainStep], ChainClock]]:
    """The steps of the chain of each and how it stands, for those whose queue has one that is on. Two queries."""
    chains = chains_of(found[0].environment) if found else {}
    stories = _stories(found) if any(one.is_on for one in chains.values()) else {}
    return standing_by(chains, {one.pk: (one.queue, one.resolved_at) for one in found}, stories, now)


def standing_by(
    chains: Mapping[str, EscalationChain],
    found: Mapping[int, tuple[str, datetime | None]],
    stories: Mapping[int, Sequence[EscalationNote]],
    now: datetime,
) -> Mapping[int, tuple[Sequence[ChainStep], ChainClock]]:
    """The same of what was read: of each question its queue and when it was resolved, and its story. No query.

    A queue whose own chain is off has none: its escalations ask nobody, as `ask` does.
    """
    standing = {}
    for number, (queue, resolved_at) in found.items():
        chain = chain_for(queue, chains)
        if chain is not None and chain.is_on:
            until = (resolved_at or now).timestamp()
            clock = clock_at(turns_of(stories.get(number, [])), until, chain.since.timestamp())
            standing[number] = (parse_steps(chain.steps)[0], clock)
    return standing


def due_of(steps: Sequence[ChainStep], clock: ChainClock) -> int:
    """How many of these steps were due."""
    return sum(step.after_s <= clock.ran_s for step in steps)


class Reached(NamedTuple):
    """How far the chain of an escalation has come: steps that were due, of all; and who is asked next, and when."""

    step: int
    steps: int
    who: str
    at: datetime | None


def reached_by(found: Sequence[Escalation], now: datetime) -> dict[int, Reached]:
    """How far each of these has come, by its number; those whose queue has no chain are left out. Three queries."""
    standing = _standing_of(found, now)
    names = names_of(found[0].environment) if standing else {}
    reached = {}
    for one in found:
        if one.pk not in standing:
            continue
        steps, clock = standing[one.pk]
        coming = next((step for step in steps if step.after_s > clock.ran_s), None)
        runs = clock.is_running and one.resolved_at is None and coming is not None
        reached[one.pk] = Reached(
            step=due_of(steps, clock),
            steps=len(steps),
            who=who_of(coming, names) if runs and coming is not None else "",
            at=now + timedelta(seconds=coming.after_s - clock.ran_s) if runs and coming is not None else None,
        )
    return reached


def preview(steps: Sequence[ChainStep], names: Mapping[int, str], start: datetime) -> list[Planned]:
    """Who would be asked when, if a question came at `start` and nobody took it."""
    return [
        Planned(
            who=who_of(step, names),
            after_s=step.after_s,
            due_at=start + timedelta(seconds=step.after_s),
            is_for_everybody=step.person == EVERYBODY,
        )
        for step in steps
    ]


def open_under(name: str, environment: str) -> int:
    """How many open escalations the chain of this name is for, or would be. Two queries."""
    waiting = Escalation.objects.filter(environment=environment, resolved_at=None)
    if name != EVERY_QUEUE:
        return waiting.filter(queue=name).count()
    return waiting.exclude(queue__in=[one for one in chains_of(environment) if one != EVERY_QUEUE]).count()


def names_of(environment: str) -> dict[int, str]:
    """The channels' names by their numbers. One query."""
    found = Channel.objects.filter(environment=environment, removed_at=None)
    return dict(found.values_list("pk", "name"))


def who_of(step: ChainStep, names: Mapping[int, str]) -> str:
    """`li, by on-call`, `everybody who may respond, by mail`, or `on-call`."""
    channel = names.get(step.channel, "a deleted channel")
    return f"{called(step.person)}, by {channel}" if step.person else channel


def origin_of(one: Escalation) -> str:
    """What the notifications of its chain say they come from."""
    return f"chain:{one.pk}"


class _Told(NamedTuple):
    """What became of a step that was asked: by which channel, when, and its message; or a channel's name (no `at`)."""

    channel: int
    event: str
    at: datetime | None
    delivery: int | None
    state: str | None


def _names_and_asked(one: Escalation, round_: int) -> tuple[dict[int, str], dict[str, _Told]]:
    """The channels' names by their numbers, and who was asked in a round, the first first. One query."""
    no_moment, no_number = Value(None, DateTimeField()), Value(None, BigIntegerField())
    channels = Channel.objects.filter(environment=one.environment, removed_at=None)
    told = Notification.objects.filter(origin=origin_of(one), kind=STEP, event__startswith=_event(round_))
    rows = told.values_list("channel_id", "event", "at", "delivery_id", "delivery__state").union(
        channels.values_list("pk", "name", no_moment, no_number, Value("", CharField())), all=True
    )
    found = [_Told(*row) for row in rows]
    named = {row.channel: row.event for row in found if row.at is None}
    asked = [(row.at, row.delivery or 0, row) for row in found if row.at is not None]
    return named, {row.event: row for _, _, row in sorted(asked, key=lambda told: told[:2])}


def _planned(
    step: ChainStep,
    names: Mapping[int, str],
    asked: _Told | None,
    clock: ChainClock,
    now: datetime,
    ends: datetime | None,
) -> Planned:
    is_passed_over = asked is None and clock.passes(step)
    eta = None if asked or is_passed_over else clock.eta(step, now.timestamp())
    due_at = None if eta is None else now + timedelta(seconds=max(0.0, step.after_s - clock.ran_s))
    is_too_late = due_at is not None and ends is not None and due_at >= ends
    return Planned(
        who=who_of(step, names),
        after_s=step.after_s,
        asked_at=asked.at if asked else None,
        due_at=None if is_too_late else due_at,
        is_too_late=is_too_late,
        is_passed_over=is_passed_over,
        delivery=asked.delivery if asked else None,
        state=asked.state or "" if asked else "",
    )


def _former(asked: _Told, names: Mapping[int, str]) -> Planned:
    """Somebody whom the chain named when they were asked."""
    person = asked.event.partition(" for ")[2]
    step = ChainStep(after_s=0.0, channel=asked.channel, person=person)
    return Planned(
        who=who_of(step, names),
        after_s=0.0,
        asked_at=asked.at,
        delivery=asked.delivery,
        state=asked.state or "",
        is_former=True,
    )


def _stories(found: Sequence[Escalation]) -> Mapping[int, list[EscalationNote]]:
    stories: dict[int, list[EscalationNote]] = defaultdict(list)
    for note in EscalationNote.objects.filter(escalation__in=[one.pk for one in found]).order_by("at", "pk"):
        stories[note.escalation_id].append(note)
    return stories


def _asked(environment: str, found: Sequence[Escalation]) -> Mapping[str, list[Notification]]:
    asked: dict[str, list[Notification]] = defaultdict(list)
    origins = [origin_of(one) for one in found]
    for note in Notification.objects.filter(environment=environment, origin__in=origins).select_related(
        "channel", "delivery"
    ):
        asked[note.origin].append(note)
    return asked


def _verb(note: EscalationNote) -> str:
    """A merge closes only the one that was merged; a default only what was waited for."""
    if note.verb == "merge":
        return "merged" if note.text.startswith(f"{note.by} merged") else "note"
    return note.verb


def _event(round_: int, key: StepKey | None = None) -> str:
    """What was asked in a round, by whom it asks: a step keeps its name when others are put before it."""
    if key is None:
        return f"round {round_} channel "
    return f"{_event(round_)}{key.channel} time {key.time} for {key.person}"


def _ask(one: Escalation, step: ChainStep, channel: Channel, *, event: str, waited_s: float, now: datetime) -> None:
    whom = f"{step.person}: " if step.person and step.person != EVERYBODY else ""
    title = f"{whom}{one} in {one.queue}: {title_of(one)}"
    waited = f"Unacknowledged for {span_text(waited_s)}. " if waited_s else ""
    _send(
        one,
        channel,
        person=step.person if channel.kind == Channel.PEOPLE else "",
        event=event,
        kind=STEP,
        phase=Phase.BEGAN,
        title=title,
        text=f"{waited}{asks_of(one)}",
        now=now,
    )


def _tell_the_asked(
    one: Escalation, notes: Sequence[EscalationNote], asked: Sequence[Notification], now: datetime
) -> int:
    """Whoever was asked hears that it was taken or closed: each of it once, on the channel that asked, as they were."""
    steps = [note for note in asked if note.kind == STEP and note.is_open]
    if not steps:
        return 0
    known = {note.event for note in asked}
    # The newest stand first: of each the beginning is what remains.
    newest_first = sorted(steps, key=lambda note: note.at, reverse=True)
    reached = {(note.channel_id, _person(note)): (note.channel, note.at) for note in newest_first}
    made = 0
    for note in notes:
        is_end = is_end_of(one, note)
        if not (is_end or note.verb in TAKES):
            continue
        end = f"{one.resolution} by {one.resolved_by}" if is_end else f"acknowledged by {note.by}"
        for (_, person), (channel, asked_at) in reached.items():
            event = f"note {note.pk} channel {channel.pk}{f' for {person}' if person else ''}"
            if event in known or note.at < asked_at:
                continue
            _send(
                one,
                channel,
                person=person,
                event=event,
                kind="chain_ended" if is_end else "chain_taken",
                phase=Phase.ENDED if is_end else Phase.ACKNOWLEDGED,
                title=f"{one}: {end}",
                text=note.text,
                now=now,
            )
            made += 1
        if is_end:
            Notification.objects.filter(pk__in=[step.pk for step in steps]).update(is_open=False)
    return made


def _person(note: Notification) -> str:
    return note.delivery.person if note.delivery is not None else ""


def _send(
    one: Escalation,
    channel: Channel,
    *,
    person: str,
    event: str,
    kind: str,
    phase: Phase,
    title: str,
    text: str,
    now: datetime,
) -> None:
    """Both rows in the transaction of the look: the unique one that says it was told, and the message."""
    said = {"severity": severity_of(one).value, "title": shown(title, tables.TITLE_CHARS), "phase": phase.value}
    path = reverse("escalation", args=[one.pk])
    delivery = Delivery.objects.create(
        environment=one.environment,
        channel=channel,
        origin=origin_of(one),
        person=person,
        lane=origin_of(one),
        lines=[shown(text, tables.TEXT_CHARS)] if text else [],
        path=path,
        made_at=now,
        not_before=now,
        **said,
    )
    Notification.objects.create(
        environment=one.environment,
        origin=origin_of(one),
        channel=channel,
        event=event[: tables.EVENT_CHARS],
        kind=kind,
        subject=str(one),
        at=now,
        found_at=now,
        text=shown(text, tables.TEXT_CHARS),
        path=path,
        is_open=phase is Phase.BEGAN,
        delivery=delivery,
        **said,
    )

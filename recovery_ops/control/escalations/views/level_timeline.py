"""Who is asked when about one question, as lanes over time: a lane for who has it, and one for each step of its chain.

The list beside the drawing says the same of each step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from events.charts import drawing
from events.wording import clock_text, count_text, span_text
from recovery_ops.control.dashboard.views.lanes import Row
from recovery_ops.control.escalations.models import Escalation, EscalationNote
from recovery_ops.control.notifications.escalation_policies import Plan, Planned, turns_of
from recovery_ops.rules.notifications.escalation_levels import STARTS, standstills

_LEAST = timedelta(seconds=60)
_BEYOND = 0.06
"""So much of the drawing lies behind what is last on it, or nobody would see it begin."""
_CAP = 1.0
"""Per cent of the width that stands for a message."""
_CAPS = {"sent": "closed", "failed": "open", "unknown": "unknown", "dropped": "unknown"}
_CAP_WORDS = {
    "closed": "delivered",
    "open": "not delivered",
    "unknown": "delivery unknown or dropped",
    "pending": "pending",
}
_SNOOZE = "snooze"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """While somebody had it, or had put it off. `until` None: so far."""

    by: str
    since: datetime
    until: datetime | None
    is_snoozed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTold:
    """A step, and who took the question first after it was asked, how long after."""

    step: Planned
    taken_by: str = ""
    taken_after: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainStrip:
    """The lanes, the labels of the time under them, a sentence, and what the legend has to name."""

    rows: Sequence[Row]
    axis: SafeString
    words: str
    steps: Sequence[StepTold]
    legend: Sequence[tuple[str, str]]
    """Pattern and word of what is drawn."""
    has_coming: bool


def chain_strip(one: Escalation, story: Sequence[EscalationNote], plan: Plan, now: datetime) -> ChainStrip | None:
    """The round of its chain that goes on, or was the last; None where nobody is asked. `story` is in any order."""
    if not plan.steps:
        return None
    notes = sorted(story, key=lambda note: (note.at, note.pk))
    began = max((note.at for note in notes if note.verb in STARTS), default=one.opened_at)
    held = list(_held(notes, one.resolved_at))
    end = one.resolved_at or now
    last = max([end, *(at for step in plan.steps for at in (step.due_at, step.asked_at) if at is not None)])
    frame = _Frame(began, began + max(_LEAST, (last - began) * (1 + _BEYOND)), now=end, is_open=one.resolved_at is None)
    steps = [_told(step, held) for step in plan.steps]
    lanes = [_step_row(told, frame) for told in steps]
    return ChainStrip(
        rows=[_held_row(held, frame), *lanes],
        axis=drawing.axis(frame.start, frame.end),
        words=_words(plan.steps, held, one, now),
        steps=steps,
        legend=list(_legend(plan.steps, held)),
        has_coming=any(step.due_at is not None for step in plan.steps),
    )


@dataclass(frozen=True, slots=True)
class _Frame:
    """What is drawn: from `start` to `end`, up to `now` of what has been; then it ended, or is still to come."""

    start: datetime
    end: datetime
    now: datetime
    is_open: bool

    def share(self, at: datetime) -> float:
        """Where a moment lies, in per cent of the width."""
        return min(100.0, max(0.0, 100 * ((at - self.start) / (self.end - self.start))))

    def said(self, at: datetime) -> str:
        return clock_text(at, today=self.now)

    def span(self, since: datetime, until: datetime | None) -> str:
        """`from 14:26:04 to 14:31:00`; what goes on ends `so far`."""
        to = "so far" if until is None and self.is_open else f"to {self.said(until or self.now)}"
        return f"from {self.said(since)} {to}"


def _held(notes: Sequence[EscalationNote], ended: datetime | None) -> Iterator[Held]:
    for stood in standstills(turns_of(notes)):
        note = notes[stood.place]
        until = ended if stood.until is None else datetime.fromtimestamp(stood.until, UTC)
        yield Held(by=note.by, since=note.at, until=until, is_snoozed=note.verb == _SNOOZE)


def _told(step: Planned, held: Sequence[Held]) -> StepTold:
    asked = step.asked_at
    first = next((one for one in held if asked is not None and not one.is_snoozed and one.since >= asked), None)
    if first is None or asked is None:
        return StepTold(step=step)
    return StepTold(step=step, taken_by=first.by, taken_after=first.since - asked)


def _held_row(held: Sequence[Held], frame: _Frame) -> Row:
    bars = [
        _bar(
            "noted" if one.is_snoozed else "taken",
            *(frame.share(one.since), frame.share(one.until or frame.now)),
            f"{one.by} {'snoozed' if one.is_snoozed else 'acknowledged'}, {frame.span(one.since, one.until)}",
        )
        for one in held
    ]
    ends = held[-1] if held and held[-1].until is None else None
    value = (ends.by if ends else "none") if frame.is_open else "resolved"
    said = ", ".join(f"{one.by} {frame.span(one.since, one.until)}" for one in held)
    return Row(label="Acknowledged by", drawing=_lane(frame, bars, f"Acknowledged by: {said or 'none'}"), value=value)


def _step_row(told: StepTold, frame: _Frame) -> Row:
    step = told.step
    words, value = _said(step, frame)
    bars: list[SafeString] = []
    if step.asked_at is not None:
        taken = None if told.taken_after is None else step.asked_at + told.taken_after
        begin, until = frame.share(step.asked_at), frame.share(taken or frame.now)
        cap = _cap_of(step)
        if cap != "open":  # who was not reached does not wait for anything
            bars.append(_bar("asked", begin, until, f"unacknowledged {frame.span(step.asked_at, taken)}"))
        bars.append(_bar(cap, begin, min(100.0, begin + _CAP), words))
    elif step.due_at is not None:
        bars.append(_outline(frame.share(step.due_at), words))
    taken_by = (
        f", acknowledged by {told.taken_by} {span_text(told.taken_after)} later" if told.taken_after is not None else ""
    )
    return Row(label=step.who, drawing=_lane(frame, bars, f"{step.who}: {words}{taken_by}"), value=value)


def _said(step: Planned, frame: _Frame) -> tuple[str, str]:
    """What a lane says, and what stands at its end."""
    if step.asked_at is not None:
        at, became = frame.said(step.asked_at), _CAP_WORDS[_cap_of(step)]
        return f"notified {at}, {became}", at if became == "delivered" else became
    if step.due_at is not None:
        at = frame.said(step.due_at)
        return f"due at {at} unless acknowledged", f"due {at.rpartition(':')[0]}"
    if step.is_passed_over:
        return "skipped", "skipped"
    if step.is_too_late or not frame.is_open:
        return "not notified", "not notified"
    return f"{step.after} unacknowledged", step.after


def _cap_of(step: Planned) -> str:
    return _CAPS.get(step.state, "pending")


def _bar(pattern: str, begin: float, until: float, words: str) -> SafeString:
    width = max(_CAP / 2, until - begin)
    return format_html(
        '<rect x="{}" width="{}" y="5" height="14" fill="url(#p-{})"><title>{}</title></rect>',
        _percent(min(begin, 100 - width)),
        _percent(width),
        pattern,
        words,
    )


def _outline(begin: float, words: str) -> SafeString:
    """Not yet: an outline to the end of the drawing."""
    return format_html(
        '<rect class="edge thin coming" x="{}" width="{}" y="5.5" height="13"><title>{}</title></rect>',
        _percent(begin),
        _percent(max(_CAP, 100 - begin)),
        words,
    )


def _lane(frame: _Frame, bars: Sequence[SafeString], label: str) -> SafeString:
    x = _percent(frame.share(frame.now))
    now = format_html('<line class="now" x1="{}" x2="{}" y1="0" y2="24"/>', x, x) if frame.is_open else ""
    return format_html(
        '<svg height="24" role="img" aria-label="{}">{}{}{}</svg>',
        label,
        drawing.grid(frame.start, frame.end),
        format_html_join("", "{}", ((bar,) for bar in bars)),
        now,
    )


def _words(steps: Sequence[Planned], held: Sequence[Held], one: Escalation, now: datetime) -> str:
    """`1 of 3 steps was asked; next is lead at 14:20:00 if nobody takes it.`"""
    asked = sum(step.asked_at is not None for step in steps)
    told = f"{asked} of {count_text(len(steps), 'level')} notified"
    coming = next((step for step in steps if step.due_at is not None), None)
    if one.resolved_at is not None:
        return f"{told}; {one.resolution} by {one.resolved_by}."
    if coming is not None and coming.due_at is not None:
        return f"{told}; next level: {coming.who} at {clock_text(coming.due_at, today=now)}."
    if held and held[-1].until is None:
        return f"{told}; {'snoozed' if held[-1].is_snoozed else 'acknowledged'} by {held[-1].by}."
    return f"{told}; no further level."


def _legend(steps: Sequence[Planned], held: Sequence[Held]) -> Iterator[tuple[str, str]]:
    caps = [_cap_of(step) for step in steps if step.asked_at is not None]
    yield from ((cap, _CAP_WORDS[cap]) for cap in _CAP_WORDS if cap in caps)
    if any(cap != "open" for cap in caps):
        yield "asked", "unacknowledged"
    if any(not one.is_snoozed for one in held):
        yield "taken", "acknowledged"
    if any(one.is_snoozed for one in held):
        yield "noted", "snoozed"


def _percent(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".") + "%"

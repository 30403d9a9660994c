"""What people answered a run, told in its story: at the moment of the answer, on the rung on which it was asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from events.moments import US_PER_S, to_us
from events.runs.rows import Kind, Piece, RunStory, Step
from events.runs.stored import facts_of_run
from recovery_ops.control.core.differences import Line, lines_of_text
from recovery_ops.control.escalations.models import Escalation, EscalationNote, EscalationSource
from recovery_ops.control.escalations.services.due import BY as DEADLINE
from recovery_ops.control.escalations.services.opening import ASKING
from recovery_ops.control.escalations.terms import then_of

_LOOKED_THROUGH = 500
_BEFORE_US = 3600 * US_PER_S
"""What is told out of order may stand before what began the run."""
_OUTCOMES = {
    Escalation.APPROVED: "approved as proposed",
    Escalation.EDITED: "approved with another input",
    Escalation.REJECTED: "rejected",
    Escalation.DONE: "resolved",
    Escalation.ABORTED: "aborted",
    Escalation.WITHDRAWN: "withdrawn",
}
_MARKS = {Escalation.WITHDRAWN: "unknown", Escalation.REJECTED: "open", Escalation.ABORTED: "open"}
_VERBS = ("approve", "reject", "resolve")
"""Whose note says why it was decided so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Step):
    """A line of a run's story that people wrote, or silence. `changed` is how the input differs from the proposal."""

    number: int
    queue: str
    by: str
    resolution: str
    reason: str
    proposal: str
    answer: str
    changed: Sequence[Line]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What people were asked about a run, newest first, and which of its facts asked it (by the fact's id)."""

    questions: Sequence[Escalation]
    by_fact: Mapping[int, Escalation]


def asked_by(environment: str, story: RunStory) -> Asked:
    """By the facts of the run that asked, and by hand about it. Three queries; index `fact_by_run`."""
    facts = facts_of_run(environment, story.run).filter(event__in=ASKING, at_us__gte=to_us(story.started) - _BEFORE_US)
    uids = {bytes(uid): pk for pk, uid in facts.values_list("pk", "uid")[:_LOOKED_THROUGH]}
    sources = EscalationSource.objects.filter(environment=environment, uid__in=list(uids))
    told = sources.select_related("escalation__merged_into")
    by_fact = {uids[bytes(one.uid)]: one.escalation for one in told}
    since = Escalation.objects.filter(environment=environment, seen_at__gte=story.started).select_related("merged_into")
    named = [one for one in since.order_by("pk")[:_LOOKED_THROUGH] if story.run in one.runs]
    # What was merged brings its runs: the run asked that one, and is answered there.
    asked_there = {one.merged_into_id for one in (*by_fact.values(), *named)}
    each = {one.pk: one for one in (*by_fact.values(), *(one for one in named if one.pk not in asked_there))}
    return Asked(questions=sorted(each.values(), key=lambda one: -one.pk), by_fact=by_fact)


def with_answers(story: RunStory, asked: Asked) -> RunStory:
    """The same story with the answers in it; what was asked waits up to its answer and no longer. One query."""
    settled = [one for one in asked.questions if _settled_at(one) is not None]
    reasons = _reasons([_decided(one) for one in settled])
    answers = [_line(one, at, reasons) for one in settled if (at := _settled_at(one)) is not None]
    return replace(
        story,
        steps=sorted((*story.steps, *answers), key=lambda step: step.at),
        pieces=[_until(piece, asked.by_fact.get(piece.fact_id)) for piece in story.pieces],
        answers=sum(_settled_at(one) is not None and not _is_silence(one) for one in set(asked.by_fact.values())),
    )


def _decided(one: Escalation) -> Escalation:
    """Where it was decided: what was merged into another is decided there."""
    return one.merged_into if one.merged_into is not None else one


def _settled_at(one: Escalation) -> datetime | None:
    held = _decided(one)
    return held.resolved_at or held.default_done_at


def _is_silence(one: Escalation) -> bool:
    """Whether nobody decided, up to the deadline."""
    return _decided(one).resolved_by in ("", DEADLINE) or _decided(one).resolution == Escalation.WITHDRAWN


def _reasons(decided: Iterable[Escalation]) -> Mapping[int, str]:
    """Why each was decided so, in the words of whoever did."""
    notes = EscalationNote.objects.filter(escalation__in=list(decided), verb__in=_VERBS).order_by("at", "pk")
    return {one.escalation_id: one.text for one in notes}


def _line(asked: Escalation, at: datetime, reasons: Mapping[int, str]) -> Answered:
    one = _decided(asked)
    is_silence = _is_silence(asked)
    outcome = _OUTCOMES.get(one.resolution, one.resolution)
    where = f"{asked}, merged into {one}" if one.pk != asked.pk else str(one)
    reason = "" if is_silence else reasons.get(one.pk, "")
    detail = [where, f"proposed: {one.proposal}" if one.proposal else ""]
    detail += [f"answered: {one.answer}" if one.answer else "", reason]
    return Answered(
        fact_id=-asked.pk,  # no fact tells it
        at=at,
        mark="unknown" if not one.resolution else _MARKS.get(one.resolution, "closed"),
        title=_title(one, outcome, is_silence=is_silence),
        operation=asked.operation,
        detail="; ".join(filter(None, detail)),
        number=one.pk,
        queue=one.queue,
        by=one.resolved_by or DEADLINE,
        resolution=one.resolution,
        reason=reason,
        proposal=one.proposal,
        answer=one.answer,
        changed=lines_of_text(one.proposal, one.answer) if one.resolution == Escalation.EDITED else (),
    )


def _title(one: Escalation, outcome: str, *, is_silence: bool) -> str:
    if one.resolution == Escalation.WITHDRAWN:
        return f"step 4, human input: run aborted, {outcome}"
    said = f"default action: {then_of(one)}" if is_silence else f"{outcome} by {one.resolved_by}"
    return f"step 4, human input: {said}"


def _until(piece: Piece, asked: Escalation | None) -> Piece:
    settled_at = None if asked is None else _settled_at(asked)
    if piece.kind is not Kind.ASKED or asked is None or settled_at is None:
        return piece
    end = settled_at if piece.end is None else min(piece.end, settled_at)
    how = "no answer" if _is_silence(asked) else "answered"
    decided = None if _is_silence(asked) else max(piece.start, end)
    return replace(piece, end=max(piece.start, end), words=f"{piece.words}, {how}", decided=decided)

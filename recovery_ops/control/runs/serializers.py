"""What the API answers about runs: how each stands, and what happened in it step by step."""

from __future__ import annotations

from datetime import datetime

from events.runs.behind import OutageTold
from events.runs.records import RunRecord
from events.runs.rows import RUNGS, RunStory
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.serializers import Document
from recovery_ops.control.escalations.selectors.run_answers import Answered
from recovery_ops.control.runs.models.aborts import RunAbort
from recovery_ops.control.runs.models.retries import RunRetry
from recovery_ops.control.runs.retry_status import RetryTold


def run_event_document(one: RunRecord) -> Document:
    """A fact of a run as it was sent, masked. Only for who is written down to have asked for it."""
    return {
        "at": _moment(one.at),
        "event": one.full_name,
        "severity": one.severity,
        "operation": one.operation,
        "category": one.category,
        "instance": one.instance,
        "trace_id": one.trace_id,
        "span_id": one.span_id,
        "body": one.body,
        "attributes": dict(one.attributes),
    }


def run_document(story: RunStory, standing: str, now: datetime) -> Document:
    """One run. `rung`: 0 nothing failed, 1 retry, 2 fallback, 3 degrade, 4 ask, 5 fail; `ended` null: so far."""
    return {
        "run": story.run,
        "name": story.name,
        "service": story.service,
        "instance": story.instance,
        "version": story.version,
        "source": story.source,
        "is_foreground": story.is_foreground,
        "policy": story.policy,
        "standing": standing,
        "rung": story.level,
        "rungs": len(RUNGS),
        "started": _moment(story.started),
        "ended": _moment(story.ended),
        "took_s": None if story.took is None else story.took.total_seconds(),
        "failed_attempts": story.failed_attempts,
        "failures": {category.value: count for category, count in story.failures.items()},
        "retries": story.retries,
        "waited_s": story.waited_by(now),
        "stood_in": dict(story.stood_in),
        "gave_up": list(story.gave_up),
        "questions": story.questions,
        "answers": story.answers,
        "fingerprints": list(story.fingerprints),
        "numbers": dict(story.numbers),
        "is_cut": story.is_cut,
    }


def abort_document(one: RunAbort | None) -> Document | None:
    """Somebody's wish that a run ends. Whether it was obeyed stands with the run."""
    if one is None:
        return None
    return {
        "run": one.run,
        "instance": one.instance,
        "by": one.by,
        "reason": one.reason,
        "at": _moment(one.at),
        "revision": one.revision,
        "withdrawn_at": _moment(one.withdrawn_at),
        "withdrawn_by": one.withdrawn_by,
    }


def abort_result_document(done: CommandResult[RunAbort]) -> Document:
    """What an act did, or would do; `revision` is that under which the run's agent hears of it."""
    return {
        "revision": done.revision,
        "was_already": done.was_already,
        "dry_run": done.is_dry_run,
        "abort": abort_document(done.object),
    }


def retry_document(one: RunRetry | None) -> Document | None:
    """Somebody's wish that a run begins again, without its input. Whether it was obeyed stands with the run."""
    if one is None:
        return None
    return {
        "id": one.pk,
        "run": one.run,
        "instance": one.instance,
        "by": one.by,
        "reason": one.reason,
        "input_bytes": len(one.input.encode()),
        "at": _moment(one.at),
        "revision": one.revision,
        "begun_at": _moment(one.begun_at),
        "ended_at": _moment(one.ended_at),
        "ended_by": one.ended_by,
    }


def retry_status_document(told: RetryTold | None) -> Document | None:
    """The newest wish that a run begins again; what is observed of it as a code (`state`) and in words (`told`)."""
    stated = None if told is None else retry_document(told.wish)
    if told is None or stated is None:
        return None
    return stated | {"state": str(told.state), "told": told.words, "is_waiting": told.is_waiting}


def retry_result_document(done: CommandResult[RunRetry]) -> Document:
    """What an act did, or would do; `revision` is that under which the instance hears of it."""
    return {
        "revision": done.revision,
        "was_already": done.was_already,
        "dry_run": done.is_dry_run,
        "retry": retry_document(done.object),
    }


def workflow_steps_document(story: RunStory) -> list[Document]:
    """Its lines, oldest first. `answer` is null but for the line of an answer, `capacity_event` but for an outage's."""
    return [
        {
            "at": _moment(step.at),
            "mark": step.mark,
            "operation": step.operation,
            "title": step.title,
            "detail": step.detail,
            "fingerprint": step.fingerprint,
            "derived": None if step.derived is None else step.derived.words,
            "answer": _of_answer(step) if isinstance(step, Answered) else None,
            "capacity_event": step.event if isinstance(step, OutageTold) else None,
        }
        for step in story.steps
    ]


def _of_answer(one: Answered) -> Document:
    """What people, or silence, made of a question; `by` is `deadline` where nobody answered in time."""
    return {
        "escalation": one.number,
        "queue": one.queue,
        "by": one.by,
        "resolution": one.resolution,
        "reason": one.reason,
        "proposal": one.proposal,
        "answer": one.answer,
        "changed": [{"kind": line.kind, "text": line.text} for line in one.changed],
    }


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="milliseconds")

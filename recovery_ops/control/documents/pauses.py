"""Paused work as JSON: the wish, and what is observed of it."""

from __future__ import annotations

from collections.abc import Sequence

from recovery_ops.control.actions import Done
from recovery_ops.control.documents import Document
from recovery_ops.control.documents.intent import moment
from recovery_ops.control.models import WorkPause
from recovery_ops.control.paused import Activity


def of_pause(one: WorkPause) -> Document:
    """A wish; `instance` is empty where it is for the whole service, `expires_at` null until somebody resumes it."""
    return {
        "id": one.pk,
        "service": one.service,
        "instance": one.instance,
        "reason": one.reason,
        "by": one.by,
        "at": moment(one.at),
        "expires_at": moment(one.expires_at),
        "revision": one.revision,
        "ended_at": moment(one.ended_at),
        "ended_by": one.ended_by,
    }


def of_done(done: Done[Sequence[WorkPause]]) -> Document:
    """What was done."""
    return {
        "revision": done.revision,
        "was_already": done.was_already,
        "dry_run": done.is_dry_run,
        "pauses": [of_pause(one) for one in done.object],
    }


def of_activity(one: Activity) -> Document:
    """What was asked for at once, and what each instance has said of it."""
    return {
        "pauses": [of_pause(pause) for pause in one.pauses],
        "is_over": one.is_over,
        "sentence": one.plain,
        "total": one.total,
        "obeying": one.done,
        "runs_in_hand": one.in_hand,
        "instances": [
            {
                "service": told.agent.service,
                "instance": told.agent.instance,
                "told": str(told.heed),
                "detail": told.words,
                "runs_in_hand": told.agent.runs_in_flight,
            }
            for told in one.heeded
        ],
        "not_there": list(one.gone),
    }

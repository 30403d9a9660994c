"""Instances, their breakers and their paused work as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from events.queries.workload import Workload
from events.rows import AgentRow, InstanceState
from recovery_ops.control.agents.models.pauses import WorkPause
from recovery_ops.control.agents.pause_status import Activity
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.serializers import Document, utc_text


def breaker_instance_document(one: InstanceState) -> Document:
    """One breaker in one instance; `state` is null while the instance cannot be reached."""
    return {
        "service": one.agent.service,
        "instance": one.agent.instance,
        "state": None if one.state is None else one.state.value,
        "reported_state": one.reported_state.value,
        "since": utc_text(one.since),
        "trigger": None if one.trigger is None else one.trigger.value,
        "override_id": one.override_id,
        "revision": one.revision,
        "last_seen": utc_text(one.agent.last_seen),
    }


def agent_document(row: AgentRow, labels: Sequence[str] = ()) -> Document:
    """One instance: identity, labels, reachability and applied revision."""
    return {
        "service": row.service,
        "instance": row.instance,
        "version": row.version,
        "group": row.group,
        "labels": list(labels),
        "status": row.status,
        "last_seen": utc_text(row.last_seen),
        "is_reachable": row.is_reachable,
        "revision": row.revision,
        "config_hash": row.config_hash,
        "applied_at": utc_text(row.applied_at),
        "rejected_revision": row.rejected_revision,
        "rejected_reason": row.rejected_reason,
        "clamped": list(row.clamped),
        "breakers_open": row.breakers_open,
        "runs_in_flight": row.runs_in_flight,
        "takes_new_work": row.takes_new_work,
        "takes_retries": row.takes_retries,
        "outbox_pending": row.outbox_pending,
        "outbox_dropped": row.outbox_dropped,
        "region": row.region,
        "retired_at": utc_text(row.retired_at),
    }


def workload_document(work: Workload) -> Document:
    """What an instance does; null for what it did not tell."""
    return {
        "current_run": work.current_run,
        "calls": work.calls,
        "attempts": work.attempts,
        "successes": work.successes,
        "tokens_per_min": None if work.tokens_per_min is None else round(work.tokens_per_min, 1),
    }


def pause_document(one: WorkPause) -> Document:
    """A pause; `instance` is empty for the whole service, `expires_at` is null without an end.

    `is_stop`: it stops the agent, whose runs in flight are aborted too.
    """
    return {
        "id": one.pk,
        "service": one.service,
        "instance": one.instance,
        "is_stop": one.is_stop,
        "reason": one.reason,
        "by": one.by,
        "at": utc_text(one.at),
        "expires_at": utc_text(one.expires_at),
        "revision": one.revision,
        "ended_at": utc_text(one.ended_at),
        "ended_by": one.ended_by,
    }


def pause_result_document(done: CommandResult[Sequence[WorkPause]]) -> Document:
    """What was done."""
    return {
        "revision": done.revision,
        "was_already": done.was_already,
        "dry_run": done.is_dry_run,
        "pauses": [pause_document(one) for one in done.object],
    }


def activity_document(one: Activity) -> Document:
    """Pauses of one request, with the progress of each instance."""
    return {
        "pauses": [pause_document(pause) for pause in one.pauses],
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

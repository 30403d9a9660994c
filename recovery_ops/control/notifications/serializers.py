"""What the API answers about channels, rules, chains and messages. Addresses and secrets are in none of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from recovery_ops.control.core.serializers import Document
from recovery_ops.control.notifications.escalation_policies import who_of
from recovery_ops.control.notifications.models.mutes import NoticeSnooze
from recovery_ops.control.notifications.models.notifications import (
    Channel,
    Delivery,
    EscalationChain,
    NotificationRule,
    Wanted,
)
from recovery_ops.rules.notifications.escalation_levels import parse_steps


def channel_document(one: Channel) -> Document:
    """One way to reach people; `leads_to` is as much of its address as everybody may see."""
    return _wanted(one) | {"kind": one.kind, "leads_to": one.target, "has_secret": bool(one.secret)}


def rule_document(one: NotificationRule) -> Document:
    """What one channel is told; times of quiet as `22:00`."""
    return _wanted(one) | {
        "channel": one.channel_id,
        "triggers": list(one.triggers),
        "operation": one.operation,
        "queue": one.queue,
        "causes": list(one.causes),
        "providers": list(one.providers),
        "least_severity": one.least_severity,
        "failures": one.failures,
        "within_min": one.within_min,
        "expiry_lead_min": one.expiry_lead_min,
        "group_s": one.group_s,
        "quiet_from": f"{one.quiet_from:%H:%M}" if one.quiet_from else None,
        "quiet_to": f"{one.quiet_to:%H:%M}" if one.quiet_to else None,
        "quiet_zone": one.quiet_zone,
        "quiet_passes": one.quiet_passes,
    }


def escalation_policy_document(one: EscalationChain, channels: Mapping[int, str]) -> Document:
    """Who is asked when about the questions of a queue, its `name`; `who` is for people to read."""
    steps, _ = parse_steps(one.steps)
    return _wanted(one) | {
        "steps": [
            {"after_s": step.after_s, "channel": step.channel, "person": step.person, "who": who_of(step, channels)}
            for step in steps
        ]
    }


def delivery_document(one: Delivery) -> Document:
    """One message, and what became of it."""
    return {
        "number": one.pk,
        "channel": one.channel_id,
        "person": one.person or None,
        "phase": one.phase,
        "severity": one.severity,
        "title": one.title,
        "lines": _lines(one.lines),
        "path": one.path,
        "made_at": _moment(one.made_at),
        "state": one.state,
        "tries": one.tries,
        "not_before": _moment(one.not_before) if one.is_unfinished else None,
        "ended_at": _moment(one.ended_at),
        "status_code": one.status_code,
        "problem": one.problem,
    }


def mute_document(one: NoticeSnooze, held: int) -> Document:
    """Notices of a provider that are held back; `held` is of how many things."""
    return {
        "number": one.pk,
        "provider": one.provider,
        "by": one.by,
        "reason": one.reason,
        "started_at": _moment(one.started_at),
        "expires_at": _moment(one.expires_at),
        "ended_at": _moment(one.ended_at),
        "held": held,
    }


def _wanted(one: Wanted) -> Document:
    return {
        "number": one.pk,
        "name": one.name,
        "is_on": one.is_on,
        "version": one.version,
        "changed_at": _moment(one.changed_at),
        "changed_by": one.changed_by,
    }


def _lines(lines: Sequence[object]) -> list[str]:
    return [str(line) for line in lines]


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="milliseconds")

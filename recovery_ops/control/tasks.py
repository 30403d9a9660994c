"""What the worker does for intent: it only looks. What is due stands in tables: a lost or doubled task is harmless."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from events.models import Agent
from events.recoveries.summing import sum_days
from recovery_ops.control.agents.models.pauses import WorkPause
from recovery_ops.control.agents.services.pauses import end_expired_pauses
from recovery_ops.control.approvals.services import end_unanswered
from recovery_ops.control.breakers.models.load_shedding import LoadShed
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.breakers.services.load_shedding import end_expired_shed
from recovery_ops.control.breakers.services.overrides import end_expired
from recovery_ops.control.breakers.services.quorum import keep_quorum
from recovery_ops.control.breakers.services.ramps import keep_ramps
from recovery_ops.control.core.environment import known_environments
from recovery_ops.control.core.models.approval_requests import ApprovalRequest
from recovery_ops.control.demonstration.selectors import generated_until
from recovery_ops.control.demonstration.services import empty_removed
from recovery_ops.control.escalations.seed import is_held
from recovery_ops.control.escalations.services.due import keep_deadlines
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.escalations.services.withdrawing import withdraw_called_off
from recovery_ops.control.exports import job as exports
from recovery_ops.control.issues.services.due import keep_failures
from recovery_ops.control.notifications.dispatcher import send_due
from recovery_ops.control.notifications.retention import forget_old
from recovery_ops.control.notifications.retry_budgets import watch
from recovery_ops.control.notifications.rules import tell
from recovery_ops.control.policies.services.due import keep_rollouts, release_due
from recovery_ops.control.replay import job
from recovery_ops.control.runs.models.retries import RunRetry
from recovery_ops.control.runs.services.retries import end_old, note_begun
from recovery_ops.control.self_monitoring import dead_man_switch
from recovery_ops.control.self_monitoring.retention import sweep_exports, sweep_replays, sweep_used_keys


@shared_task
def end_expired_overrides() -> int:
    """Note what has ended by its time: overrides, shed loads, pauses, requests for a second person; and which runs that
    were to begin again have; return how many.
    """
    now = timezone.now()
    due = Override.objects.filter(ended_at=None, expires_at__lte=now).values_list("environment", flat=True)
    ended = sum(len(end_expired(environment, now=now)) for environment in sorted(set(due)))
    shedding = LoadShed.objects.filter(ended_at=None, expires_at__lte=now).values_list("environment", flat=True)
    ended += sum(end_expired_shed(environment, now=now) is not None for environment in list(shedding))
    pausing = WorkPause.objects.filter(ended_at=None, expires_at__lte=now).values_list("environment", flat=True)
    ended += sum(len(end_expired_pauses(environment, now=now)) for environment in sorted(set(pausing)))
    retrying = RunRetry.objects.filter(ended_at=None).values_list("environment", flat=True)
    for environment in sorted(set(retrying)):
        ended += len(note_begun(environment, now=now)) + len(end_old(environment, now=now))
    asked = ApprovalRequest.objects.filter(state=ApprovalRequest.WAITING, expires_at__lte=now).values_list(
        "environment", flat=True
    )
    return ended + sum(len(end_unanswered(environment, now=now)) for environment in sorted(set(asked)))


@shared_task
def release_due_policies() -> int:
    """Release the proposals whose hour has come; return how many."""
    return len(release_due(now=timezone.now()))


@shared_task
def keep_policy_rollouts() -> int:
    """Ask the health gate about every rollout that goes on; return how many were promoted or taken back."""
    return len(keep_rollouts(now=timezone.now()))


@shared_task
def keep_reset_ramps() -> int:
    """Ask of every reset that goes in steps whether the next one may come; return to how many something was done."""
    return len(keep_ramps(now=timezone.now()))


@shared_task
def keep_quorums() -> int:
    """Trip, prolong and release by the quorum rules of each environment; return how much that was."""
    now = timezone.now()
    return sum(keep_quorum(name, now=now) for name in known_environments())


@shared_task
def sweep_old_replays() -> int:
    """Delete replays that are older than their time; return how many."""
    return sweep_replays(timezone.now())


@shared_task
def sweep_old_exports() -> int:
    """Delete exports that are older than their time, or too many; return how many."""
    return sweep_exports(timezone.now())


@shared_task
def forget_used_keys() -> int:
    """Delete what idempotency keys stood for long ago; return how many."""
    return sweep_used_keys(timezone.now())


@shared_task
def keep_escalations() -> int:
    """Put what was asked to people, and carry out what is due; return how much that was. Not where somebody makes up
    the past: there another clock runs.
    """
    now = timezone.now()
    names = [name for name in known_environments() if not is_held(name, now)]
    return sum(
        open_escalations(name, now) + withdraw_called_off(name, now) + keep_deadlines(name, now) for name in names
    )


@shared_task
def keep_failure_cases() -> int:
    """Bring back what was archived for long enough, and note what is back after it was resolved; return how many."""
    now = timezone.now()
    return sum(keep_failures(name, now=now) for name in known_environments())


@shared_task
def start_replays() -> bool:
    """Start the next replay in a process of its own; return whether there was one to start."""
    return job.start_next(now=timezone.now(), start=job.in_child) is not None


@shared_task
def start_exports() -> bool:
    """Start the next export in a process of its own; return whether there was one to start."""
    return exports.start_next(now=timezone.now(), start=exports.in_child) is not None


@shared_task
def tell_people() -> int:
    """Make a message of what rules and chains tell; return how many that was."""
    now = timezone.now()
    return sum(tell(name, now) for name in known_environments())


@shared_task
def send_messages() -> int:
    """Send what is due; return how many tries were made."""
    return send_due()


@shared_task
def watch_retry_budgets() -> int:
    """Note which retry budgets are spent too fast, and which no more; return how many that changed."""
    now = timezone.now()
    return sum(watch(name, now) for name in known_environments())


@shared_task
def forget_old_messages() -> int:
    """Delete messages that are over for long; return how many."""
    return forget_old(timezone.now())


@shared_task
def ping_dead_man() -> bool:
    """Ping the address that is to hear of us while all is well; return whether it has."""
    return dead_man_switch.ping_while_well(timezone.now())


@shared_task
def empty_removed_demonstrations() -> int:
    """Delete the data of demonstrations that a user removed; return how many were emptied."""
    return empty_removed(timezone.now())


@shared_task
def sum_recoveries() -> int:
    """Sum up what became of the runs of the last days; return how many days. Meant to run every minute or two."""
    now = timezone.now()
    names = Agent.objects.order_by("environment").values_list("environment", flat=True).distinct()
    return sum(sum_days(name, now, since=generated_until(name)) for name in list(names))

"""What the API answers about outages, reduced capabilities, attempts and the weeks: rows as JSON objects."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from events.capacity.models import CapacityArrangement
from events.capacity.moves import BreakerMoves
from events.capacity.rows import OWNER_WORDS, AttributionChange, CapacityEventRow
from events.degradations.rows import Degradations, Reduction
from events.queries.amplification import Amplification, AmplificationRow
from events.queries.spend_accounts import Account
from events.recoveries.asking import Recoveries
from recovery_ops.control.core.serializers import Document
from recovery_ops.control.escalations.durations import Times
from recovery_ops.control.escalations.selectors.report import Kept, Load, Report, Span


def incident_document(row: CapacityEventRow, now: datetime) -> Document:
    """One outage, which lasted to `now` where it is not over. Of one with several `parts`, `joined_by` says who made it
    one: `rule`, `person` or `rule and person`; `regions` are failures by region, as far as any was said.

    Counts are at least so many where `is_partial`, and null until they have been read. What is estimated is what the
    runs that it reached used in all, by the `…_by_runs` of them that said so; null where none did.
    """
    read: Document = {
        "failures": row.failures,
        "foreground": row.foreground,
        "background": row.background,
        "categories": {category.value: count for category, count in row.categories.items()},
        "codes": dict(row.codes),
        "operations": dict(row.operations),
        "runs": row.runs,
        "instances": row.instances,
        "services": dict(row.services),
        "peak_per_min": row.peak_per_min,
        "peak_at": _moment(row.peak_at),
        "longest_wait_s": row.longest_wait_s,
        "breakers_opened": dict(row.breakers),
        "breakers_moved": [_of_moves(one) for one in row.moves],
        "fallbacks": row.fallbacks,
        "runs_waiting": row.waiting,
        "estimated_tokens": row.tokens,
        "estimated_tokens_by_runs": row.spent.tokens_runs,
        "estimated_cost_usd": row.cost_usd,
        "estimated_cost_by_runs": row.spent.cost_runs,
    }
    return {
        "number": row.id,
        "name": row.name,
        "provider": row.provider,
        "model": row.model,
        "operation": row.operation,
        "regions": dict(row.regions),
        "backends": sorted(row.names),
        "started": _moment(row.started),
        "last": _moment(row.last),
        "is_over": row.is_over,
        "lasted_s": row.lasted(now).total_seconds(),
        "owner": row.owner.value,
        "owner_words": OWNER_WORDS[row.owner],
        "attribution_changes": [_attribution(one) for one in row.attributions],
        "is_partial": row.is_partial,
        "merged_into": row.merged_into,
        "parts": [part.id for part in row.parts],
        "joined_by": row.made_by if row.parts else None,
        **(read if row.is_read else dict.fromkeys(read)),
    }


def _attribution(one: AttributionChange) -> Document:
    """When an attribution became another, and the failures by category then."""
    return {
        "at": _moment(one.at),
        "part": one.number,
        "from": one.before.value,
        "to": one.after.value,
        "categories": {category.value: count for category, count in one.categories.items()},
    }


def _of_moves(one: BreakerMoves) -> Document:
    """What one breaker did; `closed_at` is null while it is not closed in every instance that had it open."""
    return {
        "breaker": one.breaker,
        "opened_at": _moment(one.opened_at),
        "openings": one.openings,
        "half_openings": one.half_openings,
        "closings": one.closings,
        "instances": one.instances,
        "not_closed": one.not_closed,
        "closed_at": _moment(one.closed_at),
    }


def merge_document(one: CapacityArrangement) -> Document:
    """What a person said of two events."""
    return {
        "number": one.pk,
        "kind": one.kind,
        "event": one.event_id,
        "other": one.other_id,
        "made_at": _moment(one.made_at),
        "made_by": one.made_by,
        "reason": one.reason,
    }


def incident_note_document(number: int, event: int, *, at: datetime, by: str, text: str) -> Document:
    """What somebody noted on an outage."""
    return {"number": number, "event": event, "at": _moment(at), "by": by, "text": text}


def noise_reduction_document(row: Reduction) -> Document:
    """A capability that was reduced in one way; `ended` is null while it is."""
    return {
        "operation": row.operation,
        "standing": row.standing.value,
        "kind": row.kind,
        "from": row.from_name,
        "to": row.to_name,
        "reason": row.reason,
        "category": None if row.category is None else row.category.value,
        "started": _moment(row.started),
        "ended": _moment(row.ended),
        "instances": list(row.instances),
        "weaker_answers": row.answers,
        "runs": len(row.runs),
        "is_partial": row.is_partial,
        "warning": row.warning,
        "data_age_s": row.data_age_s,
    }


def degradations_document(found: Degradations) -> Document:
    """What was reduced in a window, and the weaker answers that lie in no interval."""
    return {
        "degradations": [noise_reduction_document(row) for row in found.rows],
        "unaccounted": [
            {"operation": one.operation, "to": one.to_name, "answers": one.answers, "instances": list(one.instances)}
            for one in found.unaccounted
        ],
        "mean_cost_usd": {"weaker": found.with_weaker.mean_usd, "others": found.without_weaker.mean_usd},
        "is_partial": found.is_partial,
    }


def amplification_document(found: Amplification, rows: Iterable[AmplificationRow]) -> Document:
    """Attempts for each call in all, and these rows of them."""
    return {
        "calls": found.calls,
        "attempted_calls": found.attempted,
        "attempts": found.attempts,
        "attempts_per_call": found.factor,
        "background_share": found.background_share,
        "retry_share": found.retry_share,
        "background_capacity_retries": found.background_capacity_retries,
        "rows": [_of_row(row) for row in rows],
    }


def spend_account_document(row: Account) -> Document:
    """What one account has spent, and its limits; null is no limit."""
    return {
        "account": row.account,
        "service": row.service,
        "ledger": row.ledger,
        "run": row.run or None,
        "share_of_cap": row.share,
        "cap_raises": row.raises,
        "instances": sorted(row.instances),
        "reported_at": _moment(row.at),
        **{one.measure: {"spent": one.spent, "limit": one.limit} for one in row.balances},
    }


def report_document(found: Report) -> Document:
    """The weeks, the oldest first, and all of them together; of each who did how much and what was noise."""
    return {
        "weeks": [_of_span(week) | _of_load(week) for week in found.weeks],
        "total": _of_span(found.total),
        **_of_load(found.total),
        "is_partial": found.is_partial,
    }


def recovery_document(found: Recoveries) -> dict[str, dict[str, int | float | None]]:
    """What runs did in the days of a report: outcomes, durations, and cost where a run reported it.

    All values are null while none of the days has been summed.
    """
    is_known = found.knows_cost
    document: dict[str, dict[str, int | float | None]] = {
        "runs": {
            "ended": found.runs,
            "troubled": found.troubled,
            "alone": found.alone.runs,
            "helped": found.helped.runs,
            "lost": found.lost.runs,
            "share_alone": found.share_alone,
            "failed_attempts": found.failures,
            "retries": found.retries,
            "fallbacks": found.fallbacks,
            "given_up": found.exhausted,
        },
        "time": {
            "saved_s": found.alone.took_s,
            "helped_s": found.helped.took_s,
            "lost_s": found.lost.took_s,
        },
        "money": {
            "saved_usd": found.alone.cost_usd if is_known else None,
            "lost_usd": found.lost.cost_usd if is_known else None,
            "runs_that_said": found.costed,
        },
    }
    if found.read_at is None:
        return {section: dict.fromkeys(figures) for section, figures in document.items()}
    return document


def _of_load(span: Span) -> Document:
    return {
        "people": [
            {
                "name": one.name,
                "taken": one.taken,
                "decided": one.decided,
                "resolved": one.resolved,
                "comments": one.comments,
                "out_of_hours": one.out_of_hours,
                "held_s": one.held_s,
                "acknowledging": _of_times(one.acknowledging),
                "resolving": _of_times(one.resolving),
            }
            for one in span.people
        ],
        "noisy": [
            {
                "operation": one.operation,
                "service": one.service,
                "kind": one.kind,
                "asked": one.asked,
                "facts": one.facts,
                "undecided": one.undecided,
                "resolving": _of_times(one.resolving),
            }
            for one in span.noisy
        ],
        "queues": [_of_one_load(one) for one in span.queues],
        "causes": [_of_one_load(one) for one in span.causes],
        "shifts": [_of_one_load(one) for one in span.shifts],
        "by_weekday_and_hour": [list(day) for day in span.by_hour],
    }


def _of_one_load(one: Load) -> Document:
    return {
        "name": one.name,
        "asked": one.asked,
        "acknowledging": _of_times(one.acknowledging),
        "resolving": _of_times(one.resolving),
        "resolved_in_time": one.resolved_in_time.share,
        "by_default": one.by_default,
    }


def _of_row(row: AmplificationRow) -> Document:
    return {
        "operation": row.operation,
        "source": row.source,
        "is_foreground": row.is_foreground,
        "calls": row.calls,
        "attempted_calls": row.attempted,
        "attempts": row.attempts,
        "attempts_per_call": row.factor,
        "failures": row.failures,
        "retries": row.retries,
        "inner_retries": row.inner_retries,
        "spent": row.extra,
        "spent_share": row.spent_share,
        "is_finding": row.is_finding,
    }


def _of_span(span: Span) -> Document:
    return {
        "start": _moment(span.start),
        "end": _moment(span.end),
        "asked": span.opened,
        "acknowledging": _of_times(span.acknowledging),
        "resolving": _of_times(span.resolving),
        "acknowledged_in_time": _of_kept(span.acknowledged_in_time),
        "resolved_in_time": _of_kept(span.resolved_in_time),
        "by_default": span.by_default,
        "failed_attempts": span.failures,
        "given_up": span.given_up,
        "recovered_share": span.recovered_share,
        "runs_recovered_alone": span.alone,
        "runs_helped": span.helped,
        "runs_lost": span.lost,
    }


def _of_times(times: Times) -> Document:
    return {
        "count": times.count,
        "mean_s": times.mean_s,
        "p10_s": times.p10_s,
        "median_s": times.median_s,
        "p90_s": times.p90_s,
    }


def _of_kept(kept: Kept) -> Document:
    return {"kept": kept.kept, "of": kept.of, "share": kept.share}


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="milliseconds")

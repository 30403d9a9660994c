"""What the API answers with about causes that nobody could name."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from events.failures.unknown import Matched
from recovery_ops.control.policies.serializers import unknown_issue_document
from recovery_ops.control.policies.unclassified import Item, draft_of


def unclassified_item_document(one: Item) -> dict[str, Any]:
    """One cause."""
    cause, case, said = one.cause, one.cause.cases[0], one.said
    return {
        "fingerprint": cause.fingerprint,
        "state": one.state,
        "failures": cause.count,
        "runs": cause.runs,
        "instances": cause.instances,
        "first": moment_text(cause.first),
        "last": moment_text(cause.last),
        "operations": dict(cause.operations),
        "providers": dict(cause.providers),
        "message": case.message,
        "exception_type": case.exception_type or None,
        "code": case.code or None,
        "status_code": case.status_code,
        "suggested": None
        if one.suggestion is None
        else {"category": one.suggestion.category.value, "because": one.suggestion.because},
        "draft": draft_of(one),
        "named_by": one.named_by or None,
        "said": None if said is None else unknown_issue_document(said),
    }


def matched_document(found: Matched) -> dict[str, Any]:
    """What a rule would match."""
    return {
        "read": found.read,
        "since": moment_text(found.since),
        "is_cut": found.is_cut,
        "unknown": found.unknown,
        "unknown_causes": found.causes,
        "classified_otherwise": found.known_count,
        "classified": [
            {"category": category.value, "fingerprint": mark, "message": message, "failures": count}
            for category, mark, message, count in found.known
        ],
    }


def moment_text(at: datetime) -> str:
    """ISO 8601 in UTC."""
    return at.isoformat(timespec="milliseconds")

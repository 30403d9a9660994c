"""What spans around an error add to the failure that it is: the call, the run, and what a client read of the answer.

Pure. A category that is taken over does not replace the own one of a failure, which `recovery.refined_from` keeps: a
later part of the trace may show that the two are different errors. So the order of arrival changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from events.derived.marks import Says
from events.ingest.records import Row, short_name
from recovery_ops.rules.enums import Category, Evidence
from recovery_ops.rules.events import FailureClassified
from recovery_ops.wire import names

_A = {
    name: names.attribute_of(FailureClassified, name)
    for name in (
        *("evidence", "retryable", "verdict", "error_type", "exception_type", "message", "fingerprint"),
        *("input_tokens", "limit_tokens", "error_code", "rule", "instead_of"),
    )
}
_KEPT_TOO = tuple(
    names.attribute_of(FailureClassified, name) for name in ("status_code", "retry_after_s", "request_id")
)
"""What an HTTP request tells of an answer, unless who made the call says it."""
_TAKEN = (*_A.values(), *_KEPT_TOO)
_STATUS, _ATTEMPT, _TOOL = (names.attribute_of(FailureClassified, name) for name in ("status_code", "attempt", "tool"))
_C = Category
_REFINES = {
    _C.RATE_LIMITED: {_C.QUOTA_EXHAUSTED, _C.RATE_LIMIT_WINDOW},
    _C.INVALID_REQUEST: {_C.CONTEXT_OVERFLOW, _C.CONTENT_REFUSED, _C.QUOTA_EXHAUSTED},
    _C.SERVER_ERROR: {_C.OVERLOADED},
    _C.PERMISSION: {_C.POLICY_DENIED, _C.QUOTA_EXHAUSTED},
    _C.CONFLICT: {_C.IDEMPOTENCY_CONFLICT},
}
"""Categories that a status names → those that the same answer may be, looked at more closely."""
_READ_CLOSELY = {Evidence.STRUCTURED_CODE, Evidence.MESSAGE_PATTERN, Evidence.POLICY_RULE}


def refine(row: Row, passing: Iterable[Row], says: Says) -> bool:
    """Add to a failure what is said around it; whether that changed anything.

    `passing`: what those who pass its error on say of it, the nearest first.
    """
    before = _shown(row)
    _restore(row)
    for other in passing:
        if _says_more(row, other):
            _take_over(row, other)
    if says.operation:
        row.operation = short_name(says.operation)
        row.provider, row.model = short_name(says.provider) or row.provider, short_name(says.model) or row.model
        if says.tool:
            row.attributes[_TOOL] = says.tool
    row.run = short_name(says.run) or row.run
    if _shown(row) == before:
        return False
    row.body = f"{row.operation}: {row.category}, attempt {row.attributes.get(_ATTEMPT, 1)}"
    return True


def _shown(row: Row) -> tuple[object, ...]:
    return (row.operation, row.category, row.provider, row.model, row.run, dict(row.attributes))


def _says_more(row: Row, other: Row) -> bool:
    """Whether the other is about the same answer and names its category more closely."""
    if other.category in ("", _C.UNKNOWN, row.category):
        return False
    if row.category == _C.UNKNOWN:
        return True
    status, others = row.attributes.get(_STATUS), other.attributes.get(_STATUS)
    if others is not None and status is not None and others != status:
        return False
    is_status_alone = row.attributes.get(_A["evidence"]) == Evidence.HTTP_STATUS
    if is_status_alone and other.attributes.get(_A["evidence"]) in _READ_CLOSELY:
        return True
    return other.category in _REFINES.get(Category(row.category), ())


def _restore(row: Row) -> None:
    """Give a failure its own words back."""
    match row.attributes.pop(names.REFINED_FROM, None):
        case {"category": str() as category, "attributes": dict() as own}:
            row.category = category
            row.attributes = {name: value for name, value in row.attributes.items() if name not in _TAKEN} | own


def _take_over(row: Row, other: Row) -> None:
    own = {name: row.attributes[name] for name in _TAKEN if name in row.attributes}
    row.attributes.setdefault(names.REFINED_FROM, {"category": row.category, "attributes": own})
    kept = {name: row.attributes[name] for name in _KEPT_TOO if name in row.attributes}
    for name in _A.values():
        row.attributes.pop(name, None)
    said = {name: other.attributes[name] for name in _TAKEN if name in other.attributes}
    row.attributes |= said | kept
    row.category = other.category

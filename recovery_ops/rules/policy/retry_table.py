"""The policy section `retry_table`: which failures may be made again, and by whom; and which no document can."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from recovery_ops.rules.enums import CAPACITY, Category
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.settings import Problem


class Again(StrEnum):
    """What a row of the retry table says."""

    NEVER = "never"
    ONCE = "once"
    RETRY = "retry"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRow:
    """One row of the retry table; a row with a status beats a row without."""

    category: Category
    foreground: Again
    background: Again
    status_code: int | None = None


_A, _O, _N = Again.RETRY, Again.ONCE, Again.NEVER

BUILT_IN_RETRY_TABLE: tuple[RetryRow, ...] = (
    RetryRow(category=Category.NETWORK, foreground=_A, background=_A),
    RetryRow(category=Category.TIMEOUT, foreground=_A, background=_A),
    RetryRow(category=Category.RATE_LIMITED, foreground=_A, background=_N),
    RetryRow(category=Category.OVERLOADED, foreground=_A, background=_N),
    RetryRow(category=Category.SERVER_ERROR, foreground=_A, background=_A),
    RetryRow(category=Category.CONFLICT, foreground=_A, background=_A),
    RetryRow(category=Category.CONTEXT_OVERFLOW, foreground=_O, background=_O),
    RetryRow(category=Category.AUTH, foreground=_O, background=_O),
    RetryRow(category=Category.STALE_EVIDENCE, foreground=_O, background=_O),
)
"""May it be retried? What the table does not list is not retried."""


def row_document(row: RetryRow) -> dict[str, Any]:
    """The JSON object that `parse_table` reads back as the same row."""
    found: dict[str, Any] = {"category": row.category.value}
    if row.status_code is not None:
        found["status_code"] = row.status_code
    return found | {"foreground": row.foreground.value, "background": row.background.value}


def parse_table(given: object, path: str, problems: list[Problem]) -> tuple[RetryRow, ...]:
    """The rows that a JSON list states; without one the built-in table. Adds a problem for each fault."""
    if given is None:
        return BUILT_IN_RETRY_TABLE
    if not isinstance(given, list):
        problems.append(Problem(path, "must be a list of rows"))
        return ()
    rows = []
    for index, row in enumerate(given):
        place = f"{path}[{index}]"
        try:
            status = row.get("status_code")
            if status is not None and (not isinstance(status, int) or not 100 <= status <= 999):
                problems.append(Problem(f"{place}.status_code", "must be an HTTP status"))
                continue
            made = RetryRow(
                category=Category(row["category"]),
                foreground=Again(row["foreground"]),
                background=Again(row["background"]),
                status_code=status,
            )
            problems.extend(_row_faults(made, place))
            rows.append(made)
        except (KeyError, ValueError, AttributeError, TypeError):
            problems.append(
                Problem(place, "needs a category of the rules, and foreground and background of never, once or retry")
            )
    return tuple(rows)


NEVER_AGAIN = frozenset(
    {
        *(Category.IDEMPOTENCY_CONFLICT, Category.RATE_LIMIT_WINDOW, Category.QUOTA_EXHAUSTED),
        *(Category.PERMISSION, Category.POLICY_DENIED, Category.CONTENT_REFUSED, Category.SEMANTIC),
        *(Category.CANCELLED, Category.UNKNOWN, Category.MODEL_OUTPUT, Category.SCHEMA_MISMATCH),
        *(Category.BUG, Category.RESOURCE),
    }
)
"""What no document can have retried: it already happened, was refused, or would only go wrong in the same way."""


def _row_faults(row: RetryRow, path: str) -> Iterable[Problem]:
    if row.category in NEVER_AGAIN and {row.foreground, row.background} != {Again.NEVER}:
        yield Problem(path, f"{row.category.value} is never retried")
    if row.category in CAPACITY and row.background is not Again.NEVER:
        yield Problem(f"{path}.background", f"{row.category.value} is never retried in background")

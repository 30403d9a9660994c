"""One failure of a cause by itself, with the one before and after it; and what people did about the cause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Q
from django.http import HttpRequest

from events.rows import FailureRow
from recovery_ops.control.audit.wording import verb_of
from recovery_ops.control.core.models.audit import AuditEntry

LOGGED_MOST = 100
_EVERYTHING = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One failure, its place among the newest ones (1 is the newest), and the addresses of its neighbours."""

    row: FailureRow
    place: int
    of: int
    newer_href: str
    older_href: str
    is_recommended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """Something that somebody did about a cause, or was refused."""

    entry: AuditEntry
    verb: str


def occurrence_of(request: HttpRequest, newest: Sequence[FailureRow]) -> Occurrence | None:
    """The failure that the address names (`one`); without a name the one that tells most, of those the newest."""
    if not newest:
        return None
    best = max(range(len(newest)), key=lambda place: (_told(newest[place]), -place))
    asked = request.GET.get("one", "")
    at = next((place for place, row in enumerate(newest) if str(row.fact_id) == asked), best)
    return Occurrence(
        row=newest[at],
        place=at + 1,
        of=len(newest),
        newer_href=_href(request, newest[at - 1]) if at else "",
        older_href=_href(request, newest[at + 1]) if at + 1 < len(newest) else "",
        is_recommended=at == best,
    )


def log_of(environment: str, parts: Iterable[str]) -> list[Logged]:
    """What was done about a cause and its parts, the newest first. One query; index `audit_by_operation`."""
    named = Q()
    for part in parts:
        named |= Q(object__contains=part)
    entries = AuditEntry.objects.filter(named, environment=environment, operation=_EVERYTHING)
    newest = entries.filter(verb__startswith="failure.").order_by("-number")[:LOGGED_MOST]
    return [Logged(entry=entry, verb=verb_of(entry)) for entry in newest]


def _told(row: FailureRow) -> int:
    """How much a record tells."""
    given = (row.run, row.message, row.error_type, row.status_code, row.attempt, row.provider, row.model, row.derived)
    return sum(one not in (None, "") for one in given)


def _href(request: HttpRequest, row: FailureRow) -> str:
    query = request.GET.copy()
    query["one"] = str(row.fact_id)
    return f"?{query.urlencode()}#one"

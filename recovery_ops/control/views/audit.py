"""The audit log: who did what, when and why, what it was before, and whether the chain is whole where one looks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from events.exports import Cell, is_asked, rows_answer
from events.pages import render_page
from events.wording import count_text
from recovery_ops.control import audit as chain
from recovery_ops.control.context import visit_of
from recovery_ops.control.models import EVERYWHERE, AuditEntry, AuditHead
from recovery_ops.control.views.changes import href_of, name_of, verb_of
from recovery_ops.control.views.nothing import no_entry

MOST = 50
EXPORTED_MOST = 50_000
"""Entries in one file; older ones are in the file of `before=`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One entry, with the lines in which before and after differ: `del` or `ins`, and the line."""

    entry: AuditEntry
    verb: str
    object: str
    href: str
    diff: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    """Whether the shown part of the chain is whole; `problem` says where it is not."""

    words: str
    problem: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether every shown entry is as it was written, and in its place."""
        return not self.problem


def audit(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The newest entries, or those before a number (`before=`); `chain=*` is what concerns every environment."""
    grants = visit_of(request).grants
    environment = EVERYWHERE if request.GET.get("chain") == EVERYWHERE else environment
    if not grants.may("see_audit", environment):
        where = "all environments" if environment == EVERYWHERE else environment
        raise PermissionDenied(f"Your role does not let you read the audit log of {where}.")
    before = request.GET.get("before", "")
    entries = AuditEntry.objects.filter(environment=environment).order_by("-number")
    if before.isascii() and before.isdigit() and len(before) < 19:
        entries = entries.filter(number__lt=int(before))
    if is_asked(request):
        name = "all environments" if environment == EVERYWHERE else environment
        return rows_answer(request, f"audit {name}", _COLUMNS, map(_cells, entries[:EXPORTED_MOST]))
    # One more than is shown: its hash is what the last shown entry builds on.
    found = list(entries[: MOST + 1])
    head = AuditHead.objects.filter(environment=environment).first()
    shown = found[:MOST]
    of_chain = f"chain={EVERYWHERE}&" if environment == EVERYWHERE else ""
    context = {
        "now": timezone.now(),
        "rows": [_row(entry) for entry in shown],
        "badge": badge(found, head, is_newest=not before),
        "sentence": _sentence(environment, head),
        "older_href": f"?{of_chain}before={shown[-1].number}" if len(found) > MOST else "",
        "is_everywhere": environment == EVERYWHERE,
        "may_everywhere": grants.may("see_audit", EVERYWHERE),
        "is_newest": not before,
        "empty": None if shown else no_entry(environment, head, is_newest=not before),
    }
    return render_page(request, "control/audit", context)


_COLUMNS = (
    *("number", "at", "who", "kind", "what", "object", "reason", "before", "after", "revision", "result", "code"),
    *("channel", "ip", "request", "hash"),
)


def _cells(one: AuditEntry) -> tuple[Cell, ...]:
    return (
        *(one.number, one.at, one.actor_name, one.actor_kind, one.verb, one.object, one.reason, one.before_text),
        *(one.after_text, one.revision, one.result, one.code, one.channel, one.ip, one.request_id, one.hash),
    )


def badge(found: Sequence[AuditEntry], head: AuditHead | None, *, is_newest: bool) -> Badge:
    """Check the entries at hand (newest first), each against the one before it, and the newest against the head."""
    if not found:
        is_emptied = is_newest and head is not None and head.number > 0
        problem = f"The chain has {head.number} entries, and none is there." if head and is_emptied else ""
        return Badge(words="chain broken" if problem else "nothing to verify", problem=problem)
    newest, problem = found[0], ""
    if is_newest and (head is None or (newest.number, newest.hash) != (head.number, head.hash)):
        problem = f"The newest entry, {newest.number}, is not the one that the end of the chain was noted for."
    for later, earlier in zip(found, [*found[1:], None], strict=True):
        if earlier is None and later.number != 1:
            break  # what it builds on is not at hand
        if earlier is not None and earlier.number != later.number - 1:
            problem = f"Entry {later.number - 1} is missing."
        elif chain.hash_of(later, earlier.hash if earlier is not None else "") != later.hash:
            problem = f"Entry {later.number} is not as it was written."
    if problem:
        advice = "Run `manage.py audit verify` on the server for the whole chain."
        return Badge(words="chain broken", problem=f"{problem} {advice}")
    last = found[-1].number if found[-1].number == 1 else found[-2].number
    return Badge(words=f"verified, rows {last} to {newest.number}")


def _row(entry: AuditEntry) -> Row:
    diff = list(diff_of(entry.before, entry.after))
    return Row(entry=entry, verb=verb_of(entry), object=name_of(entry), href=href_of(entry), diff=diff)


def diff_of(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """The lines that went and those that came, field by field in alphabetical order."""
    old, new = before or {}, after or {}
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield from _lines("del", name, old.get(name))
            yield from _lines("ins", name, new.get(name))


def _lines(kind: str, name: str, value: object) -> Iterator[tuple[str, str]]:
    if value is None or value == {} or value == []:
        return
    if isinstance(value, dict):
        for inner, one in sorted(value.items()):
            yield from _lines(kind, f"{name}.{inner}", one)
        return
    yield kind, f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"


def _sentence(environment: str, head: AuditHead | None) -> str:
    environment = "all environments together" if environment == EVERYWHERE else environment
    if head is None or not head.number:
        return f"Nobody has changed anything in {environment} yet."
    number = count_text(head.number, "entry", "entries")
    return f"{number} in {environment}. They can be added to, and neither changed nor deleted."

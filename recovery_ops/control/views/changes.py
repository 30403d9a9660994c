"""What people changed and what was deployed, as lines: the audit log and the versions told, on other pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby, islice
from types import MappingProxyType

from django.urls import reverse

from events.deployments.asking import Deployment
from events.failures.naming import Called
from recovery_ops.control.audit_words import ON_CAUSES, name_of, verb_of
from recovery_ops.control.marks import version_href
from recovery_ops.control.models import AuditEntry
from recovery_ops.control.numbers import number_in
from recovery_ops.rules.scope import ANY

LATELY = timedelta(hours=24)
MOST = 8
_READ = 10 * MOST
_MOST_DEPLOYED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One line: `Ana Ruiz` `tripped` `search_web`. `href` is the page of the object, empty where it has none.

    `others`: so many more that the console did alike just before it, by itself, or that were deployed before.
    """

    key: int | str
    at: datetime
    by: str
    verb: str
    object: str
    href: str
    reason: str
    revision: int | None
    others: int = 0
    note: str = ""


_known: dict[str, tuple[str, list[AuditEntry]]] = {}
"""What was read last of each environment, by the hash of the audit log that it was read under."""


def newest_entries(environment: str, *, head: str | None = None) -> list[AuditEntry]:
    """The last changes that were made, newest first. One query; none while the audit log ends as it did, in `head`.

    An empty `head` is that of a log without an entry.
    """
    if head == "":
        return []
    known = _known.get(environment)
    if known is not None and known[0] == head:
        return known[1]
    entries = AuditEntry.objects.filter(environment=environment, result=AuditEntry.OK)
    found = list(entries.defer("before_text", "after_text").order_by("-number")[:_READ])
    if head is not None:
        _known[environment] = (head, found)
    return found


def what_changed(
    entries: Iterable[AuditEntry],
    deployed: Sequence[Deployment],
    *,
    now: datetime,
    called: Mapping[str, Called] = MappingProxyType({}),
) -> list[Change]:
    """What was done and what was deployed in the last day, the newest first; neither takes all of the room."""
    told = [_deployed(one) for one in deployed[:_MOST_DEPLOYED]]
    if len(deployed) > len(told):
        told[-1] = replace(told[-1], others=len(deployed) - len(told))
    done = changes_of(entries, now=now, called=called)[: MOST - len(told)]
    return sorted([*done, *told], key=lambda one: one.at, reverse=True)


def _deployed(one: Deployment) -> Change:
    return Change(
        key=f"deployed-{one.service}-{one.version}-{one.at:%Y%m%d%H%M}",
        at=one.at,
        by=one.service,
        verb="runs",
        object=f"{one.version} again" if one.is_return else one.version,
        href=version_href(one),
        reason="",
        revision=None,
        note=f"{one.before} is told no more" if one.is_return else f"Deployed after {one.before}",
    )


def changes_of(entries: Iterable[AuditEntry], *, now: datetime, called: Mapping[str, Called]) -> list[Change]:
    """The entries of the last day as lines; what the console did by itself takes no place from what people did."""
    lately = lately_in(entries, now)
    alike = (list(group) for _, group in groupby(lately, key=_told_with))
    return [replace(change_of(group[0], called), others=len(group) - 1) for group in islice(alike, MOST)]


def lately_in(entries: Iterable[AuditEntry], now: datetime) -> list[AuditEntry]:
    """The entries of the last day."""
    return [entry for entry in entries if entry.at > now - LATELY]


def _told_with(entry: AuditEntry) -> tuple[str, str] | int:
    """What neighbours have in common that one line tells; what a person did has a line of its own."""
    return (entry.actor_name, entry.verb) if entry.actor_kind == "system" else entry.number


def change_of(entry: AuditEntry, called: Mapping[str, Called] = MappingProxyType({})) -> Change:
    """One entry as a line; `called` says how causes of failures are called."""
    return Change(
        key=entry.number,
        at=entry.at,
        by=entry.actor_name,
        verb=verb_of(entry),
        object=name_of(entry, called),
        href=href_of(entry),
        reason=entry.reason,
        revision=entry.revision,
    )


def href_of(entry: AuditEntry) -> str:
    """The page of what was changed."""
    kind, _, name = entry.object.partition("-")
    if kind == "ESC" and (number := number_in(name)) is not None:
        return reverse("escalation", args=[number])
    if entry.verb in ON_CAUSES:
        return reverse("failure", args=[entry.object])
    if entry.object.startswith("run "):
        return reverse("run", args=[entry.object.removeprefix("run ")])
    if not entry.operation or ANY in entry.operation:
        return ""
    if entry.verb.startswith("breaker."):
        return reverse("breaker", args=[entry.operation])
    if entry.verb.startswith("policy."):
        return reverse("policy", args=[entry.operation])
    return ""

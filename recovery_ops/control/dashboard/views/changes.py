"""Changes by users and deployments as rows, from the audit log and reported versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby, islice
from types import MappingProxyType

from django.urls import reverse

from events.deployments.asking import Deployment
from events.failures.naming import Called
from recovery_ops.control.audit.wording import ON_CAUSES, name_of, verb_of
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.numbers import parse_number
from recovery_ops.control.dashboard.marks import version_href
from recovery_ops.rules.policy.scope import ANY

LATELY = timedelta(hours=24)
MOST = 8
_READ = 10 * MOST
_MOST_DEPLOYED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One row: `Ana Ruiz` `tripped` `search_web`. `href` is the page of the object, empty where it has none.

    `others` counts like changes that the console made just before it, or earlier deployments.
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
"""The entries of each environment that were read last, with the hash at the end of the audit log then."""


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
    """Changes and deployments of the last day, the newest first; at most three deployments."""
    deployments = [_deployed(one) for one in deployed[:_MOST_DEPLOYED]]
    if len(deployed) > len(deployments):
        deployments[-1] = replace(deployments[-1], others=len(deployed) - len(deployments))
    done = changes_of(entries, now=now, called=called)[: MOST - len(deployments)]
    return sorted([*done, *deployments], key=lambda one: one.at, reverse=True)


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
        note=f"{one.before} no longer reported" if one.is_return else f"Deployed after {one.before}",
    )


def changes_of(entries: Iterable[AuditEntry], *, now: datetime, called: Mapping[str, Called]) -> list[Change]:
    """The entries of the last day as rows; like changes by the console share one."""
    lately = lately_in(entries, now)
    alike = (list(group) for _, group in groupby(lately, key=_group_of))
    return [replace(change_of(group[0], called), others=len(group) - 1) for group in islice(alike, MOST)]


def lately_in(entries: Iterable[AuditEntry], now: datetime) -> list[AuditEntry]:
    """The entries of the last day."""
    return [entry for entry in entries if entry.at > now - LATELY]


def _group_of(entry: AuditEntry) -> tuple[str, str] | int:
    """Neighbours with the same group share one row; a user's change has a row of its own."""
    return (entry.actor_name, entry.verb) if entry.actor_kind == "system" else entry.number


def change_of(entry: AuditEntry, called: Mapping[str, Called] = MappingProxyType({})) -> Change:
    """One entry as a row; `called` has the names of issues."""
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
    if kind == "ESC" and (number := parse_number(name)) is not None:
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

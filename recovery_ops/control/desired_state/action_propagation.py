"""How far what people asked for has come, act by act: a trip, another override, its end, a reset.

An act is about the instances that were there when it was asked for; one that has ended or was replaced is no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import QuerySet
from django.urls import reverse

from events.rows import AgentRow
from events.wording import count_text, listing
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.desired_state.document import ApplySummary, Snapshot, Standards, apply_status_of, who_is
from recovery_ops.control.notifications.wording import shown
from recovery_ops.rules.policy.scope import Scope

WAITED = timedelta(seconds=10)
"""Twice the interval at which agents poll: whoever can be reached should obey by then."""
FOLLOWED = timedelta(days=1)
"""So long it is waited for that what stayed incomplete becomes complete."""
_RELEASE, _RESETS = "breaker.release", ("breaker.reset", "ramp.continue")
_ACTS = {
    "breaker.trip": "trip",
    "breaker.disable": "disable",
    "breaker.observe": "observe",
    _RELEASE: "clear override",
    "breaker.extend": "extension",
    "breaker.reset": "reset",
    "ramp.continue": "next step",
}
_NAMED = 6
_OBJECT_CHARS = 100
_MOST = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Obeyed:
    """How far an act has come: who of those that it is about obeys it."""

    act: AuditEntry
    summary: ApplySummary

    @property
    def late(self) -> list[AgentRow]:
        """Who can be reached and does not obey it."""
        return [*self.summary.pending, *self.summary.failed, *self.summary.drifted]

    @property
    def is_everywhere(self) -> bool:
        """Whether everybody is known to obey it."""
        return not self.late and not self.summary.unreachable

    @property
    def what(self) -> str:
        """`trip of search_web`."""
        return f"{_ACTS[self.act.verb]} of {shown(self.act.object, _OBJECT_CHARS)}"

    @property
    def share(self) -> str:
        """How many of those who can be reached obey it."""
        applied = len(self.summary.applied)
        return f"{applied} of {applied + len(self.late)} applied"

    @property
    def rest(self) -> str:
        """Who does not, by name."""
        parts = [f"Pending: {listing([row.instance for row in self.late[:_NAMED]])}."] if self.late else []
        if len(self.late) > _NAMED:
            parts.append(f"{len(self.late) - _NAMED} more pending.")
        if self.summary.unreachable:
            unreachable = count_text(len(self.summary.unreachable), "instance")
            parts.append(f"{unreachable} unreachable.")
        return " ".join(parts)

    def is_late(self, now: datetime) -> bool:
        """Whether somebody who can be reached should obey it by now, and does not."""
        return bool(self.late) and now - self.act.at >= WAITED

    @property
    def path(self) -> str:
        """The page of its breaker, or of all where it is about several."""
        name = self.act.operation
        is_about_one = name not in ("", "*") and f"{self.act.object} ".startswith(f"{name} ")
        return reverse("breaker", args=[name]) if is_about_one else reverse("breakers")


def acts(environment: str) -> QuerySet[AuditEntry]:
    """What people asked for that instances have to obey, in order."""
    done = AuditEntry.objects.filter(environment=environment, verb__in=_ACTS, result=AuditEntry.OK, actor_kind="person")
    return done.filter(revision__isnull=False).order_by("number")


def of_one_revision(found: Iterable[AuditEntry]) -> list[AuditEntry]:
    """One entry of each person and revision: of a reset of many the last speaks for all."""
    return list({(one.actor_id, one.revision): one for one in found}.values())


class Asked(NamedTuple):
    """Acts, and of those that end an override what they ended, by revision."""

    acts: Sequence[AuditEntry]
    ended: Mapping[int, Scope]


def asked_for(environment: str, found: Sequence[AuditEntry]) -> Asked:
    """These acts with what they ended. One query where one of them ends something."""
    ending = [act.revision for act in found if act.verb == _RELEASE and act.revision is not None]
    if not ending:
        return Asked(found, {})
    rows = Override.objects.filter(environment=environment, end_revision__in=ending)
    return Asked(found, {one.end_revision: one.scope for one in rows if one.end_revision is not None})


def asked_lately(environment: str, now: datetime, *, by: int | None = None) -> Asked:
    """What was asked for within a day, the newest first; `by` one person. At most two queries."""
    lately = acts(environment).filter(at__gte=now - FOLLOWED, at__lte=now)
    mine = lately if by is None else lately.filter(actor_id=str(by))
    newest = list(mine.order_by("-number")[:_MOST])
    return asked_for(environment, of_one_revision(newest[::-1])[::-1])


def all_obeyed(asked: Asked, snapshot: Snapshot, agents: Sequence[AgentRow], *, now: datetime) -> dict[int, Obeyed]:
    """How far each act has come, by its number; what no longer holds is not among them.

    An override that has ended or was changed again does not, nor an end or a reset where another override holds since.
    """
    scopes, standards = _scopes(asked, snapshot, now.timestamp()), Standards(snapshot)
    return {
        act.number: _obeyed(act, scopes[act.number], standards, agents) for act in asked.acts if act.number in scopes
    }


def _scopes(asked: Asked, snapshot: Snapshot, now: float) -> Mapping[int, Scope]:
    """Which part of the environment each act is about, by its number."""
    live = [one for one in snapshot.overrides if one.expires_at > now]
    held_since = {one.scope: one.revision for one in live if one.starts_at <= now}
    set_by = {one.revision: one.scope for one in live}
    reset_by = {one.revision: one.scope for one in snapshot.resets}
    found = {}
    for act in asked.acts:
        revision = act.revision or 0
        is_end = act.verb == _RELEASE or act.verb in _RESETS
        by = (asked.ended if act.verb == _RELEASE else reset_by) if is_end else set_by
        scope = by.get(revision)
        if scope is not None and not (is_end and held_since.get(scope, 0) > revision):
            found[act.number] = scope
    return found


def _obeyed(act: AuditEntry, scope: Scope, standards: Standards, agents: Iterable[AgentRow]) -> Obeyed:
    """Who obeys it, of those that were there: who came later got it with their first document."""
    there = [row for row in agents if row.is_follower and row.first_seen <= act.at and who_is(row).is_in(scope)]
    return Obeyed(act=act, summary=apply_status_of(there, act.revision or 0, standards, made_at=act.at))

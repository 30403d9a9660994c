"""What people, and the policy by itself, did in a window, and what was deployed: marks beside the facts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Case, CharField, DateTimeField, F, Model, Q, QuerySet, Value, When
from django.db.models.functions import Cast, Coalesce
from django.urls import reverse
from django.utils.http import urlencode

from events.deployments.asking import Deployment, deployments
from events.pages.window import Window
from events.timelines import Kind, Mark
from events.timelines.narrowing import EVERY, Narrow
from events.wording import state_text
from recovery_ops.control.breakers.models.load_shedding import LoadShed
from recovery_ops.control.breakers.models.overrides import Override, Reset
from recovery_ops.control.core.commands import scope_words
from recovery_ops.control.dashboard.models import Annotation
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.notifications.models.mutes import NoticeSnooze
from recovery_ops.control.policies.models.policies import PolicyRelease
from recovery_ops.control.policies.models.rollouts import PolicyRollout
from recovery_ops.rules.policy.scope import ANY, Place, Scope

MOST = 500
"""The newest so many acts of a window are read."""

_TEXT, _MOMENT = CharField(), DateTimeField()
_KIND = {"until": _MOMENT}
_SNOOZED = "snoozed"


class _Row(NamedTuple):
    """One act as each table tells it; `ref` is the number or id of what it was done to."""

    at: datetime
    what: str
    ref: str
    operation: str
    service: str
    instance: str
    group: str
    text: str
    by: str
    why: str
    until: datetime | None = None
    """When what lasts ends; of what goes on, the end of the window."""

    @property
    def scope(self) -> Scope:
        return Scope(service=self.service, operation=self.operation, instance=self.instance, group=self.group)


_SCOPED = {name: F(name) for name in ("operation", "service", "instance", "group")}


def marks_in(environment: str, window: Window, breaker: str, narrow: Narrow = EVERY) -> list[Mark]:
    """The acts of a window and what was deployed, newest first; with a `breaker` those that concern it. Of annotations
    those with the tag, and of a service its own deployments and what may reach it. Two queries.
    """
    told = deployments(environment, start=window.start, end=window.end, breaker=breaker)
    deployed = [one for one in told if narrow.service in ("", one.service)]
    found = [*acts_in(environment, window, breaker, narrow), *map(deployment_mark, deployed)]
    return sorted(found, key=lambda mark: mark.at, reverse=True)[:MOST]


def acts_in(environment: str, window: Window, breaker: str, narrow: Narrow = EVERY) -> list[Mark]:
    """What people and the policy did in a window, newest first: releases and rollouts of the policy, overrides, resets,
    shed load, escalations and annotations; with a `breaker` those that concern it. One query.
    """
    acts = _acts_of(environment, window, breaker, narrow)
    return [_mark(act, window) for act in acts if not breaker or _concerns(act, breaker)]


def acts_about(environment: str, window: Window, breakers: Collection[str]) -> list[Mark]:
    """The acts of a window that concern one of these breakers or operations, newest first. One query."""
    acts = _acts_of(environment, window)
    return [_mark(act, window) for act in acts if any(_concerns(act, breaker) for breaker in breakers)]


def _acts_of(environment: str, window: Window, breaker: str = "", narrow: Narrow = EVERY) -> list[_Row]:
    """The newest acts of a window that may concern a breaker, where one is asked for. One query."""
    first, *others = (
        _acts(kind, environment, window, what, at, said).filter(_about(said, breaker), _meant(kind, said, narrow))
        for kind, what, at, said in _ARMS
    )
    return [_Row._make(row) for row in first.union(*others, all=True).order_by("-told_at")[:MOST]]


class Snoozed(NamedTuple):
    """A provider whose notices are held back now: by the snooze of which number, by whom, why, and until when."""

    number: int
    provider: str
    by: str
    why: str
    until: datetime


def acts_and_snoozes(environment: str, window: Window, *, now: datetime) -> tuple[list[Mark], list[Snoozed]]:
    """What was done in a window, and whose notices are held back now, whatever the window. One query."""
    held: QuerySet[Any, Any] = NoticeSnooze.objects.in_force(environment, now).order_by()
    said = {"ref": F("id"), "operation": F("provider"), "by": F("by"), "why": F("reason"), "until": F("expires_at")}
    others = (_acts(kind, environment, window, what, at, told) for kind, what, at, told in _ARMS)
    # By their ends, which are to come, they stand before all that was done.
    rows = _columns(held, _SNOOZED, "expires_at", said).union(*others, all=True).order_by("-told_at")[:MOST]
    acts = [_Row._make(row) for row in rows]
    snoozed = [
        Snoozed(int(act.ref), act.operation, act.by, act.why, act.until or act.at)
        for act in acts
        if act.what == _SNOOZED
    ]
    return [_mark(act, window) for act in acts if act.what != _SNOOZED], snoozed[::-1]


def deployment_mark(told: Deployment) -> Mark:
    """A deployment as a mark."""
    return Mark(
        at=told.at,
        kind=Kind.DEPLOYMENT,
        word=told.word,
        by="",
        why=f"{told.before} no longer reported" if told.is_return else f"after {told.before}",
        href=version_href(told),
    )


def version_href(told: Deployment) -> str:
    """The instances of a service that tell a version now."""
    return f"{reverse('agents')}?{urlencode({'service': told.service, 'version': told.version})}"


def _inside(kind: type[Model], at: str, window: Window) -> Q:
    """What was done in the window; of what lasts, also what reaches into it."""
    is_inside = Q(**{f"{at}__gte": window.start})
    if kind is Annotation:
        is_inside |= Q(lasts=True) & (Q(until=None) | Q(until__gte=window.start))
    return is_inside & Q(**{f"{at}__lt": window.end})


def _about(said: Mapping[str, Any], breaker: str) -> Q:
    """What may concern a breaker: asked of the store, or the newest acts on others would leave no room for its own."""
    if not breaker or "operation" not in said:
        return Q()
    return Q(operation__in=("", breaker)) | Q(operation__contains=ANY)


def _meant(kind: type[Model], said: Mapping[str, Any], narrow: Narrow) -> Q:
    """What a tag and a service leave of the acts of one table."""
    meant = Q()
    if narrow.tag and kind is Annotation:
        meant &= Q(tags__contains=f"|{narrow.tag}|")
    if narrow.service and kind is Escalation:
        meant &= Q(service=narrow.service)
    elif narrow.service and "service" in said:
        meant &= Q(service__in=(narrow.service, ANY))
    return meant


def _acts(
    kind: type[Model], environment: str, window: Window, what: str, at: str, said: Mapping[str, Any]
) -> QuerySet[Any, Any]:
    """The acts of one table, in the columns of `_Row`."""
    found: QuerySet[Any, Any] = kind._default_manager.filter(_inside(kind, at, window), environment=environment)
    if kind is Annotation:
        found = found.filter(removed_at=None)
    if kind in _PLANNED_AHEAD:  # called off before it began, it never held: only the audit log tells of it
        found = found.exclude(ended_at__lt=F("starts_at"))
    if kind is Annotation:
        until = Case(When(lasts=True, then=Coalesce(F("until"), Value(window.end, output_field=_MOMENT))))
        said = {**said, "until": until}
    return _columns(found, what, at, said)


def _columns(found: QuerySet[Any, Any], what: str, at: str, said: Mapping[str, Any]) -> QuerySet[Any, Any]:
    """The rows of one table in the columns of `_Row`."""
    told: dict[str, Any] = {"at": F(at), "what": Value(what), **dict.fromkeys(_Row._fields[2:], Value(""))}
    told |= {"until": Value(None), **said}
    columns: dict[str, Any] = {
        f"told_{name}": Cast(value, _KIND.get(name, _TEXT)) for name, value in told.items() if name != "at"
    }
    columns["told_at"] = F(at)
    rows: QuerySet[Any, Any] = (
        found.order_by().annotate(**columns).values_list(*(f"told_{name}" for name in _Row._fields))
    )
    return rows


_ARMS: tuple[tuple[type[Model], str, str, dict[str, Any]], ...] = (
    (
        Override,
        "override",
        "starts_at",
        {"ref": F("id"), "text": F("mode"), "by": F("by"), "why": F("reason")} | _SCOPED,
    ),
    (
        *(Override, "release", "ended_at"),
        {"ref": F("id"), "text": F("mode"), "by": F("ended_by"), "why": F("end_reason")} | _SCOPED,
    ),
    (Reset, "reset", "at", {"ref": F("revision"), "by": F("by"), "why": F("reason")} | _SCOPED),
    (LoadShed, "shed", "starts_at", {"ref": F("id"), "text": F("least"), "by": F("by"), "why": F("reason")}),
    (LoadShed, "unshed", "ended_at", {"ref": F("id"), "by": F("ended_by"), "why": F("end_reason")}),
    (PolicyRelease, "policy", "created_at", {"ref": F("version"), "by": F("by"), "why": F("summary")}),
    (PolicyRollout, "rollout", "started_at", {"ref": F("number"), "by": F("by"), "why": F("reason")}),
    (
        *(PolicyRollout, "rolled", "ended_at"),
        {"ref": F("number"), "text": F("state"), "by": F("ended_by"), "why": F("end_reason")},
    ),
    (
        *(Escalation, "asked", "opened_at"),
        {"ref": F("id"), "operation": F("operation"), "text": F("queue"), "by": F("service"), "why": F("reason")},
    ),
    (
        *(Annotation, "noted", "at"),
        {"ref": F("number"), "operation": F("operation"), "text": F("text"), "by": F("by"), "why": F("tags")},
    ),
    (
        *(Escalation, "answered", "resolved_at"),
        {"ref": F("id"), "operation": F("operation"), "text": F("resolution"), "by": F("resolved_by")},
    ),
)
_PLANNED_AHEAD: tuple[type[Model], ...] = (Override, LoadShed)
_KINDS = {
    "policy": Kind.POLICY,
    "rollout": Kind.POLICY,
    "rolled": Kind.POLICY,
    "asked": Kind.ESCALATION,
    "answered": Kind.ESCALATION,
    "noted": Kind.ANNOTATION,
}


def _concerns(act: _Row, breaker: str) -> bool:
    """Whether an act reaches one breaker: what changes the policy or sheds load may reach every one."""
    kind = _KINDS.get(act.what, Kind.OVERRIDE)
    if kind in (Kind.ESCALATION, Kind.ANNOTATION):
        return act.operation == breaker or (kind is Kind.ANNOTATION and not act.operation)
    if kind is Kind.POLICY or act.what in ("shed", "unshed"):
        return True
    return Scope(operation=act.operation).holds(Place(service="", instance="", breaker=breaker))


def _mark(act: _Row, window: Window) -> Mark:
    return Mark(
        at=act.at,
        kind=_KINDS.get(act.what, Kind.OVERRIDE),
        word=_word(act),
        by=act.by,
        why=_why(act),
        href=_href(act, window),
        until=act.until,
        tags=tuple(act.why.strip("|").split("|")) if act.what == "noted" and act.why else (),
    )


def _why(act: _Row) -> str:
    if act.what == "noted":
        return ", ".join(act.why.strip("|").split("|"))
    return act.why.replace("_", " ") if act.what == "asked" else act.why


def _word(act: _Row) -> str:
    """What was done, in two or three words."""
    words = {
        "policy": f"policy {act.ref}",
        "rollout": f"rollout {act.ref} started",
        "rolled": f"rollout {act.ref} {act.text.replace('_', ' ')}",
        "override": f"{state_text(act.text)} {scope_words(act.scope)}",
        "release": f"override cleared {scope_words(act.scope)}",
        "reset": f"reset {scope_words(act.scope)}",
        "shed": f"load shedding below {act.text.replace('_', ' ')}",
        "unshed": "load shedding stopped",
        "asked": f"ESC-{act.ref} opened",
        "answered": f"ESC-{act.ref} {act.text or 'resolved'}",
        "noted": act.text,
    }
    return words[act.what]


def _href(act: _Row, window: Window) -> str:
    if act.what in ("asked", "answered"):
        return reverse("escalation", args=[int(act.ref)])
    if act.what == "noted":
        return reverse("annotation", args=[int(act.ref)])
    if act.what == "policy":
        return reverse("release", args=[int(act.ref)])
    if act.what in ("rollout", "rolled"):
        return reverse("rollout", args=[int(act.ref)])
    if act.what in ("shed", "unshed"):
        return reverse("shed")
    if ANY in act.operation:
        return reverse("breakers")
    return f"{reverse('breaker', args=[act.operation])}?{window.absolute_query}#history"

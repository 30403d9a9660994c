"""What goes on for a while and stands in a table: outages, burning budgets, degradations, what is about to end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from django.db.models import Q
from django.urls import reverse

from events.capacity.asking import capacity_events
from events.capacity.bounds import bounds_of
from events.capacity.models import CapacityEvent
from events.capacity.rows import OWNER_WORDS
from events.models import Degradation
from events.moments import from_us, to_us
from events.wording import clock_text, count_text, span_text
from recovery_ops.control.models import BurnAlert, LoadShed, NotificationRule, Override
from recovery_ops.control.notify.budgets import burn_of
from recovery_ops.control.notify.triggers import Look, Occurrence
from recovery_ops.rules.telling import Phase, Severity

_RECENT = timedelta(hours=1)
_BURN_WORDS = {"fast": "in the last hour", "steady": "in the last six hours", "slow": "over three days"}


def found(look: Look) -> Iterator[Occurrence]:
    """Beginnings and ends; a few queries for each kind that is asked for."""
    if look.wants("capacity") or _told(look, "CE-"):
        yield from _outages(look)
    if look.wants("burn") or _told(look, "burn "):
        yield from _burns(look)
    if look.wants("degraded", "degradation_ended") or _told(look, "degraded "):
        yield from _degradations(look)
    if look.wants("override_expiring") or _told(look, "override ") or _told(look, "shed "):
        yield from _endings(look)


def _told(look: Look, prefix: str) -> list[str]:
    """What was told of this kind and goes on as far as people know."""
    return [one.removeprefix(prefix) for one in look.open if one.startswith(prefix)]


def _outages(look: Look) -> Iterator[Occurrence]:
    """Told to be over once it cannot go on any more: what comes back within `merge_s` is the same outage."""
    bounds = bounds_of(look.environment)
    over = look.now - timedelta(seconds=max(bounds.merge_s, bounds.quiet_s))
    for row in capacity_events(look.environment, start=look.now - _RECENT, end=look.now, now=look.now):
        whose = OWNER_WORDS[row.owner]
        yield Occurrence(
            kind="capacity_began",
            event=row.number,
            subject=row.number,
            phase=Phase.BEGAN,
            severity=Severity.CRITICAL if row.foreground else Severity.WARNING,
            at=row.started,
            title=f"{row.number}: {row.name} is short of capacity",
            text=f"{whose}. {row.failures:,} failed attempts so far." if row.is_read else f"{whose}.",
            path=reverse("capacity-event", args=[row.id]),
            triggers=frozenset({"capacity"}),
        )
        if row.last <= over:
            yield _outage_ended(row.number, row.name, row.last, f"It lasted {span_text(row.lasted(look.now))}.", row.id)
    numbers = [int(one) for one in _told(look, "CE-")]
    gone = CapacityEvent.objects.filter(environment=look.environment, pk__in=numbers)
    for event in gone.filter(Q(merged_into__isnull=False) | Q(last_us__lte=to_us(over))):
        why = f"It is a part of CE-{event.merged_into_id}." if event.merged_into_id else ""
        yield _outage_ended(f"CE-{event.pk}", str(event), from_us(event.last_us), why, event.pk)


def _outage_ended(number: str, name: str, at: datetime, text: str, pk: int) -> Occurrence:
    return Occurrence(
        kind="capacity_ended",
        event=number,
        subject=number,
        phase=Phase.ENDED,
        severity=Severity.WARNING,
        at=at,
        title=f"{number}: {name} has capacity again",
        text=text,
        path=reverse("capacity-event", args=[pk]),
    )


def _burns(look: Look) -> Iterator[Occurrence]:
    told = [int(one) for one in _told(look, "burn ")]
    recent = Q(began_at__gte=look.since) | Q(ended_at__gte=look.since) | Q(ended_at=None) | Q(pk__in=told)
    for alert in BurnAlert.objects.filter(recent, environment=look.environment):
        burn, when = burn_of(alert), _BURN_WORDS.get(alert.burn, "")
        began = Occurrence(
            kind="burn_began",
            event=str(alert.pk),
            subject=f"burn {alert.pk}",
            phase=Phase.BEGAN,
            severity=burn.severity,
            at=alert.began_at,
            title=f"{alert.operation} spends its retry budget {alert.worst:.1f} times too fast",
            text=f"{alert.worst * alert.budget:.0%} as many retries as attempted calls {when}; "
            f"{alert.budget:.0%} is the budget.",
            path=f"{reverse('capacity')}#budgets",
            triggers=frozenset({"burn"}),
            operation=alert.operation,
        )
        yield began
        if alert.ended_at is not None:
            yield replace(
                began,
                kind="burn_ended",
                phase=Phase.ENDED,
                at=alert.ended_at,
                title=f"{alert.operation} keeps within its retry budget again",
                text=f"It lasted {span_text(alert.ended_at - alert.began_at)}.",
                triggers=frozenset(),
            )


def _degradations(look: Look) -> Iterator[Occurrence]:
    """All instances of one operation are told as one: it is degraded while one is, and whole when none is."""
    since_us = to_us(look.since)
    ours = Degradation.objects.filter(environment=look.environment)
    # One question for each index: asked together, SQLite would read all there ever were.
    parts = (
        ours.filter(ended_us__isnull=True),
        ours.filter(started_us__gte=since_us),
        ours.filter(ended_us__gte=since_us),
    )
    rows = list({one.pk: one for part in parts for one in part}.values())
    still = {(one.operation, one.kind) for one in rows if one.ended_us is None}
    for one in sorted(rows, key=lambda one: (one.started_us, one.pk)):
        if one.started_us >= since_us:
            yield _degraded(one, is_end=False)
        if one.ended_us is not None and one.ended_us >= since_us and (one.operation, one.kind) not in still:
            yield _degraded(one, is_end=True)
    yield from _forgotten(look, {f"{operation} {kind}" for operation, kind in still}, rows)


def _degraded(one: Degradation, *, is_end: bool) -> Occurrence:
    instead = f"{one.to_name or 'something less'} instead of {one.from_name or one.operation}"
    at_us = one.ended_us if is_end and one.ended_us is not None else one.started_us
    return Occurrence(
        kind="degradation_ended" if is_end else "degraded",
        event=f"{one.pk}:{at_us}",
        subject=f"degraded {one.operation} {one.kind}",
        phase=Phase.ENDED if is_end else Phase.BEGAN,
        severity=Severity.WARNING,
        at=from_us(at_us),
        title=f"{one.operation} is whole again" if is_end else f"{one.operation} answers with less: {instead}",
        text=f"{count_text(one.calls, 'call')} got {instead}." if is_end else f"{one.reason}.".lstrip("."),
        path=reverse("degradations"),
        triggers=frozenset({"degradation_ended"} if is_end else {"degraded"}),
        operation=one.operation,
        is_flappy=True,
    )


def _forgotten(look: Look, still: set[str], rows: Iterable[Degradation]) -> Iterator[Occurrence]:
    """What was told to be degraded, and ended while nobody looked."""
    recent = {f"{one.operation} {one.kind}" for one in rows}
    for name in sorted(set(_told(look, "degraded ")) - still - recent):
        operation = name.rpartition(" ")[0]
        yield Occurrence(
            kind="degradation_over",
            event=f"{name}:{look.now:%Y-%m-%dT%H:%M}",
            subject=f"degraded {name}",
            phase=Phase.ENDED,
            severity=Severity.WARNING,
            at=look.now,
            title=f"{operation} is whole again",
            operation=operation,
            is_flappy=True,
        )


def _endings(look: Look) -> Iterator[Occurrence]:
    """Overrides, and load that is shed, as each rule wants to be told ahead."""
    rules = NotificationRule.objects.filter(environment=look.environment, removed_at=None, is_on=True)
    asking = [rule for rule in rules if "override_expiring" in rule.triggers]
    # What a rule of the policy set is prolonged by the rule, or given back: nobody has to look after it.
    overrides = Override.objects.in_force(look.environment, look.now).filter(rule="")
    for held in (*overrides, *LoadShed.objects.in_force(look.environment, look.now)):
        for rule in asking:
            if held.expires_at - timedelta(minutes=rule.expiry_lead_min) <= look.now:
                yield _expiring(held, rule.pk, look.now)
    soon = look.now + timedelta(minutes=max((rule.expiry_lead_min for rule in asking), default=10))
    told_overrides = Override.objects.filter(environment=look.environment, pk__in=_told(look, "override "))
    told_shed = LoadShed.objects.filter(environment=look.environment, pk__in=_told(look, "shed "))
    for held in (*told_overrides, *told_shed):
        is_over = held.ended_at is not None or held.expires_at <= look.now
        if is_over or held.expires_at > soon:
            yield _expired(held, is_over=is_over, now=look.now)


def _expiring(held: Override | LoadShed, rule: int, now: datetime) -> Occurrence:
    ends = f"{clock_text(held.expires_at, today=now)} UTC"
    if isinstance(held, Override):
        title, mode = f"The override of {held.operation} ends at {ends}", held.mode.replace("_", " ")
    else:
        title, mode = f"Shed load passes again at {ends}", f"Less than {held.least.replace('_', ' ')} fails at once,"
    return replace(
        _about(held, now),
        kind="override_expiring",
        phase=Phase.BEGAN,
        severity=Severity.WARNING,
        title=title,
        text=f"{mode} by {held.by}: “{held.reason}”. Extend it if it is still needed.",
        triggers=frozenset({"override_expiring"}),
        rule=rule,
    )


def _expired(held: Override | LoadShed, *, is_over: bool, now: datetime) -> Occurrence:
    until = f"until {clock_text(held.expires_at, today=now)} UTC"
    if isinstance(held, Override):
        title = f"The override of {held.operation} {'has ended' if is_over else f'was extended {until}'}"
    else:
        title = "Load is shed no more" if is_over else f"Load is shed longer, {until}"
    found = _about(held, now)
    return replace(found, event=f"{found.event}:{'over' if is_over else 'extended'}", title=title)


def _about(held: Override | LoadShed, now: datetime) -> Occurrence:
    """What both say of it."""
    operation, path, kind = "", reverse("shed"), "shed"
    if isinstance(held, Override):
        operation, kind = held.operation, "override"
        path = reverse("breakers") if "*" in operation else reverse("breaker", args=[operation])
    return Occurrence(
        kind="override_over",
        event=f"{held.pk}:{held.expires_at:%Y-%m-%dT%H:%M:%S}",
        subject=f"{kind} {held.pk}",
        phase=Phase.ENDED,
        severity=Severity.INFO,
        at=now,
        title="",
        path=path,
        operation=operation,
    )

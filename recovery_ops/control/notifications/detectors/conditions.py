"""What goes on for a while and stands in a table: outages, burning budgets, degradations, what is about to end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from django.db.models import Q
from django.urls import reverse

from events.capacity.asking import capacity_events, wholes_by_number
from events.capacity.bounds import bounds_of
from events.capacity.rows import OWNER_WORDS, CapacityEventRow
from events.models import Degradation
from events.moments import from_us, to_us
from events.queries.fleet import has_ended, silent_since_us
from events.wording import clock_text, count_text, span_text
from recovery_ops.control.breakers.models.load_shedding import LoadShed
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.notifications.models.notifications import BurnAlert, NotificationRule
from recovery_ops.control.notifications.retry_budgets import burn_of
from recovery_ops.control.notifications.triggers import Look, Occurrence
from recovery_ops.rules.notifications.grouping import Phase, Severity

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
    """Told once it was read whose it is, and to be over once it cannot go on: what comes back within `merge_s` is it.

    Of several parts that are one, the last failure of all of them is the end. So it is for a number that was told and
    is a part of another by now.
    """
    bounds = bounds_of(look.environment)
    over = look.now - timedelta(seconds=max(bounds.merge_s, bounds.quiet_s))
    for row in capacity_events(look.environment, start=look.now - _RECENT, end=look.now, now=look.now, bounds=bounds):
        if not row.is_read:
            continue  # what is told once is not told before it is known
        yield _outage_began(row)
        if row.last <= over:
            yield _outage_ended(row.id, row, look.now)
    told = wholes_by_number(look.environment, map(int, _told(look, "CE-")), now=look.now, bounds=bounds)
    for number, whole in told.items():
        if whole.last <= over:
            yield _outage_ended(number, whole, look.now)


def _outage_began(row: CapacityEventRow) -> Occurrence:
    return Occurrence(
        kind="capacity_began",
        event=row.number,
        subject=row.number,
        phase=Phase.BEGAN,
        severity=Severity.CRITICAL if row.foreground else Severity.WARNING,
        at=row.started,
        title=f"{row.number}: {row.name} out of capacity",
        text=f"{OWNER_WORDS[row.owner]}. {row.failures:,} failed attempts.",
        path=reverse("capacity-event", args=[row.id]),
        triggers=frozenset({"capacity"}),
        providers=_providers(row),
    )


def _outage_ended(number: int, whole: CapacityEventRow, now: datetime) -> Occurrence:
    """The end of what was told under this number."""
    part = "" if number == whole.id else f"Merged into {whole.number}. "
    return Occurrence(
        kind="capacity_ended",
        event=f"CE-{number}",
        subject=f"CE-{number}",
        phase=Phase.ENDED,
        severity=Severity.WARNING,
        at=whole.last,
        title=f"CE-{number}: {whole.name} recovered",
        text=f"{part}Duration {span_text(whole.lasted(now))}.",
        path=reverse("capacity-event", args=[number]),
        providers=_providers(whole),
    )


def _providers(row: CapacityEventRow) -> frozenset[str]:
    """Whose outage it is."""
    return frozenset(part.provider for part in row.parts or (row,)) - {""}


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
            title=f"{alert.operation}: retry budget burn rate {alert.worst:.1f}×",
            text=f"Retries are {alert.worst * alert.budget:.0%} of calls {when}; the budget is {alert.budget:.0%}.",
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
                title=f"{alert.operation}: retry budget recovered",
                text=f"Duration {span_text(alert.ended_at - alert.began_at)}.",
                triggers=frozenset(),
            )


def _degradations(look: Look) -> Iterator[Occurrence]:
    """All instances of one operation are told as one: it is degraded while one that reports is, and then whole."""
    since_us = to_us(look.since)
    ours = Degradation.objects.filter(environment=look.environment).select_related("agent")
    # One question for each index: asked together, SQLite would read all there ever were.
    parts = (
        ours.filter(ended_us__isnull=True),
        ours.filter(started_us__gte=since_us),
        ours.filter(ended_us__gte=since_us),
    )
    rows = list({one.pk: one for part in parts for one in part}.values())
    still = {(one.operation, one.kind) for one in rows if one.ended_us is None and _is_heard(one, look.now)}
    for one in sorted(rows, key=lambda one: (one.started_us, one.pk)):
        if one.started_us >= since_us:
            yield _degraded(one, is_end=False)
        if one.ended_us is not None and one.ended_us >= since_us and (one.operation, one.kind) not in still:
            yield _degraded(one, is_end=True)
    yield from _forgotten(look, {f"{operation} {kind}" for operation, kind in still}, rows)


def _degraded(one: Degradation, *, is_end: bool) -> Occurrence:
    instead = f"{one.to_name or 'fallback'} instead of {one.from_name or one.operation}"
    at_us = one.ended_us if is_end and one.ended_us is not None else one.started_us
    return Occurrence(
        kind="degradation_ended" if is_end else "degraded",
        event=f"{one.pk}:{at_us}",
        subject=f"degraded {one.operation} {one.kind}",
        phase=Phase.ENDED if is_end else Phase.BEGAN,
        severity=Severity.WARNING,
        at=from_us(at_us),
        title=f"{one.operation} recovered" if is_end else f"{one.operation} degraded: {instead}",
        text=f"{count_text(one.calls, 'degraded call')}: {instead}." if is_end else f"{one.reason}.".lstrip("."),
        path=reverse("degradations"),
        triggers=frozenset({"degradation_ended"} if is_end else {"degraded"}),
        operation=one.operation,
        is_flappy=True,
    )


def _is_heard(one: Degradation, now: datetime) -> bool:
    """Whether its instance reports: who died in the middle of it never says that it is over."""
    return not has_ended(one.agent) and one.agent.last_seen_us >= silent_since_us(now)


def _forgotten(look: Look, still: set[str], rows: Iterable[Degradation]) -> Iterator[Occurrence]:
    """What was told to be degraded, and ended while nobody looked, or fell silent and stayed so."""
    since_us = to_us(look.since)
    heard_us: dict[str, int] = {}
    for one in rows:
        name = f"{one.operation} {one.kind}"
        last_us = one.agent.last_seen_us if one.ended_us is None else one.ended_us
        heard_us[name] = max(one.started_us, last_us, heard_us.get(name, 0))
    for name in sorted(set(_told(look, "degraded ")) - still):
        if heard_us.get(name, 0) >= since_us:
            continue  # its end is among the rows, or may yet come
        operation, is_silent = name.rpartition(" ")[0], name in heard_us
        yield Occurrence(
            kind="degradation_over",
            event=f"{name}:{look.now:%Y-%m-%dT%H:%M}",
            subject=f"degraded {name}",
            phase=Phase.ENDED,
            severity=Severity.WARNING,
            at=look.now,
            title=f"{operation} is no longer degraded" if is_silent else f"{operation} recovered",
            text="No reporting instance is degraded." if is_silent else "",
            path=reverse("degradations") if is_silent else "",
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
        title, mode = f"Override of {held.operation} expires at {ends}", held.mode.replace("_", " ")
    else:
        title, mode = f"Load shedding expires at {ends}", f"Rejects load below {held.least.replace('_', ' ')},"
    return replace(
        _about(held, now),
        kind="override_expiring",
        phase=Phase.BEGAN,
        severity=Severity.WARNING,
        title=title,
        text=f"{mode} by {held.by}: “{held.reason}”. Extend it if needed.",
        triggers=frozenset({"override_expiring"}),
        rule=rule,
    )


def _expired(held: Override | LoadShed, *, is_over: bool, now: datetime) -> Occurrence:
    until = f"until {clock_text(held.expires_at, today=now)} UTC"
    if isinstance(held, Override):
        title = f"Override of {held.operation} {'ended' if is_over else f'extended {until}'}"
    else:
        title = "Load shedding ended" if is_over else f"Load shedding extended {until}"
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

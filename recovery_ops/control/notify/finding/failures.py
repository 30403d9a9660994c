"""Failures: kinds that were never seen, kinds that are back, and operations that fail more often than a rule allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from django.db.models import Sum
from django.urls import reverse

from events.cardinality import Kind
from events.failures.asking import named_marks, newest_marked
from events.models import KnownName, MinuteSum
from events.moments import from_us
from events.wording import count_text
from recovery_ops.control.models import FailureCase, NotificationRule, NotifyLook, SeenFailure
from recovery_ops.control.notify.triggers import Look, Occurrence
from recovery_ops.rules.scope import Place, Scope
from recovery_ops.rules.telling import Phase, Severity

REGRESSED_AFTER = timedelta(days=1)
_EVERY = timedelta(seconds=10)
_OVERLAP = timedelta(minutes=2)
_LONGEST = timedelta(days=1)
_KEPT_TO = timedelta(minutes=5)
_MANY = "failures_many"


def found(look: Look) -> Iterator[Occurrence]:
    """New and returned kinds every 10 s; what was resolved and is back, and too many in a short time, at each look."""
    if look.wants("first_seen", "regressed"):
        yield from _kinds(look)
    if look.wants("regressed"):
        yield from _resolved_too_soon(look)
    if look.wants(_MANY) or any(one.startswith("failures ") for one in look.open):
        yield from _many(look)


def _kinds(look: Look) -> Iterator[Occurrence]:
    state = NotifyLook.objects.get(environment=look.environment)
    if state.failures_at is None:
        _begin(look)
    elif timedelta() <= look.now - state.failures_at < _EVERY:  # a look from the future was by a clock since set back
        return
    since = max(min(state.failures_at or look.now, look.now) - _OVERLAP, look.now - _LONGEST)
    marks = named_marks(look.environment, start=since, end=look.now + timedelta(seconds=1))
    names = list({one.fingerprint for one in marks})
    known = {
        one.fingerprint: one for one in SeenFailure.objects.filter(environment=look.environment, fingerprint__in=names)
    }
    fresh: dict[str, SeenFailure] = {}
    for one in marks:
        seen = known.get(one.fingerprint) or fresh.get(one.fingerprint)
        if seen is None:
            fresh[one.fingerprint] = SeenFailure(
                environment=look.environment, fingerprint=one.fingerprint, first_at=one.first, last_at=one.last
            )
            yield _kind("first_seen", one.fingerprint, one.operation, one.category, one.first)
        elif one.first - seen.last_at >= REGRESSED_AFTER:
            yield _kind("regressed", one.fingerprint, one.operation, one.category, one.first, seen.last_at)
        if seen is not None and one.last - seen.last_at >= _KEPT_TO:
            seen.last_at = one.last
            if seen.pk:
                seen.save(update_fields=["last_at"])
    SeenFailure.objects.bulk_create(fresh.values(), ignore_conflicts=True)
    NotifyLook.objects.filter(environment=look.environment).update(failures_at=look.now)


def _resolved_too_soon(look: Look) -> Iterator[Occurrence]:
    """Causes that somebody called resolved, and that failed again. One query, another where there are some.

    Whose it is stands in the newest failures; of a cause that a flood has pushed out of those, its name is told.
    """
    cases = list(
        FailureCase.objects.filter(
            environment=look.environment, state=FailureCase.REGRESSED, decided_at__gte=look.since
        ).order_by("decided_at", "pk")
    )
    names = [case.fingerprint for case in cases]
    named = newest_marked(look.environment, names, start=look.since, end=look.now) if cases else {}
    for case in cases:
        mark = named.get(case.fingerprint)
        operation, category = (mark.operation, mark.category) if mark else ("", case.fingerprint)
        found = _kind("regressed", case.fingerprint, operation, category, case.decided_at, case.decided_at)
        text = f"It was resolved. {case.reason} Fingerprint {case.fingerprint}."
        yield replace(found, event=f"{case.fingerprint}:resolved:{case.version}", text=text)


def _begin(look: Look) -> None:
    """What the store knows when it is first looked at is not new."""
    kept = KnownName.objects.filter(environment=look.environment, kind=Kind.FINGERPRINT.value)
    day_us = 86_400_000_000
    rows = {name: from_us(day * day_us) for name, day in kept.values_list("name", "seen_day")}
    for one in named_marks(look.environment, start=look.now - _LONGEST, end=look.now):
        rows[one.fingerprint] = max(one.last, rows.get(one.fingerprint, one.last))
    SeenFailure.objects.bulk_create(
        [
            SeenFailure(environment=look.environment, fingerprint=name, first_at=at, last_at=at)
            for name, at in rows.items()
        ],
        ignore_conflicts=True,
    )


def _kind(
    trigger: str, fingerprint: str, operation: str, category: str, at: datetime, before: datetime | None = None
) -> Occurrence:
    what = f"{operation or 'a run'}: {category}"
    title = f"Back again: {what}" if before else f"Never seen before: {what}"
    text = f"The last one was at {before:%Y-%m-%d %H:%M} UTC. " if before else ""
    return Occurrence(
        kind=trigger,
        event=f"{fingerprint}:{at:%Y-%m-%d}" if before else fingerprint,
        subject=f"fingerprint {fingerprint}",
        phase=Phase.TOLD,
        severity=Severity.WARNING if before else Severity.INFO,
        at=at,
        title=title,
        text=f"{text}Fingerprint {fingerprint}.",
        path=reverse("failure", args=[fingerprint]),
        triggers=frozenset({trigger}),
        operation=operation,
    )


def _many(look: Look) -> Iterator[Occurrence]:
    rules = NotificationRule.objects.filter(environment=look.environment, removed_at=None, is_on=True)
    counted: dict[int, Mapping[str, int]] = {}
    minute = int(look.now.timestamp()) // 60
    for rule in rules:
        if _MANY not in rule.triggers:
            continue
        if rule.within_min not in counted:
            counted[rule.within_min] = _failures(look.environment, minute - rule.within_min, minute)
        scope = Scope(operation=rule.operation or "*")
        told = {one for one in look.open if one.startswith(f"failures {rule.pk} ")}
        for operation, count in sorted(counted[rule.within_min].items()):
            subject = f"failures {rule.pk} {operation}"
            fits = scope.holds(Place(service="", instance="", operation=operation))
            if fits and count >= rule.failures and subject not in told:
                yield _many_of(rule, operation, minute, count, look.now, is_end=False)
            elif count >= rule.failures:
                told.discard(subject)
        for subject in sorted(told):
            operation = subject.split(" ", 2)[2]
            count = counted[rule.within_min].get(operation, 0)
            if count < rule.failures:
                yield _many_of(rule, operation, minute, count, look.now, is_end=True)


def _failures(environment: str, start: int, end: int) -> Counter[str]:
    """Failures by operation in the minutes (start, end]. One query; index `minute_sum_once`."""
    found = MinuteSum.objects.filter(environment=environment, minute__gt=start, minute__lte=end, failures__gt=0)
    return Counter(dict(found.values_list("operation").annotate(total=Sum("failures"))))


def _many_of(
    rule: NotificationRule, operation: str, minute: int, count: int, now: datetime, *, is_end: bool
) -> Occurrence:
    span = count_text(rule.within_min, "minute")
    fewer = f"{operation} fails less often again"
    return Occurrence(
        kind="failures_fewer" if is_end else _MANY,
        event=f"{operation}:{minute}",
        subject=f"failures {rule.pk} {operation}",
        phase=Phase.ENDED if is_end else Phase.BEGAN,
        severity=Severity.WARNING,
        at=now,
        title=fewer if is_end else f"{operation} failed {count:,} times in {span}",
        text=f"{count:,} in the last {span}; the rule tells from {rule.failures:,}.",
        path=reverse("failures"),
        triggers=frozenset() if is_end else frozenset({_MANY}),
        operation=operation,
        rule=rule.pk,
    )

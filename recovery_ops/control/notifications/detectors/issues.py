"""Failures: kinds that were never seen, kinds that are back, and operations that fail more often than a rule allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import NamedTuple

from django.db.models import Sum
from django.urls import reverse

from events.failures.asking import counts_lately, named_marks, newest_marked
from events.failures.grouping import Grouping
from events.failures.naming import Called, called_lately, cause_title
from events.ingest.cardinality import Kind
from events.models import KnownName, MinuteSum
from events.moments import from_us
from events.wording import count_text
from recovery_ops.control.issues.models import FailureCase
from recovery_ops.control.issues.selectors import grouping_of
from recovery_ops.control.notifications.models.notifications import NotificationRule, NotifyLook, SeenFailure
from recovery_ops.control.notifications.rule_matching import is_of_providers, matches
from recovery_ops.control.notifications.triggers import Look, Occurrence
from recovery_ops.rules.notifications.grouping import Phase, Severity

REGRESSED_AFTER = timedelta(days=1)
_EVERY = timedelta(seconds=10)
_OVERLAP = timedelta(minutes=2)
_LONGEST = timedelta(days=1)
_KEPT_TO = timedelta(minutes=5)
_SOON = timedelta(seconds=1)
_MANY = "failures_many"
_KEY_CHARS = 200


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
    marks = named_marks(look.environment, start=since, end=look.now + _SOON)
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

    Whose it is stands in its newest failure.
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
        operation, category = (mark.operation, mark.category) if mark else ("", "")
        found = _kind("regressed", case.fingerprint, operation, category, case.decided_at, case.decided_at)
        text = f"Resolved before. {case.reason} Fingerprint {case.fingerprint}."
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
    what = f"{operation or 'a run'}: {category}" if category else f"issue {fingerprint}"
    title = f"Issue regressed: {what}" if before else f"New issue: {what}"
    text = f"Last seen {before:%Y-%m-%d %H:%M} UTC. " if before else ""
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
        causes=frozenset({fingerprint}),
    )


def _many(look: Look) -> Iterator[Occurrence]:
    rules = NotificationRule.objects.filter(environment=look.environment, removed_at=None, is_on=True)
    counting = _Counting(look)
    for rule in rules:
        if _MANY not in rule.triggers:
            continue
        counts = counting.of(rule)
        told = {one for one in look.open if one.startswith(f"failures {rule.pk} ")}
        names = {_key(name): name for name in (*counting.causes_of(rule), *counts)}
        for name, counted in sorted(counts.items()):
            subject = f"failures {rule.pk} {_key(name)}"
            if counted.number < rule.failures:
                continue
            if subject not in told:
                yield _many_of(rule, name, look, counted, counting.called(rule), is_end=False)
            told.discard(subject)
        for subject in sorted(told):
            key = subject.split(" ", 2)[2]
            name = names.get(key, key)
            yield _many_of(rule, name, look, counts.get(name, _Counted()), counting.called(rule), is_end=True)


def _key(name: str) -> str:
    """A name as it stands in a subject, which is cut when it is kept: a long one by its digest."""
    return name if len(name) <= _KEY_CHARS else f"{name[:40]}… {sha256(name.encode()).hexdigest()[:20]}"


class _Counted(NamedTuple):
    """Failures, and the providers that they named."""

    number: int = 0
    providers: frozenset[str] = frozenset()


class _Counting:
    """Failures by what each rule counts them by: by operation, or by cause where it names some. Each is read once."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._sums: dict[int, Counter[tuple[str, str]]] = {}
        self._causes: dict[int, Counter[tuple[str, str]]] = {}
        self._grouping: Grouping | None = None

    def of(self, rule: NotificationRule) -> Mapping[str, _Counted]:
        """What the rule counts, in its minutes."""
        named = self.causes_of(rule) if rule.causes else None
        counts = self._by_cause(rule.within_min) if rule.causes else self._by_operation(rule.within_min)
        found: dict[str, _Counted] = {}
        for (name, provider), count in counts.items():
            fits = matches(rule.operation, name) if named is None else name in named
            if fits and (not rule.providers or is_of_providers(rule.providers, [provider])):
                before = found.get(name, _Counted())
                found[name] = _Counted(before.number + count, before.providers | ({provider} - {""}))
        return found

    def called(self, rule: NotificationRule) -> Mapping[str, Called]:
        """What the causes that it names are called. One query."""
        return called_lately(self._look.environment, self.causes_of(rule), now=self._look.now)

    def _by_operation(self, minutes: int) -> Counter[tuple[str, str]]:
        if minutes not in self._sums:
            minute = int(self._look.now.timestamp()) // 60
            self._sums[minutes] = _failures(self._look.environment, minute - minutes, minute)
        return self._sums[minutes]

    def _by_cause(self, minutes: int) -> Counter[tuple[str, str]]:
        if minutes not in self._causes:
            start = self._look.now - timedelta(minutes=minutes)
            span = {"start": start, "end": self._look.now + _SOON}
            self._causes[minutes] = counts_lately(self._look.environment, grouping=self._merged(), **span)
        return self._causes[minutes]

    def causes_of(self, rule: NotificationRule) -> frozenset[str]:
        """The causes that it names, of merged ones the whole."""
        return frozenset(self._merged().head(name) for name in rule.causes)

    def _merged(self) -> Grouping:
        if self._grouping is None:
            self._grouping = grouping_of(self._look.environment)
        return self._grouping


def _failures(environment: str, start: int, end: int) -> Counter[tuple[str, str]]:
    """Failures by operation and provider in the minutes (start, end]. One query; index `minute_sum_once`."""
    found = MinuteSum.objects.filter(environment=environment, minute__gt=start, minute__lte=end, failures__gt=0)
    rows = found.values_list("operation", "provider").annotate(total=Sum("failures"))
    return Counter({(operation, provider): total for operation, provider, total in rows})


def _many_of(
    rule: NotificationRule, name: str, look: Look, counted: _Counted, called: Mapping[str, Called], *, is_end: bool
) -> Occurrence:
    span = count_text(rule.within_min, "minute")
    what = cause_title(name, called.get(name)) if rule.causes else name
    named = f" Fingerprint {name}." if name in called else ""
    fewer = f"{what}: below the failure threshold"
    return Occurrence(
        kind="failures_fewer" if is_end else _MANY,
        event=f"{_key(name)}:{int(look.now.timestamp()) // 60}",
        subject=f"failures {rule.pk} {_key(name)}",
        phase=Phase.ENDED if is_end else Phase.BEGAN,
        severity=Severity.WARNING,
        at=look.now,
        title=fewer if is_end else f"{what}: {counted.number:,} failures in {span}",
        text=f"{counted.number:,} in the last {span}; threshold {rule.failures:,}.{named}",
        path=reverse("failure", args=[name]) if rule.causes else reverse("failures"),
        triggers=frozenset() if is_end else frozenset({_MANY}),
        operation="" if rule.causes else name,
        causes=frozenset({name}) if rule.causes else frozenset(),
        rule=rule.pk,
        providers=counted.providers,
    )

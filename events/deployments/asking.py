"""What was deployed and what was taken back in a window, of what instances told about their versions. One query."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery

from events.deployments.models import ServiceVersion
from events.models import BreakerState
from events.moments import from_us, to_us

MOST = 200
"""The newest so many are read."""
GONE_AFTER = timedelta(minutes=3)
"""A version whose instances have sent no heartbeat for so long, while those of an older one have, was taken back."""
_GONE_US = GONE_AFTER // timedelta(microseconds=1)
_MINUTE_US = 60_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A version that a service began to tell after `before`, or `is_return`: an older one that went on when `before`
    was told no more.
    """

    at: datetime
    service: str
    version: str
    before: str
    is_return: bool = False

    @property
    def word(self) -> str:
        """What runs since then."""
        return f"{self.service} {'back to ' if self.is_return else ''}{self.version}"


def deployments(environment: str, *, start: datetime, end: datetime, breaker: str = "") -> list[Deployment]:
    """Those of a window, newest first; with a `breaker` only those of services that have it.

    The first version that was ever told of a service is none.
    """
    start_us, end_us = to_us(start), to_us(end)
    is_new = Q(first_us__gte=start_us, first_us__lt=end_us)
    is_gone = Q(beat_us__gte=max(1, start_us - _MINUTE_US), beat_us__lt=end_us - _MINUTE_US)
    found = _beside_others(environment).filter(is_new | is_gone)
    if breaker:
        has_it = BreakerState.objects.filter(environment=environment, breaker=breaker)
        found = found.filter(Exists(has_it.filter(agent__service=OuterRef("service"))))
    told = [one for row in found.order_by("-last_us", "-id")[:MOST] for one in _deployments_of(row, start_us, end_us)]
    return sorted(told, key=lambda one: (one.at, one.word), reverse=True)


def _beside_others(environment: str) -> QuerySet[ServiceVersion]:
    """Each version with the one before it, and with the older one that outlived it unless a newer one followed it."""
    same = ServiceVersion.objects.filter(environment=environment, service=OuterRef("service"))
    older = same.filter(first_us__lt=OuterRef("first_us")).order_by("-first_us", "-id")
    outlived = older.filter(beat_us__gte=OuterRef("beat_us") + _GONE_US)
    newer = same.filter(first_us__gt=OuterRef("first_us"), first_us__lte=OuterRef("beat_us") + _GONE_US)
    return ServiceVersion.objects.filter(environment=environment).annotate(
        before=Subquery(older.values("version")[:1]),
        back_to=Subquery(outlived.values("version")[:1]),
        is_followed=Exists(newer),
    )


def _deployments_of(row: ServiceVersion, start_us: int, end_us: int) -> Iterable[Deployment]:
    """What one version tells: that it came, that it was taken back, or nothing."""
    before, back_to, is_followed = (getattr(row, name) for name in ("before", "back_to", "is_followed"))
    if before is not None and start_us <= row.first_us < end_us:
        yield Deployment(at=from_us(row.first_us), service=row.service, version=row.version, before=before)
    gone_us = row.beat_us + _MINUTE_US
    if back_to is not None and not is_followed and start_us <= gone_us < end_us:
        yield Deployment(at=from_us(gone_us), service=row.service, version=back_to, before=row.version, is_return=True)

"""Who there is to keep to: the providers and models that were called lately, and the services that have instances."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from events.models import Agent, SpanSum
from events.moments import US_PER_S, to_us
from events.projections.sum_views import View

_LATELY = timedelta(days=7)
_SPAN_MINUTES = 120
_MINUTE_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Names by their kind, sorted."""

    providers: tuple[str, ...]
    models: tuple[str, ...]
    services: tuple[str, ...]


def known_backends(environment: str, *, now: datetime) -> Known:
    """Of the last seven days. Two queries; index `span_sum_once` over 85 spans of two hours, and of agents."""
    first, last = (to_us(at) // US_PER_S // _MINUTE_S // _SPAN_MINUTES for at in (now - _LATELY, now))
    sums = SpanSum.objects.filter(
        environment=environment, view=View.BACKEND, minutes=_SPAN_MINUTES, span__gte=first, span__lte=last
    )
    named = list(sums.order_by().values_list("provider", "model").distinct())
    services = Agent.objects.filter(environment=environment).order_by().values_list("service", flat=True).distinct()
    return Known(
        providers=tuple(sorted({provider for provider, _ in named} - {""})),
        models=tuple(sorted({model for _, model in named} - {""})),
        services=tuple(sorted({*services} - {""})),
    )

"""Messages on their way to a channel."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from recovery_ops.control.notifications.dispatcher import send_due
from recovery_ops.control.notifications.models.notifications import Channel, Delivery
from tests.support.stories import NOW


def message(to: Channel, **more: Any) -> Delivery:
    given: dict[str, Any] = {
        "environment": "dev",
        "origin": "rule:1",
        "lane": "rule:1:breaker search_web",
        "phase": "began",
        "severity": "warning",
        "title": "Breaker <search_web> & co are open",
        "lines": ["On r-0: 65 % of 20 calls failed."],
        "path": "/breakers/search_web",
        "made_at": NOW,
        "not_before": NOW,
    }
    return Delivery.objects.create(channel=to, **given | more)


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def on(self, **span: float) -> None:
        self.now += timedelta(**span)


def sent(clock: Callable[[], datetime]) -> int:
    return send_due(now=clock, chance=lambda: 0.0)


def state_of(one: Delivery) -> tuple[str, int]:
    one.refresh_from_db()
    return one.state, one.tries

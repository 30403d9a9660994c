"""The gate of Retry-After: what it reports each time that it closes, is prolonged, and opens again."""

from __future__ import annotations

from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import GateClosed, GateOpened
from recovery_ops.rules.resilience.retry_after_gate import NEWS_S, RetryAfterGate

LIMITED = Category.RATE_LIMITED


def closed(wait_s: float) -> tuple[GateClosed, ...]:
    return (GateClosed(operation="search", wait_s=wait_s, category=LIMITED),)


def test_each_closing_reports_its_own_duration() -> None:
    gate = RetryAfterGate("search")
    for began in (10.0, 500.0):
        assert gate.close(began, 5.0, LIMITED) == closed(5.0)
        assert gate.close(began + 2, 8.0, LIMITED) == closed(8.0)
        assert gate.close(began + 3, 1.0, LIMITED) == ()
        assert gate.sweep(began + 9.9) == ()
        assert gate.sweep(began + 10) == (GateOpened(operation="search", closed_s=10.0, category=LIMITED),)
        assert gate.sweep(began + 11) == ()


def test_prolonging_is_news_from_its_bound_on() -> None:
    for longer_s, news in ((NEWS_S - 0.5, ()), (NEWS_S, closed(5.0 + NEWS_S))):
        gate = RetryAfterGate("search")
        gate.close(10.0, 5.0, LIMITED)
        assert gate.close(10.0, 5.0 + longer_s, LIMITED) == news
        assert gate.opens_in_s(10.0) == 5.0 + longer_s


def test_opened_before_its_time_is_reported() -> None:
    gate = RetryAfterGate("search")
    assert gate.open(1.0) == ()
    gate.close(10.0, 60.0, LIMITED)
    assert gate.open(12.5) == (GateOpened(operation="search", closed_s=2.5, category=LIMITED),)
    assert gate.is_open


def test_late_look_at_gate_waits_for_nothing() -> None:
    gate = RetryAfterGate("search")
    gate.close(10.0, 5.0, LIMITED)
    assert [gate.opens_in_s(now) for now in (12.0, 15.0, 17.0)] == [3.0, 0.0, 0.0]

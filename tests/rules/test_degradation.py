"""A degradation of one operation: begun once, counted, and ended by another kind of reduction or a whole answer."""

from __future__ import annotations

from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import DegradationEnded, DegradationStarted
from recovery_ops.rules.resilience.degradation import Degradation


def test_same_reduction_is_one_interval() -> None:
    one = Degradation("search")
    begun = one.begin(10.0, kind="fallback", reason="timeout", to_name="cache", category=Category.TIMEOUT)
    assert begun == (
        DegradationStarted(
            operation="search",
            kind="fallback",
            reason="timeout",
            from_name="search",
            to_name="cache",
            category=Category.TIMEOUT,
        ),
    )
    for now in (11.0, 12.0):
        assert one.begin(now, kind="fallback", reason="gate", to_name="cache") == ()
    assert one.end(14.5) == (
        DegradationEnded(
            operation="search", kind="fallback", duration_s=4.5, from_name="search", to_name="cache", calls=3
        ),
    )
    assert (one.end(15.0), one.is_open) == ((), False)


def test_other_fallback_or_kind_ends_the_one_before() -> None:
    one = Degradation("search")
    one.begin(0.0, kind="fallback", reason="timeout", to_name="cache")
    for now, kind, to_name, before in ((2.0, "fallback", "archive", "cache"), (5.0, "feature", "archive", "archive")):
        ended, begun = one.begin(now, kind=kind, reason="timeout", to_name=to_name)
        assert isinstance(ended, DegradationEnded)
        assert isinstance(begun, DegradationStarted)
        assert (ended.kind, ended.to_name, ended.calls) == ("fallback", before, 1)
        assert (begun.kind, begun.to_name) == (kind, to_name)
        assert one.is_of(kind, to_name)

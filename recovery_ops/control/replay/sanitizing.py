"""What a fact may say in a replay: it comes from outside, and is not to end one."""

from __future__ import annotations

from events.queries.recordings import Told
from recovery_ops.rules.events import BreakerStateChanged, SpendCapReached
from recovery_ops.wire import names

_A = names.ATTRIBUTES
_NUMBERS = frozenset(
    (
        *(
            _A[name]
            for name in ("attempt", "attempts", "max_retries", "delay_s", "duration_s", "interval_s", "window_s")
        ),
        *(_A[name] for name in ("status_code", "retry_after_s", "input_tokens", "output_tokens", "limit_tokens")),
        *(_A[name] for name in ("calls", "successes", "successes_since_failure", "count", "consecutive", "total")),
        *(_A[name] for name in ("turns", "cost_usd", "repeated_calls")),
        *(names.attribute_of(BreakerStateChanged, name) for name in ("wait_s", "calls", "failures")),
        names.attribute_of(SpendCapReached, "spent"),
    )
)
_LARGEST = 1e9


def cleaned(fact: Told) -> Told:
    """The fact without lists and objects, and of numbers with those that are numbers of a possible size."""
    said = fact.attributes
    odd = [name for name, value in said.items() if _is_odd(name, value)]
    if not odd:
        return fact
    return fact._replace(attributes={name: value for name, value in said.items() if name not in odd})


def _is_odd(name: str, value: object) -> bool:
    if name in _NUMBERS:
        return type(value) not in (int, float) or not 0 <= value <= _LARGEST  # type: ignore[operator]  # NaN is not, too
    return not isinstance(value, str | int | float | bool)

"""Refuses what could never work where it is written, so that a failure in production is not the first to tell."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from recovery_ops.rules.knobs import KNOBS, expected, fault_of
from recovery_ops.rules.policy import Knobs
from recovery_ops.runtime.errors import NotConfigured

_KNOB_OF = {name: name for name in ("max_retries", "base_delay_s", "fallback_allowed")} | {
    "deadline_s": "call_deadline_s"
}
"""The words of a guard that are knobs."""


def check_numbers(whose: str, said: Mapping[str, object]) -> None:
    """Refuse the numbers of a guard, and `knobs`, that no policy could hold either; names each, and what belongs there.

    `whose` begins the text: `guard search`. Not said, or None, is always right.
    """
    values = [(word, _KNOB_OF[word], said.get(word)) for word in _KNOB_OF]
    knobs = said.get("knobs")
    if isinstance(knobs, Knobs):
        values += [(f"knobs.{name}", name, getattr(knobs, name)) for name in KNOBS]
    elif knobs is not None:
        raise NotConfigured(f"{whose}: knobs must be a Knobs, not a {type(knobs).__name__}")
    faults = [
        f"{path} must be {expected(KNOBS[name])}, not {value!r}"
        for path, name, value in values
        if value is not None and _is_wrong(name, value)
    ]
    if faults:
        raise NotConfigured(f"{whose}: {'; '.join(faults)}")


def _is_wrong(name: str, value: object) -> bool:
    # JSON may write a whole number as 3.0; in code that breaks whatever counts with it.
    is_uncountable = KNOBS[name].kind == "whole" and not isinstance(value, int)
    return is_uncountable or fault_of(KNOBS[name], value) != ""


def check_result(whose: str, function: object) -> None:
    """Refuse a generator function: calling it runs nothing, so it would succeed whatever happens later."""
    called = getattr(function, "__call__", None)  # noqa: B004  # asks what calling it does
    for one in (function, called):
        if inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one):
            raise NotConfigured(
                f"{whose}: a generator function runs only when its result is read, where nothing can be retried;"
                " drain it inside and return a list"
            )

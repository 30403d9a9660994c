"""Refuses what could never work where it is written, so that a failure in production is not the first to tell."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from difflib import SequenceMatcher, get_close_matches
from math import inf
from typing import Literal, get_args

from recovery_ops.rules.policy.model import Settings
from recovery_ops.rules.policy.settings import SETTINGS, expected, fault_of
from recovery_ops.runtime.errors import ConfigurationError

_SETTING_OF = {
    "max_retries": "max_retries",
    "base_delay": "base_delay_s",
    "attempt_timeout": "call_deadline_s",
    "response_timeout": "response_timeout_s",
    "first_token_timeout": "first_token_timeout_s",
    "stall_timeout": "stall_timeout_s",
    "fallback_allowed": "fallback_allowed",
}
"""The options of a guard that are settings of a policy."""

LONGEST_TIMEOUT_S = 604_800.0
_NEAR = 0.88
"""Similarity from which an unknown source is taken for a misspelt one."""


def check_numbers(whose: str, said: Mapping[str, object]) -> None:
    """Refuse the numbers of a guard, and `settings`, that no policy could hold either; names each, and what is right.

    `whose` begins the text: `guard search`. Not said, or None, is always right. Durations may be a timedelta.
    """
    values = [(word, _SETTING_OF[word], _plain(said.get(word))) for word in _SETTING_OF]
    settings = said.get("settings")
    if isinstance(settings, Settings):
        values += [(f"settings.{name}", name, getattr(settings, name)) for name in SETTINGS]
    elif settings is not None:
        raise ConfigurationError(f"{whose}: settings must be a Settings, not a {type(settings).__name__}")
    check_timeout(whose, said.get("timeout"))
    faults = [
        f"{path} must be {expected(SETTINGS[name])}, not {value!r}"
        for path, name, value in values
        if value is not None and _is_wrong(name, value)
    ]
    if faults:
        raise ConfigurationError(f"{whose}: {'; '.join(faults)}")


Jitter = Literal["additive", "full"]
"""Whether chance adds to a wait between attempts, or draws it from 0 to the delay."""
Permission = Literal["stop", "tell_model"]
"""What a 401 or 403 of the upstream leads to where there is no other way."""


def check_permission(whose: str, said: object) -> None:
    """Refuse a word that is none of `Permission`."""
    check_word(whose, "permission", said, get_args(Permission))


def check_timeout(whose: str, value: object) -> None:
    """Refuse a timeout of a whole call that is no positive number of seconds."""
    wanted = _plain(value)
    is_number = isinstance(wanted, int | float) and not isinstance(wanted, bool)
    if wanted is not None and not (is_number and 0 < wanted <= LONGEST_TIMEOUT_S):  # type: ignore[operator]  # is_number has just said so
        raise ConfigurationError(
            f"{whose}: timeout must be a number above 0 up to {LONGEST_TIMEOUT_S:g} s, not {value!r}"
        )


def _plain(value: object) -> object:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _is_wrong(name: str, value: object) -> bool:
    # JSON may write a whole number as 3.0; in code that breaks whatever counts with it.
    is_uncountable = SETTINGS[name].kind == "whole" and not isinstance(value, int)
    return is_uncountable or fault_of(SETTINGS[name], value) != ""


def check_result(whose: str, function: object, *, may_stream: bool = False) -> None:
    """Refuse a generator function: calling it runs nothing, so it would succeed whatever happens later.

    `may_stream`: the streams of this guard are watched, so a generator is right.
    """
    called = getattr(function, "__call__", None)  # noqa: B004  # asks what calling it does
    for one in (function, called):
        if inspect.isasyncgenfunction(one) and may_stream:
            raise ConfigurationError(f"{whose}: an async generator is awaited by nobody; return it from an async def")
        if inspect.isasyncgenfunction(one) or (inspect.isgeneratorfunction(one) and not may_stream):
            raise ConfigurationError(
                f"{whose}: a generator function runs only when its result is read, where nothing can be retried;"
                " drain it inside and return a list"
            )


def check_type(whose: str, wanted: type | tuple[type, ...], values: Mapping[str, object]) -> None:
    """Refuse values of another type, whatever their truth: "no" would be taken for yes. None is not said."""
    for name, value in values.items():
        if value is not None and not isinstance(value, wanted):
            right = " or ".join(one.__name__ for one in (wanted if isinstance(wanted, tuple) else (wanted,)))
            raise ConfigurationError(f"{whose}: {name} must be of type {right}, not {value!r}")


def check_amount(whose: str, name: str, value: object) -> None:
    """Refuse what is no number from 0 up. None is not said."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (is_number and 0 <= value < inf):  # type: ignore[operator]  # is_number has just said so
        raise ConfigurationError(f"{whose}: {name} must be a number from 0 up, not {value!r}")


def check_count(whose: str, name: str, value: object) -> None:
    """Refuse what is no whole number from 1 up. None is not said."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (is_whole and value >= 1):  # type: ignore[operator]  # is_whole has just said so
        raise ConfigurationError(f"{whose}: {name} must be a whole number from 1 up, not {value!r}")


def check_callable(whose: str, values: Mapping[str, object]) -> None:
    """Refuse hooks that cannot be called. None is not said."""
    for name, value in values.items():
        if value is not None and not callable(value):
            raise ConfigurationError(f"{whose}: {name} must be a function, not {value!r}")


def check_names(whose: str, given: Iterable[str], known: Mapping[str, object]) -> None:
    """Refuse a keyword that does not exist, as Python does for a function without `**`; names the nearest one."""
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise TypeError(f"{whose}: unexpected keyword argument {name!r}" + (f'; use "{near[0]}"' if near else ""))


def check_word(whose: str, option: str, value: object, allowed: Sequence[str]) -> None:
    """Refuse a word that is not allowed; the error names the nearest one that is."""
    if value in allowed:
        return
    near = get_close_matches(str(value), allowed, n=1, cutoff=0.5)
    right = f'use "{near[0]}"' if near else f"use one of {', '.join(allowed)}"
    raise ConfigurationError(f"{whose}: {option} {value!r} does not exist; {right}")


def check_source(whose: str, value: str, foreground: Sequence[str]) -> None:
    """Refuse a misspelt foreground source: as a background source its calls would fail at the first 429."""
    if not value or value in foreground:
        return
    near = next((one for one in foreground if _is_near(value, one)), None)
    if near is not None:
        raise ConfigurationError(f'{whose}: source {value!r} is not a foreground source; use "{near}" or another name')


def _is_near(value: str, known: str) -> bool:
    """Whether one is the other with a slip of the pen; another number or a further word is a name of its own."""
    written, right = ("".join(one.lower().replace("-", "_").split()) for one in (value, known))
    if written.replace("_", "") == right.replace("_", ""):
        return True
    has_other_number = [c for c in written if c.isdigit()] != [c for c in right if c.isdigit()]
    if has_other_number or written.count("_") != right.count("_"):
        return False
    return SequenceMatcher(None, written, right).ratio() >= _NEAR

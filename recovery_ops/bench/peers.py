"""The libraries that we are measured beside, each around the same function, and what each of them does for a call.

They are imported only here, in an environment of their own (`recovery_ops/locks/bench.txt`): nothing of ours needs it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Peer:
    """One way to guard a function: its name, what it does, and how it is put around a function and an async one."""

    name: str
    does: str
    package: str
    wrap: Callable[[Any], Wrap] | None = None
    """Makes the wrapper, from the imported package; None: it has none for threads."""
    wrap_async: Callable[[Any], Wrap] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The peers that can be had, as functions to call, and what each does; and why the others cannot."""

    calls: dict[str, Callable[..., Any]]
    does: dict[str, str]
    skipped: dict[str, str]


def _purgatory(package: Any) -> Wrap:
    wrap: Wrap = package.SyncCircuitBreakerFactory()("bench")
    return wrap


def _purgatory_async(package: Any) -> Wrap:
    wrap: Wrap = package.AsyncCircuitBreakerFactory()("bench")
    return wrap


def _tenacity(package: Any) -> Wrap:
    wrap: Wrap = package.retry(stop=package.stop_after_attempt(3), reraise=True)
    return wrap


def _tenacity_over_pybreaker(package: Any) -> Wrap:
    retry, breaker = _tenacity(package), import_module("pybreaker").CircuitBreaker()
    return lambda function: retry(breaker(function))


def _stamina(package: Any) -> Wrap:
    wrap: Wrap = package.retry(on=Exception, attempts=3)
    return wrap


def _hyx_breaker(package: Any) -> Wrap:
    wrap: Wrap = import_module("hyx.circuitbreaker").consecutive_breaker()
    return wrap


def _hyx_retry(package: Any) -> Wrap:
    wrap: Wrap = import_module("hyx.retry").retry()
    return wrap


def _hyx_both(package: Any) -> Wrap:
    retry, breaker = _hyx_retry(package), _hyx_breaker(package)
    return lambda function: retry(breaker(function))


def _circuitbreaker(package: Any) -> Wrap:
    wrap: Wrap = package.circuit()
    return wrap


def _pybreaker(package: Any) -> Wrap:
    wrap: Wrap = package.CircuitBreaker()
    return wrap


PEERS = (
    Peer("circuitbreaker", "breaker only", "circuitbreaker", _circuitbreaker, _circuitbreaker),
    Peer("purgatory", "breaker only", "purgatory", _purgatory, _purgatory_async),
    Peer("pybreaker", "breaker only; async needs tornado", "pybreaker", _pybreaker),
    Peer("hyx breaker", "breaker only, async only", "hyx", None, _hyx_breaker),
    Peer("hyx retry", "retry only, async only", "hyx", None, _hyx_retry),
    Peer("stamina", "retry only", "stamina", _stamina, _stamina),
    Peer("tenacity", "retry only", "tenacity", _tenacity, _tenacity),
    Peer("hyx retry over hyx breaker", "retry and breaker", "hyx", None, _hyx_both),
    Peer("tenacity over pybreaker", "retry and breaker", "tenacity", _tenacity_over_pybreaker),
)
"""None of them counts calls, has fallbacks of its own besides, or hears of an operator."""


def found(function: Callable[..., Any], *, is_async: bool) -> Found:
    """Every peer that is installed here, around the function."""
    calls: dict[str, Callable[..., Any]] = {}
    does: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for peer in PEERS:
        make = peer.wrap_async if is_async else peer.wrap
        if make is None:
            continue
        try:
            calls[peer.name] = make(import_module(peer.package))(function)
            does[peer.name] = peer.does
        except Exception as error:  # somebody else's package, in whatever version is installed here
            skipped[peer.name] = f"{type(error).__name__}: {error}"
    return Found(calls, does, skipped)


def floor(function: Callable[..., Any]) -> Callable[..., Any]:
    """The least that a breaker can do, written by hand: a look at the state, a ring of outcomes, a lock."""
    lock, ring, state = threading.Lock(), bytearray(100), ["closed"]
    place = 0

    def guarded(*args: Any, **kwargs: Any) -> Any:
        nonlocal place
        if state[0] != "closed":
            raise RuntimeError
        try:
            result = function(*args, **kwargs)
        except Exception:
            with lock:
                ring[place] = 1
                place = (place + 1) % 100
            raise
        with lock:
            ring[place] = 0
            place = (place + 1) % 100
        return result

    return guarded


def floor_async(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for tasks: one thread, so no lock."""
    ring, state = bytearray(100), ["closed"]
    place = 0

    async def guarded(*args: Any, **kwargs: Any) -> Any:
        nonlocal place
        if state[0] != "closed":
            raise RuntimeError
        try:
            result = await function(*args, **kwargs)
        except Exception:
            ring[place] = 1
            place = (place + 1) % 100
            raise
        ring[place] = 0
        place = (place + 1) % 100
        return result

    return guarded

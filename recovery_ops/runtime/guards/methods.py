"""Guarded functions of classes, and what a guard makes where the runtime is switched off."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from recovery_ops.runtime.aio.awaitables import is_async
from recovery_ops.runtime.aio.context_variables import take_back
from recovery_ops.runtime.calls.operation import ATTEMPT, UNTROUBLED, Attempt, Operation, Outcome

AnyFunction = Callable[..., Any]


def is_in_class(function: AnyFunction) -> bool:
    """Whether this is a function of a class body: only then somebody may ask it for the `outcome` of a method.

    Other guarded functions stay plain functions: nothing is called faster.
    """
    owner = getattr(function, "__qualname__", "").rpartition(".")[0]
    return inspect.isfunction(function) and owner != "" and not owner.endswith("<locals>")


class GuardedMethod(functools.partial[Any]):
    """A guarded function of a class: binds `self`, also for `outcome`. A partial, for it is called without Python."""

    operation: Operation
    outcome: AnyFunction

    def __init__(self, made: AnyFunction) -> None:
        super().__init__()
        functools.update_wrapper(self, made)

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        return self if instance is None else BoundGuarded(self.func, instance)


class BoundGuarded(functools.partial[Any]):
    """A guarded method of one object."""

    @property
    def outcome(self) -> AnyFunction:
        """Call it, and return how the result came about."""
        return functools.partial(self.func.outcome, *self.args)  # type: ignore[attr-defined]  # a guard made it

    @property
    def __self__(self) -> Any:
        return self.args[0]

    @property
    def __func__(self) -> AnyFunction:
        return self.func

    def __getattr__(self, name: str) -> Any:
        if name in ("__name__", "__qualname__", "operation"):  # with more of them it would look like the function
            return getattr(self.func, name)
        raise AttributeError(name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundGuarded) and self.func is other.func and self.__self__ is other.__self__

    def __hash__(self) -> int:
        return hash((self.func, id(self.__self__)))


def _keyed(function: Callable[..., Any], name: str, key: Callable[..., str] | None) -> Callable[..., Any]:
    """The function with its idempotency key in force, and nothing else."""

    def attempt_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Attempt:
        if key is not None:
            return Attempt(idempotency_key=key(*args, **kwargs)).keyed()
        nested = ATTEMPT.get().nested
        return UNTROUBLED if nested is None else Attempt(idempotency_key=nested.key_of(name, args, kwargs)).keyed()

    @functools.wraps(function)
    def keyed(*args: Any, **kwargs: Any) -> Any:
        token = ATTEMPT.set(attempt_of(args, kwargs))
        try:
            return function(*args, **kwargs)
        finally:
            ATTEMPT.reset(token)

    @functools.wraps(function)
    async def keyed_async(*args: Any, **kwargs: Any) -> Any:
        token = ATTEMPT.set(attempt_of(args, kwargs))
        try:
            return await function(*args, **kwargs)
        finally:
            take_back(token)

    return keyed_async if is_async(function) else keyed


def bare(function: Callable[..., Any], name: str, key: Callable[..., str] | None) -> Callable[..., Any]:
    """Switched off: the function itself, but for what the program counts on.

    Whoever asks it for an `outcome` must get one, and a provider that is to know repetitions must get the key.
    """
    made = _keyed(function, name, key)

    def outcome(*args: Any, **kwargs: Any) -> Outcome[Any] | Awaitable[Outcome[Any]]:
        value = made(*args, **kwargs)
        return _outcome_of(value) if inspect.isawaitable(value) else Outcome(value)

    async def outcome_async(*args: Any, **kwargs: Any) -> Outcome[Any]:
        return await _outcome_of(made(*args, **kwargs))

    made.outcome = outcome_async if is_async(function) else outcome  # type: ignore[attr-defined]
    return made


async def _outcome_of(value: Awaitable[Any]) -> Outcome[Any]:
    return Outcome(await value)

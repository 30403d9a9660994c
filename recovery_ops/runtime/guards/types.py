"""Types of guarded functions: what a type checker knows of their arguments, their results and their outcome."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, Never, ParamSpec, Protocol, Self, TypeVar, overload

from recovery_ops.runtime.calls.operation import Operation, Outcome

P = ParamSpec("P")
Q = ParamSpec("Q")
S = TypeVar("S")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
F_co = TypeVar("F_co", covariant=True)
E = TypeVar("E")


class Guarded(Protocol[P, R_co]):
    """A guarded function or method: called like the one it guards.

    `outcome` takes the same arguments and returns an `Outcome`. Type checkers see the arguments and result of the
    function. Rules: docs/guide/guarding.md#life-of-a-call

    >>> @recovery.guard
    ... def search(query: str) -> list[str]:
    ...     return [query]
    >>> search("breakers"), search.outcome("breakers").attempts
    (['breakers'], 1)
    """

    __name__: str
    operation: Operation

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call it."""

    # The first matches results of unknown type only: those must not be taken for coroutines.
    @overload
    def outcome(self: Guarded[P, Never], *args: P.args, **kwargs: P.kwargs) -> Any: ...
    @overload
    def outcome(  # type: ignore[overload-overlap]  # the second overload is the rest
        self: Guarded[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, Outcome[R]]: ...
    @overload
    def outcome(self, *args: P.args, **kwargs: P.kwargs) -> Outcome[R_co]: ...
    def outcome(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Call it, and return the result with its attempts and its fallback; to be awaited like the call itself."""

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(
        self: Guarded[Concatenate[S, Q], R_co], instance: S, owner: type[Any] | None = None
    ) -> Guarded[Q, R_co]: ...


class GuardWithOthers(Generic[F_co]):
    """A `GuardDecorator` whose calls may return something else: a fallback's result, or `Degraded`."""

    @overload
    def __call__(self, function: Callable[P, Never], /) -> Guarded[P, Any]: ...
    @overload
    def __call__(
        self: GuardWithOthers[Coroutine[Any, Any, E]], function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Guarded[P, Coroutine[Any, Any, R | E]]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Guarded[P, Coroutine[Any, Any, R | F_co]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Guarded[P, R | F_co]: ...
    def __call__(self, function: Any, /) -> Any:
        """Guard a callable."""

"""The parts of a gathering, and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, ParamSpec

from recovery_ops.rules.enums import Category
from recovery_ops.rules.lazy_dataclass import dataclass

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Part:
    """One call of `Recovery.gather`: foundational (required) or supplementary (may be missing).

    Rules: docs/guide/fallbacks.md

    >>> parts = {"sum": Part.foundational(sum, [1, 2]), "mood": Part.supplementary(float, "?")}
    >>> dict(recovery.gather(parts).data)
    {'sum': 3}
    """

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    is_foundational: bool = True

    @classmethod
    def foundational(cls, function: Callable[P, Any], *args: P.args, **kwargs: P.kwargs) -> Part:
        """A part without which there is no answer."""
        return cls(function, args, kwargs)

    @classmethod
    def supplementary(cls, function: Callable[P, Any], *args: P.args, **kwargs: P.kwargs) -> Part:
        """A part that may be missing."""
        return cls(function, args, kwargs, is_foundational=False)


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A part that could not be had. `why` is for users; `category` is None where the call was refused, not failed.

    `can_retry`: whether asking again could help; `retry_at` (UTC): from when, where that is known.
    """

    name: str
    why: str
    category: Category | None = None
    can_retry: bool = True
    is_foundational: bool = False
    retry_at: datetime | None = None
    error: BaseException | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Gathered:
    """What there is (`data`, by name, in the order of the parts) and what is missing."""

    data: Mapping[str, Any]
    unavailable: Mapping[str, Unavailable] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not self.unavailable

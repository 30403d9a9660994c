"""Context variables of tasks, whose change is taken back wherever the end comes."""

from __future__ import annotations

from contextlib import suppress
from contextvars import Token
from typing import Any


def take_back(token: Token[Any]) -> None:
    """Reset the variable; a coroutine that is closed in another context has left its own already."""
    with suppress(ValueError):
        token.var.reset(token)

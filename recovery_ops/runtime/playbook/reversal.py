"""The right to undo one destructive call, once: nothing is undone without the token that the call was given."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import field
from typing import Any, Protocol

from recovery_ops.rules.lazy_dataclass import dataclass


class Redemptions(Protocol):
    """Where redeemed tokens are remembered across processes; every checkpoint store can."""

    def redeem(self, token_id: str, *, now: float) -> bool:
        """True for the first call with this id, ever. `now`: seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class ReversalToken:
    """Made together with a destructive call, handed to it, and kept to undo it.

    `operation` is the call's, `action_id` what it did in the words of whoever did it (an order, a charge), `undo` the
    callable that takes it back, sync or async. Two tokens for the same action are the same right: it is used up once.

        token = ReversalToken("charge_card", order.id, lambda: payments.refund(order.id))
        charge(order, reversal=token)
    """

    operation: str
    action_id: str
    undo: Callable[[], Any] = field(compare=False, repr=False)

    @property
    def id(self) -> str:
        """The same for the same action, in every process."""
        return hashlib.sha256(f"{self.operation}\0{self.action_id}".encode("utf-8", "replace")).hexdigest()[:32]

    def redeem(self, store: Redemptions | None = None, *, now: float) -> bool:
        """Use it up; False if that was done before, in this process or, with a store, in any.

        It is used up before the undoing begins: after a crash in between a person has to look, and nothing is
        undone twice.
        """
        mine = object()
        if store is not None and not store.redeem(self.id, now=now):
            return False
        return _SPENT.setdefault(self.id, mine) is mine  # one step of the interpreter: no thread comes between


_SPENT: dict[str, object] = {}
"""What was redeemed in this process. A few bytes for each; a process that undoes millions should pass a store."""

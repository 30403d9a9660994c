"""Actions are declared once, by verb, with a permission that a role can hold."""

from __future__ import annotations

import pytest

from recovery_ops.control.core.actions import ACTIONS, declare, past_tense
from recovery_ops.control.core.permissions import LEAST_ROLE


def test_permission_of_action_is_known() -> None:
    assert {one.permission for one in ACTIONS.values()} - {""} <= LEAST_ROLE.keys()


def test_verb_declared_twice_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"breaker\.trip"):
        declare("breaker.trip", "tripped", permission="trip")


def test_unknown_verb_reads_as_words() -> None:
    assert past_tense("queue.set_aside") == "queue set aside"

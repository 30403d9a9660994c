"""Declarations of actions: each change of the console is declared once, in the `actions` module of its room.

Permission, words of the audit log and the reach of a change derive from the declaration. `AppConfig.ready` imports
every room's declarations, so that the log is readable in each process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One kind of change. `verb` is its name in the audit log and the API, `past` its words after a user's name.

    `permission` is a key of `roles.LEAST_ROLE`; empty for entries that no command writes. `is_for_agents`: the change
    is part of the desired state and gets a revision of its own. `needs_fresh_sign_in`: a user has to have signed in a
    short time ago. `needs_reason`: always; for others `reasons` decides. `is_expected`: when the console does it, no
    form that was opened before becomes stale.
    """

    verb: str
    past: str
    permission: str = ""
    is_for_agents: bool = False
    needs_fresh_sign_in: bool = False
    needs_reason: bool = False
    is_expected: bool = False


_declared: dict[str, Action] = {}
ACTIONS: Mapping[str, Action] = MappingProxyType(_declared)
"""Every declared action by its verb."""


def declare(
    verb: str,
    past: str,
    *,
    permission: str = "",
    is_for_agents: bool = False,
    needs_fresh_sign_in: bool = False,
    needs_reason: bool = False,
    is_expected: bool = False,
) -> Action:
    """Declare an action. Raises ValueError for a verb that is declared already."""
    if verb in _declared:
        raise ValueError(f"the action {verb} is declared twice")
    action = Action(
        verb=verb,
        past=past,
        permission=permission,
        is_for_agents=is_for_agents,
        needs_fresh_sign_in=needs_fresh_sign_in,
        needs_reason=needs_reason,
        is_expected=is_expected,
    )
    return _declared.setdefault(verb, action)


def past_tense(verb: str) -> str:
    """The words of a verb after a user's name; the verb itself for one that a newer version wrote."""
    action = ACTIONS.get(verb)
    return action.past if action else verb.replace(".", " ").replace("_", " ")

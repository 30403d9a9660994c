"""Who may do what, as one table: six roles for people, each with all that those before it may; scopes for keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from recovery_ops.control.core.models.bases import EVERYWHERE
from recovery_ops.rules.policy.scope import ANY


class Role(StrEnum):
    """From the one who may only look to the one who may let others in."""

    VIEWER = "viewer"
    RESPONDER = "responder"
    OPERATOR = "operator"
    EDITOR = "editor"
    APPROVER = "approver"
    ADMIN = "admin"


ROLES = tuple(Role)

LEAST_ROLE: dict[str, Role] = {
    "see": Role.VIEWER,
    "see_audit": Role.VIEWER,
    "respond": Role.RESPONDER,  # take, hand on, put off and resolve what is put to people, and causes of failures
    "decide": Role.RESPONDER,  # approve or reject what an agent proposes
    "show_content": Role.RESPONDER,  # what strangers sent, as it came; each look is written down
    "annotate": Role.RESPONDER,  # note something on the time axis, end and remove it; note something on an outage
    "arrange": Role.RESPONDER,  # merge and split capacity events and causes of failures
    "trip": Role.OPERATOR,
    "disable": Role.OPERATOR,
    "observe": Role.OPERATOR,
    "release": Role.OPERATOR,
    "extend": Role.OPERATOR,
    "reset": Role.OPERATOR,
    "probe": Role.OPERATOR,
    "abort": Role.OPERATOR,  # have a run called off, and take that back
    "retry": Role.OPERATOR,  # have a run begun again, and take that back
    "pause": Role.OPERATOR,  # have instances begin no new runs for a time, and take that back
    "retire": Role.OPERATOR,  # say that an instance is gone: nothing waits for it any more
    "shed": Role.OPERATOR,  # let less important work fail fast for a time, prolong it and take it back
    "snooze_notices": Role.OPERATOR,  # hold back what rules tell of a provider, for a time, and lift that
    "mend_intake": Role.OPERATOR,  # replay or drop what could not be taken in
    "edit_policy": Role.OPERATOR,  # one operation's settings, live where the environment asks for no review
    "propose_policy": Role.OPERATOR,  # draft, edit, comment on and send to review
    "release_policy": Role.OPERATOR,  # what was approved; anything where the environment asks for no review
    "roll_back_policy": Role.OPERATOR,  # to what was live before: an emergency waits for nobody
    "break_glass": Role.EDITOR,  # release without approval where it is asked for; lands in the list for review
    "agree": Role.OPERATOR,  # to what somebody else asked for where two have to; it takes the act's own permission too
    "write_runbooks": Role.EDITOR,  # what people are to do about a class of failures
    "approve_policy": Role.APPROVER,  # somebody else's
    "manage_notifications": Role.EDITOR,  # channels, what they are told, and chains of who is asked
    "set_rules": Role.ADMIN,  # whether an environment asks for review
    "override_for_long": Role.ADMIN,  # longer than 24 h
    "manage_keys": Role.ADMIN,
    "manage_accounts": Role.ADMIN,
    "remove_demonstration": Role.ADMIN,  # all data of its environment
}
"""Every permission there is, and the first role that has it."""

KEY_PERMISSIONS: dict[str, frozenset[str]] = {
    "read": frozenset({"see", "see_audit"}),
    "act": frozenset(
        {
            "trip",
            "disable",
            "observe",
            "release",
            "extend",
            "reset",
            "probe",
            "abort",
            "retry",
            "pause",
            "shed",
            "retire",
            "snooze_notices",
            "mend_intake",
            "show_content",
            "edit_policy",
            "propose_policy",
            "release_policy",
            "roll_back_policy",
            "respond",
            "decide",
            "arrange",
            "annotate",
            "write_runbooks",
        }
    ),
    # Apart from `act`: a channel makes the server send what happens here to wherever the key says.
    "settings": frozenset({"see", "manage_notifications"}),
    # Apart from all others: whoever holds it can give itself, or anybody, whatever there is in this environment.
    "admin": frozenset({"see", "manage_keys", "manage_accounts", "remove_demonstration"}),
}
"""What the scopes of an API key stand for, in the key's own environment. Approval and broken glass are for people."""


OF_A_PART = frozenset({"trip", "disable", "observe", "release", "extend", "reset", "probe"})
"""What is done to a part of an environment, and so by whoever holds a role for one group of agents."""


@dataclass(frozen=True, slots=True)
class Grants:
    """What one person holds: a role by environment, and by environment and group of agents; `*` is all of them.

    Whoever holds a role for one group may look at the whole environment: what fails for one group is often to be seen
    in another. They may change only what concerns no agent outside of their group.
    """

    by_environment: Mapping[str, Role] = field(default_factory=dict)
    by_group: Mapping[tuple[str, str], Role] = field(default_factory=dict)

    def role(self, environment: str, group: str = ANY) -> Role | None:
        """The highest of the roles held there; None where none is held."""
        held = [self.by_environment[name] for name in (environment, EVERYWHERE) if name in self.by_environment]
        if group != ANY:
            held += [role for place, role in self.by_group.items() if place in _places(environment, group)]
        elif self.groups(environment):
            held.append(Role.VIEWER)
        return max(held, key=ROLES.index, default=None)

    def groups(self, environment: str) -> dict[str, Role]:
        """The groups of agents for which a role is held there."""
        found: dict[str, Role] = {}
        for (where, group), role in self.by_group.items():
            if where in (environment, EVERYWHERE):
                found[group] = _higher(found.get(group), role)
        return found

    def may(self, permission: str, environment: str, group: str = ANY) -> bool:
        """Whether the table says so, for all agents or a group of them.

        A permission that is not in the table is a mistake in the code: KeyError.
        """
        least, held = LEAST_ROLE[permission], self.role(environment, group)
        return held is not None and ROLES.index(held) >= ROLES.index(least)

    def may_in_part(self, permission: str, environment: str) -> bool:
        """Whether it may be done at least for one group of agents: then its form is offered."""
        return self.may(permission, environment) or any(
            self.may(permission, environment, group) for group in self.groups(environment)
        )

    def permissions(self, environment: str) -> dict[str, bool]:
        """Every permission and whether it is held there, at least for a group where that is enough, for templates."""
        return {
            permission: self.may_in_part(permission, environment)
            if permission in OF_A_PART
            else self.may(permission, environment)
            for permission in LEAST_ROLE
        }


def grants_from(granted: Iterable[tuple[str, str, str]]) -> Grants:
    """Grants from rows of environment, group and role; of several for one place the highest counts."""
    everyone: dict[str, Role] = {}
    groups: dict[tuple[str, str], Role] = {}
    for environment, group, role in granted:
        if role not in ROLES:
            continue
        if group == ANY:
            everyone[environment] = _higher(everyone.get(environment), Role(role))
        else:
            groups[environment, group] = _higher(groups.get((environment, group)), Role(role))
    return Grants(everyone, groups)


def _higher(one: Role | None, other: Role) -> Role:
    return other if one is None else max(one, other, key=ROLES.index)


def _places(environment: str, group: str) -> tuple[tuple[str, str], ...]:
    return (environment, group), (EVERYWHERE, group)


def may_of_key(scopes: Iterable[str], key_environment: str, permission: str, environment: str) -> bool:
    """Whether a key with these scopes may do this there; never outside of its own environment."""
    held = frozenset[str]().union(*(KEY_PERMISSIONS.get(scope, frozenset()) for scope in scopes))
    return environment == key_environment and permission in held

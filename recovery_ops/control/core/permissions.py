"""Who may do what, as one table: six roles for people, each with all that those before it may; scopes for keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from recovery_ops.control.core.models.bases import EVERYWHERE
from recovery_ops.rules.policy.scope import ANY
from recovery_ops.rules.roles import ROLES, Role


@dataclass(frozen=True, slots=True)
class Permission:
    """The first role that has it, and what it allows."""

    least: Role
    allows: str


PERMISSIONS: dict[str, Permission] = {
    "see": Permission(Role.VIEWER, "read everything in the environment"),
    "see_audit": Permission(Role.VIEWER, "read the audit log"),
    "respond": Permission(Role.RESPONDER, "acknowledge, assign, snooze and resolve escalations and issues"),
    "decide": Permission(Role.RESPONDER, "approve or reject the proposal of an agent"),
    "show_content": Permission(Role.RESPONDER, "show masked content; each view is recorded"),
    "annotate": Permission(Role.RESPONDER, "add and end annotations, comment on incidents"),
    "arrange": Permission(Role.RESPONDER, "merge and unmerge incidents and issues"),
    "trip": Permission(Role.OPERATOR, "force a breaker open"),
    "disable": Permission(Role.OPERATOR, "disable a breaker"),
    "observe": Permission(Role.OPERATOR, "set a breaker to metrics only"),
    "release": Permission(Role.OPERATOR, "clear an override"),
    "extend": Permission(Role.OPERATOR, "extend an override"),
    "reset": Permission(Role.OPERATOR, "reset a breaker"),
    "probe": Permission(Role.OPERATOR, "send a probe"),
    "abort": Permission(Role.OPERATOR, "abort a run, and withdraw the abort"),
    "retry": Permission(Role.OPERATOR, "retry a run, and withdraw the retry"),
    "pause": Permission(Role.OPERATOR, "pause new runs or stop an agent, and resume"),
    "retire": Permission(Role.OPERATOR, "retire an instance, and restore it"),
    "shed": Permission(Role.OPERATOR, "start, extend and stop load shedding"),
    "snooze_notices": Permission(Role.OPERATOR, "mute the notifications about a provider"),
    "mend_intake": Permission(Role.OPERATOR, "replay or drop quarantined records"),
    "edit_policy": Permission(Role.OPERATOR, "edit the settings of one operation, where no review is required"),
    "propose_policy": Permission(Role.OPERATOR, "draft, edit and submit proposals"),
    "release_policy": Permission(Role.OPERATOR, "release an approved policy; any policy, where no review is required"),
    "roll_back_policy": Permission(Role.OPERATOR, "roll back to the release before, without approval"),
    "break_glass": Permission(Role.EDITOR, "apply a change without the required approval; it is reviewed later"),
    "agree": Permission(Role.OPERATOR, "approve the request of another user, with the permission of the action itself"),
    "write_runbooks": Permission(Role.EDITOR, "edit runbooks"),
    "approve_policy": Permission(Role.APPROVER, "approve the proposal of another user"),
    "manage_notifications": Permission(Role.EDITOR, "edit channels, message rules and escalation policies"),
    "set_rules": Permission(Role.ADMIN, "require reviews and second approvers in an environment"),
    "override_for_long": Permission(Role.ADMIN, "set an override for more than 24 h"),
    "manage_keys": Permission(Role.ADMIN, "create, rotate and revoke keys"),
    "manage_accounts": Permission(Role.ADMIN, "create and disable accounts, grant roles"),
    "remove_demonstration": Permission(Role.ADMIN, "remove the demonstration with all its data"),
}
"""Every permission; `docs/reference/roles.md` and Settings → Access list them."""
LEAST_ROLE: dict[str, Role] = {name: one.least for name, one in PERMISSIONS.items()}


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

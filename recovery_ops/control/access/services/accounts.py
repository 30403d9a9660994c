"""Who may come in and what they may do there: accounts made and mended, roles given and taken.

A role speaks of one environment, or of all (`EVERYWHERE`). What concerns the whole account (its password, whether it
may sign in) is for those who manage accounts everywhere. Somebody has to stay who can let the others in.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import Any, NotRequired, Required, Unpack

from allauth.usersessions.models import UserSession
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db.models import QuerySet

from recovery_ops.control.access.account_names import (
    NAME_CHARS,
    fault_of_name,
    find_account,
    find_lookalike,
    normal_name,
)
from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.core.actors import Actor
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute, state_version
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.bases import EVERYWHERE
from recovery_ops.control.core.rejections import CONFLICT, NOT_FOUND, CommandRejected
from recovery_ops.rules.policy.scope import ANY, Scope
from recovery_ops.rules.roles import ROLES, Role

PERMISSION = "manage_accounts"
EMAIL_CHARS = 254
OWN = "Changed by the owner"
_PASSWORD_BYTES = 15
_CHANGING = tuple(f"account.{one}" for one in ("reset", "grant", "take", "disable", "enable", "groups"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Somebody's account, and its password where this is the one moment at which it can be told."""

    user: User
    password: str | None = None


class About(CommandContext):
    """What every one of these is given: whose account. `environment` is that of the role, or `EVERYWHERE`."""

    name: Required[str]


class Creating(About):
    """What `create_account` is given. Without a password one is made up."""

    role: Required[str]
    password: NotRequired[str | None]


def create_account(**asked: Unpack[Creating]) -> CommandResult[Account]:
    """Make an account that holds a role in one environment or everywhere. Raises CommandRejected: 403, 400 by field."""
    name, role = normal_name(asked["name"]), asked["role"]
    faults = {"name": fault_of_name(name), "role": _fault_of_role(role)}
    command = _attempt("account.create", asked, faults, about=name)

    def write(revision: int) -> Change[Account]:
        if (other := find_lookalike(name)) is not None:
            same = "exists already; change its role or reset its password"
            raise _invalid("name", f"{name} {same if other == name else f'looks like the account {other}'}")
        user = get_user_model().objects.create_user(username=name)
        password = _set_password(user, asked.get("password"))
        _grant(user, role, command.environment)
        after = {"role": role, "environment": command.environment}
        return Change(object=Account(user=user, password=password), revision=revision, after=after)

    return _carried_out(command, write)


class Resetting(About):
    """What `reset_account` is given. Without a password one is made up."""

    password: NotRequired[str | None]


def reset_account(**asked: Unpack[Resetting]) -> CommandResult[Account]:
    """Give an account a new password, which ends its sessions, and let it in again.

    Raises CommandRejected: 403, 400, 404.
    """
    command = _attempt("account.reset", asked)

    def write(revision: int) -> Change[Account]:
        user = _unchanged(command, asked["name"])
        password = _set_password(user, asked.get("password"))
        user.is_active = True
        user.save(update_fields=["is_active"])
        return Change(object=Account(user=user, password=password), revision=revision)

    return _carried_out(command, write)


class Taking(About):
    """What `take_role` is given. `group`: the role that is held for this group of agents alone."""

    group: NotRequired[str]


class Granting(Taking):
    """What `grant_role` is given. `group`: only for this group of agents."""

    role: Required[str]


def grant_role(**asked: Unpack[Granting]) -> CommandResult[Account]:
    """Change the role that an account holds in one environment, or everywhere.

    Raises CommandRejected: 403, 400, 404, 409.
    """
    role, group = asked["role"], asked.get("group", ANY)
    faults = {"role": _fault_of_role(role), "group": _fault_of_group(group)}
    command = _attempt("account.grant", asked, faults)

    def write(revision: int) -> Change[Account]:
        user = _unchanged(command, asked["name"])
        held = _held(user, command.environment, group)
        if held == role:
            return Change(object=Account(user=user), revision=revision, was_already=True)
        if role != Role.ADMIN and group == ANY:
            _keep_an_admin(user, command)
        _grant(user, role, command.environment, group)
        part = {} if group == ANY else {"group": group}
        before, after = {"role": held, **part}, {"role": role, **part}
        return Change(object=Account(user=user), revision=revision, before=before, after=after)

    return _carried_out(command, write)


def take_role(**asked: Unpack[Taking]) -> CommandResult[Account]:
    """Take away the role that an account holds in one environment, or everywhere.

    Raises CommandRejected: 403, 404, 409.
    """
    group = asked.get("group", ANY)
    command = _attempt("account.take", asked, {"group": _fault_of_group(group)})

    def write(revision: int) -> Change[Account]:
        user = _unchanged(command, asked["name"])
        held = _held(user, command.environment, group)
        if held is None:
            return Change(object=Account(user=user), revision=revision, was_already=True)
        if group == ANY:
            _keep_an_admin(user, command)
        _given(user, command.environment, group).delete()
        part = {} if group == ANY else {"group": group}
        before, after = {"role": held, **part}, {"role": None, **part}
        return Change(object=Account(user=user), revision=revision, before=before, after=after)

    return _carried_out(command, write)


def disable_account(**asked: Unpack[About]) -> CommandResult[Account]:
    """Let somebody in no more; their sessions end now. Their name stays in the audit log.

    Raises CommandRejected: 403, 409.
    """
    command = _attempt("account.disable", asked)

    def write(revision: int) -> Change[Account]:
        user = _unchanged(command, asked["name"])
        if not user.is_active:
            return Change(object=Account(user=user), revision=revision, was_already=True)
        if command.by.user_id == user.pk:
            raise CommandRejected("own_account", "You cannot disable your own account.", status=CONFLICT)
        _keep_an_admin(user, command)
        user.is_active = False
        user.save(update_fields=["is_active"])
        for session in UserSession.objects.filter(user=user) if not command.is_dry_run else ():
            session.end()  # else it would go on where the account is let in again
        before, after = {"may_sign_in": True}, {"may_sign_in": False}
        return Change(object=Account(user=user), revision=revision, before=before, after=after)

    return _carried_out(command, write)


def enable_account(**asked: Unpack[About]) -> CommandResult[Account]:
    """Let somebody in again, with the password and roles that they had. Raises CommandRejected: 403, 404."""
    command = _attempt("account.enable", asked)

    def write(revision: int) -> Change[Account]:
        user = _unchanged(command, asked["name"])
        if user.is_active:
            return Change(object=Account(user=user), revision=revision, was_already=True)
        user.is_active = True
        user.save(update_fields=["is_active"])
        before, after = {"may_sign_in": False}, {"may_sign_in": True}
        return Change(object=Account(user=user), revision=revision, before=before, after=after)

    return _carried_out(command, write)


def note_own_password(user: User, *, by: Actor) -> None:
    """Write down that somebody has changed their own password, in the transaction that does it."""
    asked = CommandContext(by=by, environment=EVERYWHERE, reason=OWN)
    command = Command.of("account.password", Scope(), asked, about=user.get_username())
    execute(command, lambda revision: Change(object=user, revision=revision), recall=lambda entry: user)


class Writing(CommandContext):
    """What `set_own_email` is given; empty: one is not written to."""

    email: Required[str]


def set_own_email(user: User, **asked: Unpack[Writing]) -> CommandResult[User]:
    """Change where somebody is written to; the audit log says that, and not where. The same again is nothing.

    It is for its owner alone, whatever their role. Raises CommandRejected: 400, 409.
    """
    email = asked["email"]
    faults = {"email": _fault_of_email(email)}
    command = replace(
        Command.of("account.email", Scope(), asked, faults, about=user.get_username()),
        environment=EVERYWHERE,
    )

    def write(revision: int) -> Change[User]:
        command.check_version(version_of_account(user), ("account.email", *_CHANGING))
        was_already, before = user.email == email, {"has_email": bool(user.email)}
        if not was_already:
            user.email = email
            user.save(update_fields=["email"])
        after = {"has_email": bool(email)}
        return Change(object=user, revision=revision, before=before, after=after, was_already=was_already)

    command.check_input()
    return execute(command, write, recall=lambda entry: user)


def _attempt(verb: str, asked: Any, faults: dict[str, str] | None = None, *, about: str = "") -> Command:
    # Whoever lets somebody in can come in as them, and is fresh then: so that asks for a fresh sign-in, too.
    user = None if about else find_account(asked["name"])
    about = user.get_username() if user else about or asked["name"].strip()
    return Command.of(verb, Scope(), asked, faults, about=about)


def _carried_out(command: Command, write: Any) -> CommandResult[Account]:
    with command.noted():
        command.check()
        return execute(command, write, recall=_recalled)


def _recalled(entry: AuditEntry) -> Account:
    return Account(user=_found(entry.object))


def version_of_account(user: User) -> int:
    """What `seen` is compared with: another one after whatever is done to the account, wherever."""
    held = user.role_grants.order_by("pk").values_list("environment", "group", "role", "source")
    return state_version(user.pk, user.is_active, user.password, user.email, *held)


def _unchanged(command: Command, name: str) -> User:
    """The account as the asker saw it. Raises CommandRejected: 404, 409."""
    user = _found(name)
    command.check_version(version_of_account(user), _CHANGING)
    return user


def _found(name: str) -> User:
    user = find_account(name)
    if user is None:
        detail = f"User {name} does not exist."
        raise CommandRejected(
            "unknown_account", detail, status=NOT_FOUND, fields={"name": f"user {name} does not exist"}
        )
    return user


def _held(user: User, environment: str, group: str = ANY) -> str | None:
    return _given(user, environment, group).values_list("role", flat=True).first()


def _grant(user: User, role: str, environment: str, group: str = ANY) -> None:
    RoleGrant.objects.update_or_create(
        user=user, environment=environment, group=group, source=RoleGrant.BY_PERSON, defaults={"role": Role(role)}
    )


def _given(user: User, environment: str, group: str = ANY) -> QuerySet[RoleGrant]:
    """What a person granted: what groups stand for is changed where the groups are."""
    return RoleGrant.objects.filter(user=user, environment=environment, group=group, source=RoleGrant.BY_PERSON)


def _keep_an_admin(user: User, command: Command) -> None:
    """Refuse what would leave nobody who may manage accounts everywhere."""
    lasting = RoleGrant.objects.filter(group=ANY, source=RoleGrant.BY_PERSON)
    admins = lasting.filter(environment=EVERYWHERE, role=Role.ADMIN, user__is_active=True)
    concerned = command.environment == EVERYWHERE and admins.filter(user=user).exists()
    others = admins.exclude(user=user).exists() or (
        get_user_model().objects.filter(is_superuser=True, is_active=True).exclude(pk=user.pk).exists()
    )
    if concerned and not others:
        detail = f"{user.get_username()} is the last admin of all environments; add another one first."
        raise CommandRejected("last_admin", detail, status=CONFLICT)


def set_made_up_password(user: User) -> str:
    """Give an account a password that nobody can guess; return it: it is kept nowhere."""
    return _set_password(user, None)


def _set_password(user: User, password: str | None) -> str:
    chosen = password if password is not None else secrets.token_urlsafe(_PASSWORD_BYTES)
    try:
        validate_password(chosen, user)
    except ValidationError as error:
        raise _invalid("password", " ".join(error.messages)) from None
    user.set_password(chosen)
    user.save()
    return chosen


def _invalid(field: str, reason: str) -> CommandRejected:
    return CommandRejected("invalid", f"{field} {reason}.", fields={field: reason})


def _fault_of_email(email: str) -> str:
    try:
        if email:
            validate_email(email)
    except ValidationError:
        return "is an e-mail address, or empty"
    return "" if len(email) <= EMAIL_CHARS else f"has at most {EMAIL_CHARS} characters"


def _fault_of_group(group: str) -> str:
    fits = group == ANY or (group.strip() and ANY not in group and len(group) <= NAME_CHARS and group.isprintable())
    return "" if fits else "is not an agent group"


def _fault_of_role(role: str) -> str:
    return "" if role in ROLES else f"is one of {', '.join(ROLES)}, not {role}"

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

from recovery_ops.control.account_names import (
    NAME_CHARS,
    fault_of_name,
    find_account,
    find_lookalike,
    normal_name,
)
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out, version_of
from recovery_ops.control.actors import Actor
from recovery_ops.control.models import EVERYWHERE, AuditEntry, RoleGrant
from recovery_ops.control.refusals import STALE, UNKNOWN, Refused
from recovery_ops.control.roles import ROLES, Role
from recovery_ops.rules.scope import ANY, Scope

PERMISSION = "manage_accounts"
EMAIL_CHARS = 254
OWN = "changed by its owner"
_PASSWORD_BYTES = 15
_CHANGING = tuple(f"account.{one}" for one in ("reset", "grant", "take", "disable", "enable", "groups"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Somebody's account, and its password where this is the one moment at which it can be told."""

    user: User
    password: str | None = None


class About(Asked):
    """What every one of these is given: whose account. `environment` is that of the role, or `EVERYWHERE`."""

    name: Required[str]


class Creating(About):
    """What `create_account` is given. Without a password one is made up."""

    role: Required[str]
    password: NotRequired[str | None]


def create_account(**asked: Unpack[Creating]) -> Done[Account]:
    """Make an account that holds a role in one environment or everywhere. Raises Refused: 403, 400 by field."""
    name, role = normal_name(asked["name"]), asked["role"]
    faults = {"name": fault_of_name(name), "role": _fault_of_role(role)}
    attempt = _attempt("account.create", asked, faults, needs_fresh=True, about=name)

    def write(revision: int) -> Step[Account]:
        if (other := find_lookalike(name)) is not None:
            same = "is taken; give that account another role, or a new password"
            raise _invalid("name", f"{name} {same if other == name else f'looks like the account {other}'}")
        user = get_user_model().objects.create_user(username=name)
        password = _set_password(user, asked.get("password"))
        _grant(user, role, attempt.environment)
        after = {"role": role, "environment": attempt.environment}
        return Step(object=Account(user=user, password=password), revision=revision, after=after)

    return _carried_out(attempt, write)


class Resetting(About):
    """What `reset_account` is given. Without a password one is made up."""

    password: NotRequired[str | None]


def reset_account(**asked: Unpack[Resetting]) -> Done[Account]:
    """Give an account a new password, which ends its sessions, and let it in again. Raises Refused: 403, 400, 404."""
    attempt = _attempt("account.reset", asked, needs_fresh=True)

    def write(revision: int) -> Step[Account]:
        user = _unchanged(attempt, asked["name"])
        password = _set_password(user, asked.get("password"))
        user.is_active = True
        user.save(update_fields=["is_active"])
        return Step(object=Account(user=user, password=password), revision=revision)

    return _carried_out(attempt, write)


class Taking(About):
    """What `take_role` is given. `group`: the role that is held for this group of agents alone."""

    group: NotRequired[str]


class Granting(Taking):
    """What `grant_role` is given. `group`: only for this group of agents."""

    role: Required[str]


def grant_role(**asked: Unpack[Granting]) -> Done[Account]:
    """Change the role that an account holds in one environment, or everywhere. Raises Refused: 403, 400, 404, 409."""
    role, group = asked["role"], asked.get("group", ANY)
    faults = {"role": _fault_of_role(role), "group": _fault_of_group(group)}
    attempt = _attempt("account.grant", asked, faults, needs_fresh=True)

    def write(revision: int) -> Step[Account]:
        user = _unchanged(attempt, asked["name"])
        held = _held(user, attempt.environment, group)
        if held == role:
            return Step(object=Account(user=user), revision=revision, was_already=True)
        if role != Role.ADMIN and group == ANY:
            _keep_an_admin(user, attempt)
        _grant(user, role, attempt.environment, group)
        part = {} if group == ANY else {"group": group}
        before, after = {"role": held, **part}, {"role": role, **part}
        return Step(object=Account(user=user), revision=revision, before=before, after=after)

    return _carried_out(attempt, write)


def take_role(**asked: Unpack[Taking]) -> Done[Account]:
    """Take away the role that an account holds in one environment, or everywhere. Raises Refused: 403, 404, 409."""
    group = asked.get("group", ANY)
    attempt = _attempt("account.take", asked, {"group": _fault_of_group(group)})

    def write(revision: int) -> Step[Account]:
        user = _unchanged(attempt, asked["name"])
        held = _held(user, attempt.environment, group)
        if held is None:
            return Step(object=Account(user=user), revision=revision, was_already=True)
        if group == ANY:
            _keep_an_admin(user, attempt)
        _given(user, attempt.environment, group).delete()
        part = {} if group == ANY else {"group": group}
        before, after = {"role": held, **part}, {"role": None, **part}
        return Step(object=Account(user=user), revision=revision, before=before, after=after)

    return _carried_out(attempt, write)


def disable_account(**asked: Unpack[About]) -> Done[Account]:
    """Let somebody in no more; their sessions end now. Their name stays in the audit log. Raises Refused: 403, 409."""
    attempt = _attempt("account.disable", asked)

    def write(revision: int) -> Step[Account]:
        user = _unchanged(attempt, asked["name"])
        if not user.is_active:
            return Step(object=Account(user=user), revision=revision, was_already=True)
        if attempt.by.user_id == user.pk:
            raise Refused("own_account", "You cannot lock yourself out; somebody else has to do it.", status=STALE)
        _keep_an_admin(user, attempt)
        user.is_active = False
        user.save(update_fields=["is_active"])
        for session in UserSession.objects.filter(user=user) if not attempt.is_dry_run else ():
            session.end()  # else it would go on where the account is let in again
        before, after = {"may_sign_in": True}, {"may_sign_in": False}
        return Step(object=Account(user=user), revision=revision, before=before, after=after)

    return _carried_out(attempt, write)


def enable_account(**asked: Unpack[About]) -> Done[Account]:
    """Let somebody in again, with the password and roles that they had. Raises Refused: 403, 404."""
    attempt = _attempt("account.enable", asked, needs_fresh=True)

    def write(revision: int) -> Step[Account]:
        user = _unchanged(attempt, asked["name"])
        if user.is_active:
            return Step(object=Account(user=user), revision=revision, was_already=True)
        user.is_active = True
        user.save(update_fields=["is_active"])
        before, after = {"may_sign_in": False}, {"may_sign_in": True}
        return Step(object=Account(user=user), revision=revision, before=before, after=after)

    return _carried_out(attempt, write)


def note_own_password(user: User, *, by: Actor) -> None:
    """Write down that somebody has changed their own password, in the transaction that does it."""
    asked = Asked(by=by, environment=EVERYWHERE, reason=OWN)
    attempt = Attempt.of("account.password", PERMISSION, Scope(), asked, about=user.get_username(), is_for_agents=False)
    carry_out(attempt, lambda revision: Step(object=user, revision=revision), recall=lambda entry: user)


class Writing(Asked):
    """What `set_own_email` is given; empty: one is not written to."""

    email: Required[str]


def set_own_email(user: User, **asked: Unpack[Writing]) -> Done[User]:
    """Change where somebody is written to; the audit log says that, and not where. The same again is nothing.

    It is for its owner alone, whatever their role. Raises Refused: 400, 409.
    """
    email = asked["email"]
    faults = {"email": _fault_of_email(email)}
    attempt = replace(
        Attempt.of("account.email", PERMISSION, Scope(), asked, faults, about=user.get_username(), is_for_agents=False),
        environment=EVERYWHERE,
    )

    def write(revision: int) -> Step[User]:
        attempt.check_seen(version_of_account(user), ("account.email", *_CHANGING))
        was_already, before = user.email == email, {"has_email": bool(user.email)}
        if not was_already:
            user.email = email
            user.save(update_fields=["email"])
        after = {"has_email": bool(email)}
        return Step(object=user, revision=revision, before=before, after=after, was_already=was_already)

    attempt.check_said()
    return carry_out(attempt, write, recall=lambda entry: user)


def _attempt(
    verb: str, asked: Any, faults: dict[str, str] | None = None, *, needs_fresh: bool = False, about: str = ""
) -> Attempt:
    # Whoever lets somebody in can come in as them, and is fresh then: so that asks for a fresh sign-in, too.
    user = None if about else find_account(asked["name"])
    about = user.get_username() if user else about or asked["name"].strip()
    return Attempt.of(
        verb, PERMISSION, Scope(), asked, faults, about=about, is_for_agents=False, needs_fresh=needs_fresh
    )


def _carried_out(attempt: Attempt, write: Any) -> Done[Account]:
    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=_recalled)


def _recalled(entry: AuditEntry) -> Account:
    return Account(user=_found(entry.object))


def version_of_account(user: User) -> int:
    """What `seen` is compared with: another one after whatever is done to the account, wherever."""
    held = user.role_grants.order_by("pk").values_list("environment", "group", "role", "source")
    return version_of(user.pk, user.is_active, user.password, user.email, *held)


def _unchanged(attempt: Attempt, name: str) -> User:
    """The account as the asker saw it. Raises Refused: 404, 409."""
    user = _found(name)
    attempt.check_seen(version_of_account(user), _CHANGING)
    return user


def _found(name: str) -> User:
    user = find_account(name)
    if user is None:
        detail = f"There is no account called {name}."
        raise Refused("unknown_account", detail, status=UNKNOWN, fields={"name": f"there is no account called {name}"})
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


def _keep_an_admin(user: User, attempt: Attempt) -> None:
    """Refuse what would leave nobody who may manage accounts everywhere."""
    lasting = RoleGrant.objects.filter(group=ANY, source=RoleGrant.BY_PERSON)
    admins = lasting.filter(environment=EVERYWHERE, role=Role.ADMIN, user__is_active=True)
    concerned = attempt.environment == EVERYWHERE and admins.filter(user=user).exists()
    others = admins.exclude(user=user).exists() or (
        get_user_model().objects.filter(is_superuser=True, is_active=True).exclude(pk=user.pk).exists()
    )
    if concerned and not others:
        detail = f"{user.get_username()} is the last admin of everything. Make somebody else an admin everywhere first."
        raise Refused("last_admin", detail, status=STALE)


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


def _invalid(field: str, reason: str) -> Refused:
    return Refused("invalid", f"Nothing was changed: {field} {reason}.", fields={field: reason})


def _fault_of_email(email: str) -> str:
    try:
        if email:
            validate_email(email)
    except ValidationError:
        return "is an e-mail address, or empty"
    return "" if len(email) <= EMAIL_CHARS else f"has at most {EMAIL_CHARS} characters"


def _fault_of_group(group: str) -> str:
    fits = group == ANY or (group.strip() and ANY not in group and len(group) <= NAME_CHARS and group.isprintable())
    return "" if fits else "is the whole name of a group of agents"


def _fault_of_role(role: str) -> str:
    return "" if role in ROLES else f"is one of {', '.join(ROLES)}, not {role}"

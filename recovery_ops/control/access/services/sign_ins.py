"""What happens at the door, written down: who came, who was held back, second factors, sessions, broken glass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict
from datetime import timedelta
from typing import Any, NotRequired, Unpack

from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import transaction
from django.utils import timezone

from recovery_ops.control.access.account_names import fault_of_name, find_account, find_lookalike, normal_name
from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.access.services.accounts import Account, set_made_up_password
from recovery_ops.control.core.actors import Actor, system_actor
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.models.bases import EVERYWHERE
from recovery_ops.control.core.rejections import CONFLICT, FORBIDDEN, INVALID, CommandRejected
from recovery_ops.rules.policy.scope import ANY, Scope
from recovery_ops.rules.roles import Role
from recovery_ops.server.oidc_environment import Held

LOCK_OUT_S = 300
LONGEST_BREAK_GLASS_HOURS = 24
BREAK_GLASS_PREFIX = "break-glass-"


def note_sign_in(user: User, how: Collection[str], origin: Any) -> None:
    """Write down that somebody came in, and by which means (`password`, `mfa`, `socialaccount`)."""
    _note("account.sign_in", user, themselves(user, origin), "Sign-in", {"how": sorted(how)})


def note_lock_out(name: str, origin: Any) -> None:
    """Write down that tries at an account were held back: once while it lasts, and only of accounts that there are."""
    user = find_account(name)
    if user is not None and cache.add(f"lock-out:{user.pk}", 1, LOCK_OUT_S):
        by = Actor(name="rate limit", kind="system", channel="web", may=lambda permission, environment: True, **origin)
        _note("account.lock_out", user, by, "Too many failed sign-ins", {"for_s": LOCK_OUT_S})


def note_factor(verb: str, user: User, kind: str, origin: Any) -> None:
    """Write down that somebody added or removed a second factor of theirs, or made new recovery codes."""
    _note(f"account.{verb}", user, themselves(user, origin), "Changed by the owner", {"kind": kind})


def come_from_provider(
    user: User | None, *, name: str, email: str, held: frozenset[Held], provider: str, origin: Any
) -> User:
    """Let somebody in whom the provider vouches for, with exactly the roles that their groups stand for.

    Without an account one is made. Raises CommandRejected: 403 where no group stands for a role, 409 for a name that is
    taken.
    """
    with transaction.atomic():
        if user is None:
            if not held:
                detail = f"None of your groups at {provider} has a role here; contact an admin."
                raise CommandRejected("no_role", detail, status=FORBIDDEN)
            user = _account_for(name, email.strip(), provider)
        _take_over(user, held, themselves(user, origin))
    return user


class Ending(CommandContext):
    """What `end_sessions` is given: the key of the session to keep, or the number of the one to end."""

    keep: NotRequired[str]
    only: NotRequired[int | None]


def end_sessions(user: User, **asked: Unpack[Ending]) -> CommandResult[int]:
    """End somebody's sessions, all but one, or one alone; how many ended.

    It is for their owner, and for whoever rules the server, so no role is asked for. Raises CommandRejected: 400, 409.
    """
    found = UserSession.objects.filter(user=user).exclude(session_key=asked.get("keep", ""))
    if (only := asked.get("only")) is not None:
        found = found.filter(pk=only)
    command = Command.of("account.sign_out", Scope(), asked, about=user.get_username())

    def write(revision: int) -> Change[int]:
        ended = list(found)
        for session in ended if not command.is_dry_run else ():  # what a session's store forgets stays forgotten
            session.end()
        return Change(object=len(ended), revision=revision, after={"sessions": len(ended)}, was_already=not ended)

    command.check_input()
    return execute(command, write, recall=lambda entry: int((entry.after or {}).get("sessions", 0)))


def break_glass(*, by: Actor, reason: str, hours: int) -> CommandResult[Account]:
    """Make an account that is admin everywhere for some hours, and has only a password, told this once.

    For when nobody else can come in. Raises CommandRejected: 400 for no reason or a wrong time.
    """
    now = timezone.now()
    name = f"{BREAK_GLASS_PREFIX}{now:%Y%m%d-%H%M%S}"
    fault = "" if 1 <= hours <= LONGEST_BREAK_GLASS_HOURS else f"is from 1 to {LONGEST_BREAK_GLASS_HOURS}"
    asked = CommandContext(by=by, environment=EVERYWHERE, reason=reason)
    command = Command.of("account.break_glass", Scope(), asked, {"hours": fault}, about=name)

    def write(revision: int) -> Change[Account]:
        if get_user_model().objects.filter(username=name).exists():
            raise CommandRejected(
                "taken", "Another break-glass account was created in this second; try again.", status=CONFLICT
            )
        user = get_user_model().objects.create_user(username=name)
        password = set_made_up_password(user)
        ends_at = now + timedelta(hours=hours)
        RoleGrant.objects.create(
            user=user, environment=EVERYWHERE, role=Role.ADMIN, source=RoleGrant.BY_BREAK_GLASS, expires_at=ends_at
        )
        after = {"role": Role.ADMIN, "until": ends_at.isoformat(timespec="seconds")}
        return Change(object=Account(user=user, password=password), revision=revision, after=after)

    command.check()
    return execute(command, write, recall=lambda entry: Account(user=User.objects.get(username=entry.object)))


def is_break_glass(user: User) -> bool:
    """Whether this account was made to break glass, and its time is not over."""
    return RoleGrant.objects.in_force(timezone.now()).filter(user_id=user.pk, source=RoleGrant.BY_BREAK_GLASS).exists()


def themselves(user: User, origin: Any) -> Actor:
    """Somebody at the door: what they may is not asked, only who they are."""
    may: Callable[[str, str], bool] = lambda permission, environment: True  # noqa: E731  # a field of Actor
    return Actor(name=user.get_username(), kind="person", channel="web", may=may, user_id=user.pk, **origin)


def _account_for(name: str, email: str, provider: str) -> User:
    name = normal_name(name)
    if fault_of_name(name):
        detail = f"{provider} returned no usable name (`preferred_username` or `email`)."
        raise CommandRejected("invalid", detail, status=INVALID)
    if (other := find_lookalike(name)) is not None:
        alike = "called" if other == name else f"similar to {name}:"
        detail = f"An account exists {alike} {other}; an admin has to rename or delete it."
        raise CommandRejected("taken", detail, status=CONFLICT)
    user = get_user_model().objects.create_user(username=name, email=email[:254])
    _note("account.create", user, system_actor(provider, "web"), f"Authenticated by {provider}", None)
    return user


def _take_over(user: User, held: Iterable[Held], by: Actor) -> None:
    rows = RoleGrant.objects.filter(user=user, source=RoleGrant.BY_GROUPS)
    before = {Held(*row) for row in rows.values_list("environment", "group", "role")}
    # One role a place: of two groups that speak of the same one the higher role is kept.
    ranked = {
        (one.environment, one.group): one for one in sorted(held, key=lambda one: list(Role).index(Role(one.role)))
    }
    wanted = set(ranked.values())
    # Who signs in by a passkey of this console goes round the provider: what it said before does not hold for ever.
    ends_at = timezone.now() + timedelta(seconds=settings.SESSION_LONGEST_S)
    if before == wanted:
        rows.update(expires_at=ends_at)
        return
    rows.delete()
    RoleGrant.objects.bulk_create(
        RoleGrant(**asdict(one), user=user, source=RoleGrant.BY_GROUPS, expires_at=ends_at) for one in sorted(wanted)
    )
    _note("account.groups", user, by, "Roles of the groups", {"roles": _told(wanted)}, before={"roles": _told(before)})


def _told(held: Iterable[Held]) -> list[str]:
    parts = [(one, "" if one.group == ANY else f"/{one.group}") for one in sorted(held)]
    return [f"{one.role}@{one.environment}{part}" for one, part in parts]


def _note(
    verb: str, user: User, by: Actor, reason: str, after: dict[str, Any] | None, before: dict[str, Any] | None = None
) -> None:
    asked = CommandContext(by=by, environment=EVERYWHERE, reason=reason)
    command = Command.of(verb, Scope(), asked, about=user.get_username())
    step = lambda revision: Change(object=user, revision=revision, before=before, after=after)  # noqa: E731  # one line
    execute(command, step, recall=lambda entry: user)

"""Who is let in, as pages and programs read it: the keys of an environment, and the people with what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Prefetch, QuerySet
from django.utils import timezone

from events.models import AgentKey
from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.access.services.keys import is_good
from recovery_ops.control.core.models.bases import EVERYWHERE
from recovery_ops.control.core.permissions import Grants, grants_from
from recovery_ops.rules.policy.scope import ANY
from recovery_ops.rules.roles import Role

SOON = timedelta(days=14)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLine:
    """One key. `standing` is a word: good, ends soon, never used, expired, revoked."""

    key: AgentKey
    standing: str
    is_good: bool

    @property
    def scopes(self) -> list[str]:
        """What it may do, word by word."""
        return self.key.scopes.split()


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonLine:
    """One account. `role` is what it holds here for all agents, `groups` what for some, `elsewhere` its other roles."""

    user: User
    role: str
    is_everywhere: bool
    groups: Sequence[str]
    elsewhere: Sequence[str]

    @property
    def is_here(self) -> bool:
        """Whether it holds any role here."""
        return bool(self.role or self.groups)


def keys_of(environment: str) -> QuerySet[AgentKey]:
    """Every key of an environment, by name, the newest of one name first."""
    return AgentKey.objects.filter(environment=environment).order_by("name", "-created_at", "-pk")


def key_line(key: AgentKey, now: datetime) -> KeyLine:
    """One key as it stands."""
    if key.revoked_at is not None:
        standing = "revoked"
    elif not is_good(key, now):
        standing = "expired"
    elif key.expires_at is not None and key.expires_at < now + SOON:
        standing = "expires soon"
    else:
        standing = "good" if key.last_used_at is not None else "never used"
    return KeyLine(key=key, standing=standing, is_good=is_good(key, now))


def people_of(environment: str, *, of_all: bool) -> list[PersonLine]:
    """Everybody with an account, those who may come in first, by name. Two queries.

    Without `of_all` those alone who hold a role here: whom another environment lets in is that one's business.
    """
    granted = Prefetch("role_grants", queryset=RoleGrant.objects.order_by("environment"))
    users = get_user_model().objects.order_by("-is_active", "username").prefetch_related(granted)
    lines = [person_line(user, environment) for user in users]
    return [line for line in lines if of_all or line.is_here]


def person_of(environment: str, number: int, *, of_all: bool) -> PersonLine | None:
    """One account; None where it is not there, or not the business of who asks."""
    user = get_user_model().objects.filter(pk=number).first()
    line = None if user is None else person_line(user, environment)
    return line if line is not None and (of_all or line.is_here) else None


def person_line(user: User, environment: str) -> PersonLine:
    """What somebody holds here, and elsewhere."""
    now = timezone.now()
    grants = [one for one in user.role_grants.all() if one.expires_at is None or one.expires_at > now]
    rows = [(grant.environment, grant.group, grant.role) for grant in grants]
    if user.is_superuser:
        rows.append((EVERYWHERE, ANY, Role.ADMIN))
    held = grants_from(rows)
    here = Grants(held.by_environment).role(environment)
    others = [
        f"{role} in {name}" for name, role in held.by_environment.items() if name not in (environment, EVERYWHERE)
    ]
    others += [f"{role} for {group} in {name}" for (name, group), role in held.by_group.items() if name != environment]
    return PersonLine(
        user=user,
        role=here.value if here else "",
        is_everywhere=here is not None and held.by_environment.get(EVERYWHERE) == here,
        groups=[f"{role} for {group}" for group, role in sorted(held.groups(environment).items())],
        elsewhere=others,
    )


def grants_of(user: AbstractBaseUser | AnonymousUser) -> Grants:
    """What a person holds now. A superuser is an admin everywhere; who is not active holds nothing. One query."""
    if not user.is_authenticated or not user.is_active:
        return Grants()
    if getattr(user, "is_superuser", False):
        return Grants({EVERYWHERE: Role.ADMIN})
    granted = RoleGrant.objects.in_force(timezone.now()).filter(user_id=user.pk)
    return grants_from(granted.values_list("environment", "group", "role"))


def may(user: AbstractBaseUser | AnonymousUser, permission: str, environment: str) -> bool:
    """Whether a person may do this there. Asks the database each time; a request keeps its `Grants`."""
    return grants_of(user).may(permission, environment)

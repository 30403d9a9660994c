"""Whom a message is written to that names people: the addresses of their accounts, as they are when it goes out."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.core.models.bases import EVERYWHERE
from recovery_ops.control.core.numbers import parse_numbers
from recovery_ops.control.core.permissions import LEAST_ROLE
from recovery_ops.rules.notifications.escalation_levels import EVERYBODY
from recovery_ops.rules.policy.scope import ANY
from recovery_ops.rules.roles import ROLES

_ANSWERING = [role.value for role in ROLES[ROLES.index(LEAST_ROLE["respond"]) :]]


def addresses_of(person: str, environment: str, *, now: datetime) -> list[str]:
    """The addresses of one person, or of everybody, of those who may respond now; none of those who gave none."""
    people = _responders(environment, now).exclude(email="")
    if person != EVERYBODY:
        people = people.filter(username=person)
    return sorted(set(people.values_list("email", flat=True)))


def names_with_address(accounts: Iterable[str], environment: str, *, now: datetime) -> dict[str, str]:
    """The names of those of these accounts, by their number, to whom `addresses_of` finds a way. One query."""
    numbers = parse_numbers(accounts)
    people = _responders(environment, now).exclude(email="").filter(pk__in=numbers)
    return {str(number): name for number, name in people.order_by("pk").values_list("pk", "username")}


def names_of_responders(environment: str, *, now: datetime) -> list[str]:
    """Who may respond in an environment, by name. One query."""
    return sorted(_responders(environment, now).values_list("username", flat=True))


def _responders(environment: str, now: datetime) -> QuerySet[User]:
    """Whoever holds the role for the whole environment, by whatever gave it; one that has ended gives nothing."""
    granted = RoleGrant.objects.in_force(now).filter(
        environment__in=(environment, EVERYWHERE), group=ANY, role__in=_ANSWERING
    )
    holds = Q(is_superuser=True) | Q(pk__in=granted.values("user_id"))
    return get_user_model().objects.filter(holds, is_active=True)


def called(person: str) -> str:
    """A person as the pages name them."""
    return "all responders" if person == EVERYBODY else person


def without_address(person: str) -> str:
    """Why a message to a person cannot go out."""
    if person == EVERYBODY:
        return "No responder has an e-mail address; add one in Settings → You."
    return f"{person} has no e-mail address (Settings → You) or lacks the permission to respond."

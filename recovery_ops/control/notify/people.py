"""Whom a message is written to that names people: the addresses of their accounts, as they are when it goes out."""

from __future__ import annotations

from django.contrib.auth import get_user_model
from django.db.models import Q

from recovery_ops.control.models import EVERYWHERE
from recovery_ops.control.roles import LEAST_ROLE, ROLES
from recovery_ops.rules.chains import EVERYBODY

_ANSWERING = [role.value for role in ROLES[ROLES.index(LEAST_ROLE["respond"]) :]]


def addresses_of(person: str, environment: str) -> list[str]:
    """The addresses of one person, or of everybody who may respond in an environment; none of those who gave none."""
    people = get_user_model().objects.filter(is_active=True).exclude(email="")
    people = people.filter(_who_respond(environment) if person == EVERYBODY else Q(username=person))
    return sorted(set(people.values_list("email", flat=True)))


def names_of_responders(environment: str) -> list[str]:
    """Who may respond in an environment, by name. One query."""
    people = get_user_model().objects.filter(_who_respond(environment), is_active=True)
    return sorted(set(people.values_list("username", flat=True)))


def _who_respond(environment: str) -> Q:
    grants = Q(role_grants__environment__in=(environment, EVERYWHERE), role_grants__role__in=_ANSWERING)
    return grants | Q(is_superuser=True)


def called(person: str) -> str:
    """A person as the pages name them."""
    return "everybody who may respond" if person == EVERYBODY else person


def without_address(person: str) -> str:
    """Why a message to a person cannot go out."""
    if person == EVERYBODY:
        return "Nobody who may respond here has given an e-mail address (Settings → You)."
    return f"{person} has given no e-mail address (Settings → You), or may not sign in any more."

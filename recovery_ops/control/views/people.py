"""Who may come in and what each role may do; accounts made and mended by admins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import Prefetch
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from events.wording import count_text
from recovery_ops.control.actions import Done, people
from recovery_ops.control.actions.people import Account
from recovery_ops.control.context import actor_of, visit_of
from recovery_ops.control.models import EVERYWHERE, RoleGrant
from recovery_ops.control.roles import KEY_PERMISSIONS, LEAST_ROLE, ROLES, Grants, Role, grants_from
from recovery_ops.control.settings_forms import NewPersonForm, NoteForm, RoleForm
from recovery_ops.control.views.settings import Asking, answer, require, settings_page
from recovery_ops.rules.scope import ANY

MOST = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """One line of the table of roles: a permission in words, who may, and whether a key can."""

    words: str
    may: Sequence[bool]
    by_key: str


def people_list(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Everybody who has an account, with what they may do here, and the table of roles."""
    may_everywhere = _may_everywhere(request)
    granted = Prefetch("role_grants", queryset=RoleGrant.objects.order_by("environment"))
    users = list(get_user_model().objects.order_by("-is_active", "username").prefetch_related(granted)[:MOST])
    lines = [_line(user, environment) for user in users]
    if not may_everywhere:  # whom another environment lets in is that one's business
        lines = [line for line in lines if line.is_here]
    context = {
        "lines": lines,
        "may_everywhere": may_everywhere,
        "sentence": _sentence(lines, environment),
        "roles": [role.value for role in ROLES],
        "deeds": deeds(),
    }
    return settings_page(request, "people", context, here="people")


def deeds() -> list[Deed]:
    """The table of `roles.py`, line by line."""
    found = []
    for permission, least in LEAST_ROLE.items():
        scopes = [scope for scope, held in KEY_PERMISSIONS.items() if permission in held]
        may = [ROLES.index(role) >= ROLES.index(least) for role in ROLES]
        words = permission.replace("_", " ").capitalize()
        found.append(Deed(words=words, may=may, by_key=", ".join(scopes)))
    return found


@require_http_methods(["GET", "POST"])
def new(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Make an account, and show its password once."""
    require(request, "manage_accounts", environment)

    def carry_out(typed: dict[str, Any]) -> Done[Account]:
        return people.create_account(**_asked(request, typed, typed["where"]), name=typed["name"], role=typed["role"])

    asking = Asking(
        title="New person",
        lead="A password is made up and shown once, right after this. Hand it over; its owner can change it.",
        button="Make account",
        here="people",
        back=reverse("people"),
        form=partial(NewPersonForm, environment=environment, may_everywhere=_may_everywhere(request)),
        carry_out=carry_out,
        shown=partial(_password, request),
    )
    return answer(request, asking)


@require_http_methods(["GET", "POST"])
def role(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """Give somebody another role, or take it away."""
    require(request, "manage_accounts", environment)
    user = _found(request, environment, number)
    name = user.get_username()

    def carry_out(typed: dict[str, Any]) -> Done[Account]:
        asked = {**_asked(request, typed, typed["where"]), "name": name, "group": typed["group"].strip() or ANY}
        return people.take_role(**asked) if typed["role"] == "none" else people.grant_role(role=typed["role"], **asked)

    def told() -> str:
        return _roles(user, None if _may_everywhere(request) else environment)

    def form(*args: Any, **given: Any) -> RoleForm:
        held = _line(user, environment)
        first = {"role": held.role or Role.VIEWER.value, "where": EVERYWHERE if held.is_everywhere else environment}
        given["initial"] = {**first, **given.get("initial", {})}
        return RoleForm(*args, environment=environment, may_everywhere=_may_everywhere(request), **given)

    asking = Asking(
        title=f"Role of {name}",
        lead=f"Now: {told()}. Of several roles that hold for the same agents, the highest counts.",
        button="Change role",
        here="people",
        back=reverse("people"),
        form=form,
        carry_out=carry_out,
        told=lambda done: f"{name}: {told()}.",
    )
    return answer(request, asking)


_ACTS: dict[str, tuple[str, str, str]] = {
    "reset": ("New password for", "The old one opens nothing any more, and every session of theirs ends.", "Make up"),
    "disable": ("Lock out", "They are signed out now. What they did stays in the audit log.", "Lock out"),
    "enable": ("Let in again", "With the password and the roles that they had.", "Let in"),
}


@require_http_methods(["GET", "POST"])
def account(request: HttpRequest, *, environment: str, number: int, verb: str) -> HttpResponse:
    """Reset a password, lock out or let in: what concerns a whole account is for admins of everything."""
    name = _found(request, environment, number).get_username()
    if not _may_everywhere(request):
        raise PermissionDenied("Only an admin of every environment may change a whole account.")
    title, lead, button = _ACTS[verb]
    act = {"reset": people.reset_account, "disable": people.disable_account, "enable": people.enable_account}[verb]
    asking = Asking(
        title=f"{title} {name}",
        lead=lead,
        button=button,
        here="people",
        back=reverse("people"),
        form=NoteForm,
        carry_out=lambda typed: act(**_asked(request, typed, EVERYWHERE), name=name),
        told=lambda done: f"{name} {'is locked out' if verb == 'disable' else 'may sign in again'}.",
        shown=partial(_password, request) if verb == "reset" else None,
    )
    return answer(request, asking)


def _asked(request: HttpRequest, typed: dict[str, Any], where: str) -> Any:
    return {"by": actor_of(request), "environment": where, "reason": typed["reason"], "key": typed["key"] or None}


def _password(request: HttpRequest, done: Done[Account]) -> HttpResponse:
    return settings_page(request, "person_password", {"made": done.object}, here="people")


def _may_everywhere(request: HttpRequest) -> bool:
    return visit_of(request).grants.may("manage_accounts", EVERYWHERE)


def _found(request: HttpRequest, environment: str, number: int) -> User:
    """The account, where it is the business of who asks. Raises Http404."""
    user = get_user_model().objects.filter(pk=number).first()
    if user is None or not (_may_everywhere(request) or _line(user, environment).is_here):
        raise Http404(f"There is no account {number} that has a role in {environment}.")
    return user


def _line(user: User, environment: str) -> Line:
    rows = [(grant.environment, grant.group, grant.role) for grant in user.role_grants.all()]
    if user.is_superuser:
        rows.append((EVERYWHERE, ANY, Role.ADMIN))
    held = grants_from(rows)
    of_all = Grants(held.by_environment)
    here = of_all.role(environment)
    others = [
        f"{role} in {name}" for name, role in held.by_environment.items() if name not in (environment, EVERYWHERE)
    ]
    others += [f"{role} for {group} in {name}" for (name, group), role in held.by_group.items() if name != environment]
    return Line(
        user=user,
        role=here.value if here else "",
        is_everywhere=here is not None and held.by_environment.get(EVERYWHERE) == here,
        groups=[f"{role} for {group}" for group, role in sorted(held.groups(environment).items())],
        elsewhere=others,
    )


def _roles(user: User, environment: str | None) -> str:
    """What somebody holds, in words: there and everywhere, or wherever where that is None."""
    held = user.role_grants.order_by("environment", "group")
    if environment is not None:
        held = held.filter(environment__in=(environment, EVERYWHERE))
    told = [
        f"{one.role}{'' if one.group == ANY else f' for {one.group}'} "
        f"{'everywhere' if one.environment == EVERYWHERE else f'in {one.environment}'}"
        for one in held
    ]
    if user.is_superuser:
        told.insert(0, "admin everywhere (superuser)")
    return ", ".join(told) or "no role"


def _sentence(lines: Iterable[Line], environment: str) -> str:
    here = [line for line in lines if line.is_here and line.user.is_active]
    admins = sum(line.role == Role.ADMIN for line in here)
    return (
        f"{count_text(len(here), 'person', 'people')} may see {environment}; {count_text(admins, 'admin')} among them."
    )

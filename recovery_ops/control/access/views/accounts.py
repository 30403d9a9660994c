"""Who may come in and what each role may do; accounts made and mended by admins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.wording import count_text
from recovery_ops.control.access.forms import NewPersonForm, NoteForm, RoleForm
from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.access.selectors import PersonLine, people_of, person_line, person_of
from recovery_ops.control.access.services import accounts as people
from recovery_ops.control.access.services.accounts import Account
from recovery_ops.control.access.sign_in.sessions import sign_in_again
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.environment import actor_of, visit_of
from recovery_ops.control.core.models.bases import EVERYWHERE
from recovery_ops.control.core.pagination import page_of
from recovery_ops.control.core.permissions import KEY_PERMISSIONS, LEAST_ROLE, PERMISSIONS
from recovery_ops.control.core.views.settings import SettingsFormView, answer, require, settings_page
from recovery_ops.rules.policy.scope import ANY
from recovery_ops.rules.roles import ROLES, Role

MOST = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """One line of the table of roles: a permission in words, who may, and whether a key can."""

    words: str
    may: Sequence[bool]
    by_key: str


def people_list(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Everybody who has an account, with what they may do here, and the table of roles."""
    may_everywhere = _may_everywhere(request)
    everybody = people_of(environment, of_all=may_everywhere)
    shown = page_of(request, everybody, _place, (int, str), MOST)
    context = {
        "lines": shown.rows,
        "page": shown,
        "may_everywhere": may_everywhere,
        "sentence": _sentence(everybody, environment),
        "roles": [role.value for role in ROLES],
        "deeds": deeds(),
    }
    return settings_page(request, "access/people", context, here="people")


def deeds() -> list[Deed]:
    """The table of `roles.py`, line by line."""
    found = []
    for permission, least in LEAST_ROLE.items():
        scopes = [scope for scope, held in KEY_PERMISSIONS.items() if permission in held]
        may = [ROLES.index(role) >= ROLES.index(least) for role in ROLES]
        words = PERMISSIONS[permission].allows
        found.append(Deed(words=words[:1].upper() + words[1:], may=may, by_key=", ".join(scopes)))
    return found


@require_http_methods(["GET", "POST"])
def new(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Make an account, and show its password once."""
    require(request, "manage_accounts", environment)
    if request.method == "GET" and (again := sign_in_again(request)):
        return again

    def carry_out(typed: dict[str, Any]) -> CommandResult[Account]:
        return people.create_account(**_asked(request, typed, typed["where"]), name=typed["name"], role=typed["role"])

    asking = SettingsFormView(
        title="New user",
        lead="A password is generated and shown once.",
        button="Create user",
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
    if request.method == "GET" and (again := sign_in_again(request)):
        return again

    def carry_out(typed: dict[str, Any]) -> CommandResult[Account]:
        asked = {**_asked(request, typed, typed["where"]), "name": name, "group": typed["group"].strip() or ANY}
        return people.take_role(**asked) if typed["role"] == "none" else people.grant_role(role=typed["role"], **asked)

    def told() -> str:
        return _roles(user, None if _may_everywhere(request) else environment)

    def form(*args: Any, **given: Any) -> RoleForm:
        held = person_line(user, environment)
        first = {"role": held.role or Role.VIEWER.value, "where": EVERYWHERE if held.is_everywhere else environment}
        given["initial"] = {**first, **given.get("initial", {})}
        return RoleForm(*args, environment=environment, may_everywhere=_may_everywhere(request), **given)

    asking = SettingsFormView(
        title=f"Role of {name}",
        lead=f"Current: {told()}. The highest role applies.",
        button="Change role",
        here="people",
        back=reverse("people"),
        form=form,
        carry_out=carry_out,
        told=lambda done: f"{name}: {told()}.",
    )
    return answer(request, asking)


_ACTS: dict[str, tuple[str, str, str]] = {
    "reset": ("Reset password of", "The old password becomes invalid and all sessions end.", "Reset password"),
    "disable": ("Disable", "All sessions end. Audit entries stay.", "Disable user"),
    "enable": ("Enable", "Password and roles stay as before.", "Enable user"),
}


@require_http_methods(["GET", "POST"])
def account(request: HttpRequest, *, environment: str, number: int, verb: str) -> HttpResponse:
    """Reset a password, lock out or let in: what concerns a whole account is for admins of everything."""
    name = _found(request, environment, number).get_username()
    if not _may_everywhere(request):
        raise PermissionDenied("Only admins of all environments can change accounts.")
    if verb != "disable" and request.method == "GET" and (again := sign_in_again(request)):
        return again
    title, lead, button = _ACTS[verb]
    act = {"reset": people.reset_account, "disable": people.disable_account, "enable": people.enable_account}[verb]
    asking = SettingsFormView(
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


def _password(request: HttpRequest, done: CommandResult[Account]) -> HttpResponse:
    return settings_page(request, "access/person_password", {"made": done.object}, here="people")


def _may_everywhere(request: HttpRequest) -> bool:
    return visit_of(request).grants.may("manage_accounts", EVERYWHERE)


def _found(request: HttpRequest, environment: str, number: int) -> User:
    """The account, where it is the business of who asks. Raises Http404."""
    found = person_of(environment, number, of_all=_may_everywhere(request))
    if found is None:
        raise Http404(f"User {number} does not exist in {environment}.")
    return found.user


def _place(line: PersonLine) -> tuple[int, str]:
    """Those who may come in first, by name."""
    return int(not line.user.is_active), line.user.get_username()


def _roles(user: User, environment: str | None) -> str:
    """What somebody holds, in words: there and everywhere, or wherever where that is None."""
    held = RoleGrant.objects.in_force(timezone.now()).filter(user=user).order_by("environment", "group")
    if environment is not None:
        held = held.filter(environment__in=(environment, EVERYWHERE))
    told = [
        f"{one.role}{'' if one.group == ANY else f' for {one.group}'} "
        f"{'everywhere' if one.environment == EVERYWHERE else f'in {one.environment}'}"
        for one in held
    ]
    if user.is_superuser:
        told.insert(0, "admin of all environments (superuser)")
    return ", ".join(told) or "no role"


def _sentence(lines: Iterable[PersonLine], environment: str) -> str:
    here = [line for line in lines if line.is_here and line.user.is_active]
    admins = sum(line.role == Role.ADMIN for line in here)
    return f"{count_text(len(here), 'user')} of {environment}, {count_text(admins, 'admin')}."

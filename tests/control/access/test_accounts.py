"""Accounts: made with a role, mended, listed; each written down, and no password anywhere but in the answer."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from recovery_ops.control.access.account_services import AccountInvalid, create_account, grant_role, reset_account
from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.access.selectors import grants_of
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.core.audit_log import verify_chain
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.rules.roles import ROLES, Role
from tests.support.actions import asked, person, trip

pytestmark = pytest.mark.django_db


def account(*words: str) -> str:
    said = io.StringIO()
    call_command("account", *words, stdout=said)
    return said.getvalue()


def test_an_account_holds_its_role_and_its_password_opens() -> None:
    user, password = create_account("ana", "operator", environment="prod")
    assert grants_of(user).by_environment == {"prod": Role.OPERATOR}
    assert Client().login(username="ana", password=password)
    assert grants_of(create_account("bob", "admin")[0]).by_environment == {"*": Role.ADMIN}
    assert create_account("eva", "viewer", password="correct horse battery")[1] == "correct horse battery"


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "x" * 151}, "name"),
        ({"name": "taken"}, "name"),
        ({"role": "emperor"}, "role"),
        ({"environment": ""}, "environment"),
        ({"environment": "x" * 65}, "environment"),
        ({"password": "12345"}, "password"),
    ],
)
def test_an_account_that_cannot_be_is_not_half_made(changed: dict[str, Any], field: str) -> None:
    create_account("taken", "viewer")
    with pytest.raises(AccountInvalid) as invalid:
        create_account(**{"name": "ana", "role": "operator"} | changed)
    assert invalid.value.field == field
    assert [user.username for user in User.objects.all()] == ["taken"]


def test_a_reset_lets_the_owner_in_and_everybody_else_out() -> None:
    user, old = create_account("ana", "operator")
    session = Client()
    session.login(username="ana", password=old)
    user.is_active = False
    user.save()
    _, new = reset_account("ana")
    assert Client().login(username="ana", password=new)
    assert not Client().login(username="ana", password=old)
    assert session.get("/api/v1/status").status_code == 401


def test_a_role_can_be_changed() -> None:
    user, _ = create_account("ana", "operator", environment="dev")
    grant_role("ana", "admin", environment="dev")
    grant_role("ana", "viewer")
    assert grants_of(user).by_environment == {"dev": Role.ADMIN, "*": Role.VIEWER}
    for missing in (lambda: grant_role("nobody", "viewer"), lambda: reset_account("nobody")):
        with pytest.raises(AccountInvalid):
            missing()


def test_everything_is_written_down_but_the_password() -> None:
    _, password = create_account("ana", "operator", environment="dev")
    grant_role("ana", "admin", environment="dev", by=person(Role.ADMIN, name="root"))
    _, new = reset_account("ana")
    entries = list(AuditEntry.objects.filter(environment="dev").order_by("number"))
    assert [(entry.verb, entry.object, entry.actor_name == "root") for entry in entries] == [
        ("account.create", "ana", False),
        ("account.grant", "ana", True),
    ]
    assert (entries[1].before, entries[1].after) == ({"role": "operator"}, {"role": "admin"})
    assert AuditEntry.objects.get(environment="*").verb == "account.reset"
    written = str(list(AuditEntry.objects.values()))
    assert password not in written
    assert new not in written
    assert verify_chain("dev").is_whole


def test_what_somebody_did_outlives_their_account() -> None:
    user, _ = create_account("ana", "operator")
    held = trip(**asked(by=replace(person(name="ana"), user_id=user.pk), ahead=True))
    assert held.object.by_user == user
    user.delete()
    assert not RoleGrant.objects.exists()
    override = Override.objects.get(pk=held.object.pk)
    assert (override.by, override.by_user) == ("ana", None)


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_a_password_once_alone_on_the_last_line() -> None:
    said = account("create", "ana", "--role", "operator", "--environment", "prod")
    assert all(word in said.splitlines()[0] for word in ("ana", "operator", "prod"))
    assert grants_of(User.objects.get(username="ana")).by_environment == {"prod": Role.OPERATOR}
    password = said.splitlines()[-1]
    assert Client().login(username="ana", password=password)
    said = account("reset", "ana")
    assert Client().login(username="ana", password=said.splitlines()[-1])


def test_the_command_lists_who_may_come_in() -> None:
    account("create", "ana", "--role", "operator", "--environment", "prod")
    account("grant", "ana", "--role", "viewer")
    User.objects.create_superuser("root")
    User.objects.create_user("gone", is_active=False)
    User.objects.create_user("nobody")
    told = dict(line.split("\t") for line in account("list").splitlines())
    assert list(told) == ["ana", "gone", "nobody", "root"]
    viewer, operator = told["ana"].split(", ")
    assert all(word in operator for word in ("operator", "prod"))
    assert ("viewer" in viewer, "prod" in viewer) == (True, False)
    assert "admin" in told["root"]
    assert told["gone"] != told["nobody"], "may not sign in, and has no role"
    assert not [name for name in ("gone", "nobody") if any(role in told[name].split() for role in ROLES)]


def test_the_command_gives_a_role_for_one_group_of_agents() -> None:
    user, _ = create_account("ana", "viewer")
    said = account("grant", "ana", "--role", "operator", "--environment", "prod", "--group", "payments")
    assert all(word in said for word in ("ana", "operator", "prod", "payments"))
    assert grants_of(user).by_group == {("prod", "payments"): Role.OPERATOR}
    name, roles = account("list").rstrip("\n").split("\t")
    viewer, operator = roles.split(", ")
    assert (name, "viewer" in viewer, "payments" in viewer) == ("ana", True, False)
    assert all(word in operator for word in ("operator", "prod", "payments"))
    assert AuditEntry.objects.get(environment="prod").after == {"role": "operator", "group": "payments"}
    with pytest.raises(CommandError):
        account("grant", "ana", "--role", "operator", "--environment", "prod", "--group", "pay*")


@pytest.mark.parametrize("words", [["create", "ana", "--role", "emperor"], ["reset", "nobody"], ["create", "ana"], []])
def test_the_command_says_what_is_wrong(words: list[str]) -> None:
    with pytest.raises(CommandError):
        account(*words)

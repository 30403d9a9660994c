"""Who may do what: the table, in words that a person can check."""

from __future__ import annotations

from itertools import pairwise

import pytest
from django.contrib.auth.models import AnonymousUser, User

from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.access.selectors import grants_of, may
from recovery_ops.control.core.permissions import LEAST_ROLE, Grants, may_of_key
from recovery_ops.rules.roles import ROLES, Role

LOOK = {"see", "see_audit"}
POLICY = {"edit_policy", "propose_policy", "release_policy", "roll_back_policy"}
RESPOND = LOOK | {"respond", "decide", "arrange", "show_content", "annotate"}
ACT = RESPOND | POLICY
ACT |= {"trip", "disable", "observe", "release", "extend", "reset", "probe"}
ACT |= {"shed", "abort", "retry", "pause", "retire", "snooze_notices"}
OPERATE = ACT | {"mend_intake", "agree"}
EDIT = OPERATE | {"break_glass", "manage_notifications", "write_runbooks"}
APPROVE = EDIT | {"approve_policy"}
ALL = APPROVE | {"override_for_long", "manage_keys", "manage_accounts", "set_rules", "remove_demonstration"}


@pytest.mark.parametrize(
    ("role", "permissions"),
    [
        (Role.VIEWER, LOOK),
        (Role.RESPONDER, RESPOND),
        (Role.OPERATOR, OPERATE),
        (Role.EDITOR, EDIT),
        (Role.APPROVER, APPROVE),
        (Role.ADMIN, ALL),
    ],
)
def test_what_each_role_may(role: Role, permissions: set[str]) -> None:
    held = Grants({"dev": role}).permissions("dev")
    assert {permission for permission, is_held in held.items() if is_held} == permissions
    assert held.keys() == LEAST_ROLE.keys()


def test_a_role_in_one_environment_is_none_elsewhere() -> None:
    grants = Grants({"dev": Role.ADMIN})
    assert grants.role("prod") is None
    assert not grants.may("see", "prod")


@pytest.mark.parametrize(
    ("everywhere", "here", "role"), [("viewer", "operator", "operator"), ("admin", "viewer", "admin")]
)
def test_of_two_roles_the_higher_counts(everywhere: str, here: str, role: str) -> None:
    assert Grants({"*": Role(everywhere), "dev": Role(here)}).role("dev") == role


def test_a_permission_that_is_not_in_the_table_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        Grants({"dev": Role.ADMIN}).may("fly", "dev")


@pytest.mark.django_db
def test_grants_come_from_the_table_and_go_with_the_account() -> None:
    ana = User.objects.create_user("ana")
    RoleGrant.objects.create(user=ana, environment="dev", role="operator")
    RoleGrant.objects.create(user=ana, environment="old", role="emperor")
    assert grants_of(ana).by_environment == {"dev": Role.OPERATOR}
    assert may(ana, "trip", "dev")
    assert not may(ana, "trip", "prod")
    ana.is_active = False
    assert not may(ana, "see", "dev")
    assert not may(AnonymousUser(), "see", "dev")


@pytest.mark.django_db
def test_a_superuser_is_an_admin_everywhere() -> None:
    root = User.objects.create_superuser("root")
    assert {grants_of(root).role(environment) for environment in ("dev", "prod")} == {Role.ADMIN}


@pytest.mark.parametrize(
    ("scopes", "permissions"),
    [
        (["read"], LOOK),
        (["act"], ACT - LOOK | {"mend_intake", "write_runbooks"}),
        (["read", "act"], ACT | {"mend_intake", "write_runbooks"}),
        (["settings"], {"see", "manage_notifications"}),
        (["admin"], {"see", "manage_keys", "manage_accounts", "remove_demonstration"}),
        (["ingest", "desired"], set()),
    ],
)
def test_what_each_key_may_in_its_own_environment(scopes: list[str], permissions: set[str]) -> None:
    assert {one for one in LEAST_ROLE if may_of_key(scopes, "dev", one, "dev")} == permissions
    assert not any(may_of_key(scopes, "dev", one, "prod") for one in LEAST_ROLE)


def test_roles_are_a_ladder() -> None:
    held = [{one for one, is_held in Grants({"dev": role}).permissions("dev").items() if is_held} for role in ROLES]
    assert all(lower <= higher for lower, higher in pairwise(held))

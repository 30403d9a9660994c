"""People's accounts on the operator's command line, against a running console."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model

from recovery_ops import cli
from recovery_ops.control.access.models import RoleGrant
from tests.support.command_line import WHY, Operator, operator
from tests.support.command_line_admin import admin
from tests.support.told import untold

__all__ = ["admin", "operator"]  # the fixtures


def granted(name: str) -> list[tuple[str, str, str]]:
    return list(RoleGrant.objects.filter(user__username=name).values_list("environment", "group", "role"))


def test_somebody_is_let_in_given_another_role_and_loses_it(admin: Operator) -> None:
    assert admin.run("accounts", "create", "li", "--role", "viewer", *WHY, "--dry-run") == cli.DONE
    [tried] = admin.said
    assert untold(tried, "li", "viewer") == []
    assert not get_user_model().objects.filter(username="li").exists()
    assert admin.run("accounts", "create", "li", "--role", "viewer", *WHY) == cli.DONE
    line, password = admin.said
    li = get_user_model().objects.get(username="li")
    assert (untold(line, li.pk, "li", "viewer"), li.check_password(password)) == ([], True)
    assert line != tried, "that nothing was changed is told"
    assert admin.run("accounts", "list") == cli.DONE
    assert admin.said == [line]
    assert password not in admin.said
    assert admin.run("accounts", "role", str(li.pk), "--role", "operator", *WHY) == cli.DONE
    assert untold(admin.said[0], li.pk, "li", "operator") == []
    assert granted("li") == [("dev", "*", "operator")]
    assert admin.run("accounts", "role", str(li.pk), "--role", "editor", "--group", "canary", *WHY) == cli.DONE
    assert set(granted("li")) == {("dev", "*", "operator"), ("dev", "canary", "editor")}
    assert admin.run("accounts", "take-role", str(li.pk), "--group", "canary", *WHY) == cli.DONE
    assert granted("li") == [("dev", "*", "operator")]
    assert admin.run("accounts", "show", str(li.pk)) == cli.DONE
    assert [untold(one, li.pk, "li", "operator") for one in admin.said] == [[]]


@pytest.mark.parametrize("word", ["reset", "disable", "enable"])
def test_a_whole_account_is_the_business_of_who_rules_every_environment(admin: Operator, word: str) -> None:
    """As by the API: a key is of one environment."""
    assert admin.run("accounts", "create", "li", "--role", "viewer", *WHY) == cli.DONE
    li = get_user_model().objects.get(username="li")
    assert admin.run("accounts", word, str(li.pk), *WHY) == cli.REFUSED


def test_a_key_without_the_scope_lets_nobody_in(operator: Operator) -> None:
    assert operator.run("accounts", "create", "li", "--role", "viewer", *WHY) == cli.REFUSED
    assert not get_user_model().objects.filter(username="li").exists()

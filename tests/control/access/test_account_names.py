"""Names of accounts: one normal form, lookalikes rejected wherever accounts are made, and nobody locked out."""

from __future__ import annotations

import io

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.control.access.account_names import normal_name, skeleton
from recovery_ops.control.access.account_services import create_account
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.rules.roles import Role
from tests.support.actions import REASON
from tests.support.api_client import Program
from tests.support.concurrency import THREADS, at_once
from tests.support.concurrency import engine as engine_for_threads
from tests.support.engines import engine
from tests.support.pages import signed_in
from tests.support.sign_in import PASSWORD, is_in

__all__ = ["engine", "engine_for_threads"]  # the fixtures

LOOKALIKES = {
    "the same": "admin",
    "capitals": "ADMIN",
    "full width": "\uff41\uff44\uff4d\uff49\uff4e",
    "Cyrillic a": "\u0430dmin",
    "Cyrillic i": "adm\u0456n",
    "Cyrillic capitals": "\u0410D\u041cIN",
    "Greek capitals": "\u0391D\u039cIN",
    "Greek capital whose small letter is no n": "ADMI\u039d",
    "small capitals": "\u1d00\u1d05\u1d0d\u026a\u0274",
    "sign of a programming language": "\u237admin",
    "dotless i": "adm\u0131n",
    "r and n": "adrnin",
    "point at the end": "admin.",
    "sign at the beginning": "_admin",
    "spaces": "  admin\u2003",
    "filler that no font shows": "ad\u3164min",
    "variation selector": "admin\ufe0f",
    "mathematical letters": "\U0001d41a\U0001d41dmin",
}
OTHERS = (
    "admin2",
    "ad.min",
    "adm\u00efn",
    "administrator",
    "\u0430\u043d\u043d\u0430",
    "\u5f20\u4f1f",
    "ana@example.com",
)
NO_NAMES = ("", " ", ".", "\u3164", "a\nb", "a\u202eb", "\ufdfa" * 20, "x" * 151)


def statuses(name: str) -> tuple[int, int]:
    """What the page and the API answer to who makes an account of this name; the command has to refuse the same."""
    typed = {"name": name, "role": "viewer", "where": "dev", "reason": REASON}
    page = signed_in(Role.ADMIN, "root").post("/settings/access/new", typed)
    answer = Program("admin").post("accounts", {"name": name, "role": "viewer", "reason": REASON})
    with pytest.raises(CommandError):
        call_command("account", "create", name, "--role", "viewer", stdout=io.StringIO())
    return page.status_code, answer[0]


def test_lookalike_of_account_is_made_nowhere(engine: str) -> None:
    create_account("admin", "admin")
    answers = {what: statuses(name) for what, name in LOOKALIKES.items()}
    assert answers == dict.fromkeys(LOOKALIKES, (400, 400))
    assert set(User.objects.values_list("username", flat=True)) == {"admin", "root"}


def test_unusable_name_makes_no_account(engine: str) -> None:
    assert {name: set(statuses(name)) <= {400, 422} for name in NO_NAMES} == dict.fromkeys(NO_NAMES, True)
    assert set(User.objects.values_list("username", flat=True)) == {"root"}


@pytest.mark.django_db
def test_names_that_differ_visibly_are_made() -> None:
    create_account("admin", "admin")
    assert [create_account(name, "viewer")[0].username for name in OTHERS] == list(OTHERS)


@pytest.mark.django_db
def test_new_name_is_stored_in_normal_form() -> None:
    user, _ = create_account(" \uff21na.Berg ", "admin", password=PASSWORD)
    assert (user.username, AuditEntry.objects.get(verb="account.create").object) == ("ana.berg", "ana.berg")
    for name in ("ana.berg", "Ana.Berg", "ANA.BERG ", "\uff41na.berg"):
        client = Client()
        client.post("/sign-in", {"username": name, "password": PASSWORD})
        assert is_in(client), name


@pytest.mark.django_db
def test_earlier_accounts_that_look_alike_sign_in() -> None:
    """Accounts from before this rule: each opens by the name that it has."""
    names = ("admin", "Admin", "\u0430dmin", "admin.", "admin\u3164", "\u00c9lan")
    for name in names:
        User.objects.create_user(name, password=f"{PASSWORD} {normal_name(name)} {name}")
    stored = list(User.objects.order_by("pk").values_list("username", flat=True))
    for number, (name, other) in enumerate(zip(names, stored, strict=True)):
        client = Client(REMOTE_ADDR=f"192.0.2.{number}")
        client.post("/sign-in", {"username": name, "password": f"{PASSWORD} {normal_name(name)} {name}"})
        assert int(client.session["_auth_user_id"]) == User.objects.get(username=other).pk
        call_command("account", "grant", name, "--role", "viewer", stdout=io.StringIO())
    assert list(AuditEntry.objects.filter(verb="account.grant").values_list("object", flat=True)) == stored


@pytest.mark.django_db
def test_earlier_account_in_capitals_opens_by_any_case() -> None:
    User.objects.create_user("Ana", password=PASSWORD)
    for name in ("Ana", "ana", "ANA"):
        client = Client()
        client.post("/sign-in", {"username": name, "password": PASSWORD})
        assert is_in(client), name


def test_lookalikes_made_at_once_are_one_account(engine_for_threads: object) -> None:
    names = ("admin", "ADMIN", "\u0430dmin", "admin.", "adm\u0131n", "adrnin")

    def make(number: int) -> str:
        environment = ("dev", "prod", "lab")[number % 3]
        try:
            return create_account(names[number], "viewer", environment=environment)[0].username
        except ValueError:
            return ""

    assert len(names) == THREADS
    assert [bool(made) for made in at_once(engine_for_threads, make)].count(True) == 1  # type: ignore[arg-type]


@given(st.text(max_size=8))
def test_normal_form_of_normal_form_is_itself(name: str) -> None:
    assert normal_name(normal_name(name)) == normal_name(name)
    assert skeleton(normal_name(name)) == skeleton(name)

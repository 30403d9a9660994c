"""Ways round the door: a sign-in that waits for its second step, a locked account, a password that is tried out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from events.models import AgentKey
from recovery_ops.control.access.account_services import create_account
from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.access.services import accounts as people
from recovery_ops.rules.roles import Role
from tests.support.actions import REASON
from tests.support.keys_and_people import account
from tests.support.passkeys import SoftwareKey
from tests.support.sign_in import NAME, PASSWORD, add_app, add_key, code_of, is_in, signed_in

pytestmark = pytest.mark.django_db

CREDENTIALS = (
    "{",
    "[]",
    "9" * 5000,
    "[" * 50_000,
    json.dumps({"id": 1}),
    json.dumps({"rawId": "AA", "response": []}),
    json.dumps({"id": "AA", "rawId": "AA", "type": "public-key", "response": {"userHandle": {}}}),
    json.dumps({"id": "AA", "rawId": "AA", "type": 5, "response": {"clientDataJSON": "AA", "authenticatorData": "AA"}}),
    json.dumps({"id": "AA", "rawId": "AA", "response": {"clientDataJSON": "AA", "attestationObject": "o2NmbXR4"}}),
    json.dumps({"rawId": "AA", "response": dict.fromkeys(("clientDataJSON", "authenticatorData", "signature"), "AA")}),
)


@pytest.fixture(autouse=True)
def ana() -> User:
    return create_account("ana", "admin", password=PASSWORD)[0]


def half_in() -> Client:
    """A browser in which ana's password was typed, and her code is asked for."""
    client = Client()
    assert client.post("/sign-in", NAME).headers["Location"].startswith("/sign-in/code")
    return client


def make_another_admin() -> None:
    create_account("root", "admin", password=PASSWORD)


def test_a_locked_account_has_no_sessions_when_it_is_let_in_again() -> None:
    make_another_admin()
    client = signed_in()
    account(people.disable_account, "ana")
    assert not is_in(client)
    account(people.enable_account, "ana")
    assert not is_in(client)
    assert is_in(signed_in())


def test_who_is_locked_out_between_password_and_code_stays_outside() -> None:
    make_another_admin()
    secret = add_app(signed_in())
    client = half_in()
    account(people.disable_account, "ana")
    assert client.post("/sign-in/code", {"code": code_of(secret, later=1)}).headers["Location"] == "/sign-in"
    account(people.enable_account, "ana")
    assert not is_in(client)


def test_a_password_that_was_replaced_meanwhile_opens_nothing() -> None:
    secret = add_app(signed_in())
    client = half_in()
    account(people.reset_account, "ana")
    assert client.post("/sign-in/code", {"code": code_of(secret, later=1)}).headers["Location"] == "/sign-in"
    assert not is_in(client)


def test_ones_own_password_is_not_tried_out_where_it_is_changed() -> None:
    client = signed_in()
    new = "correct horse 77 battery"
    tries = [
        client.post("/settings/you/password", {"old_password": "no", "new_password1": new, "new_password2": new})
        for _ in range(11)
    ]
    assert [one.status_code for one in tries] == [422] * 10 + [429]
    right = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
    assert client.post("/settings/you/password", right).status_code == 429
    assert client.post("/sign-in/again", {"password": PASSWORD}).status_code == 429  # they are counted together


@pytest.mark.parametrize("credential", CREDENTIALS)
def test_what_is_no_passkey_is_a_wrong_answer(credential: str) -> None:
    stranger, client = Client(headers={"host": "localhost"}), signed_in()
    assert add_key(client, SoftwareKey()).status_code == 302
    stranger.get("/sign-in/passkey")
    assert stranger.post("/sign-in/passkey", {"credential": credential}).status_code == 422
    assert half_in().post("/sign-in/code", {"credential": credential}).status_code == 422
    assert client.post("/sign-in/again/passkey", {"credential": credential}).status_code == 422
    client.get("/settings/you/sign-in/keys/add")
    assert client.post("/settings/you/sign-in/keys/add", {"credential": credential}).status_code == 422


@pytest.mark.parametrize("address", ["new", "{}/role", "{}/reset", "{}/enable"])
def test_nobody_is_let_in_by_who_has_not_signed_in_lately(ana: User, address: str, settings: Any) -> None:
    tom = create_account("tom", "viewer", environment="dev", password=PASSWORD)[0]
    client = signed_in()
    page = f"/settings/access/{address.format(tom.pk)}"
    assert client.get(page).status_code == 200
    settings.FRESH_SIGN_IN_S = -1
    assert client.get(page).headers["Location"].startswith("/sign-in/again")
    typed = {"reason": REASON, "name": "eve", "role": "admin", "where": "dev", "group": "", "key": "k-1"}
    late = client.post(page, typed)
    assert (late.status_code, "/sign-in/again" in late.content.decode()) == (403, True)
    assert not User.objects.filter(username="eve").exists()
    assert [one.role for one in RoleGrant.objects.filter(user=tom)] == [Role.VIEWER]
    assert not AgentKey.objects.exists()
    locked = client.get(f"/settings/access/{tom.pk}/disable")
    assert locked.status_code == 200  # to shut somebody out is not put off


def test_the_api_asks_for_the_same(settings: Any) -> None:
    client = signed_in()
    settings.FRESH_SIGN_IN_S = -1
    said = {"reason": REASON, "name": "eve", "role": "admin"}
    answer = client.post("/api/v1/accounts?environment=dev", json.dumps(said), "application/json")
    assert (answer.status_code, answer.json()["code"]) == (403, "sign_in_again")

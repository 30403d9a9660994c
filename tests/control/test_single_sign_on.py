"""Single sign-on against a provider that is a process of its own: who comes in, with which roles, and who does not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import requests
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client

from recovery_ops import single_sign_on
from recovery_ops.control.accounts import create_account
from recovery_ops.control.models import AuditEntry, RoleGrant
from recovery_ops.control.roles import Role, grants_of
from recovery_ops.environment import Misconfigured
from tests.oidc_provider import CLIENT_ID, CLIENT_SECRET
from tests.processes import ROOT

pytestmark = pytest.mark.django_db

ROLES = "sre=operator@prod, payments=responder@prod/payments, platform=admin, all staff=viewer@dev, sre=viewer@dev"
ANA = {"sub": "248289761001", "preferred_username": "ana", "email": "ana@example.com", "groups": ["sre", "payments"]}
Says = Callable[..., None]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The provider's address, and the file that says who is there."""
    people = tmp_path_factory.mktemp("provider") / "people.json"
    command = [sys.executable, "-m", "tests.oidc_provider", str(people)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), people
        process.kill()


@pytest.fixture
def says(running: tuple[str, Path], settings: Any) -> Says:
    """Set the console up for the provider; say who is there, and which lie it tells."""
    cache.clear()
    address, people = running
    settings.SINGLE_SIGN_ON = single_sign_on.provider(said(address))

    def say(lie: str = "", **changed: Any) -> None:
        people.write_text(json.dumps({"me": ANA | changed, "lie": lie}))

    say()
    return say


def said(issuer: str, **changed: str) -> dict[str, str]:
    """What the environment says of a provider."""
    usual = {"ISSUER": issuer, "CLIENT_ID": CLIENT_ID, "CLIENT_SECRET": CLIENT_SECRET, "NAME": "Acme", "ROLES": ROLES}
    return {f"RECOVERY_OPS_OIDC_{name}": value for name, value in (usual | changed).items()}


def come(client: Client, address: str = "/sign-in/with?next=/breakers") -> Any:
    """Go to the provider and come back, as a browser does; return the last answer of ours."""
    leaving = client.get(address)
    assert leaving.status_code == 302
    with closing(requests.get(leaving.headers["Location"], allow_redirects=False, timeout=5)) as answer:
        back = answer.headers["Location"].removeprefix("http://testserver")
    return client.get(back)


def test_somebody_comes_with_the_roles_of_their_groups(says: Says) -> None:
    client = Client()
    arrived = come(client)
    assert (arrived.status_code, arrived.headers["Location"]) == (302, "/breakers")
    ana = User.objects.get()
    assert (ana.username, ana.email, ana.has_usable_password()) == ("ana", "ana@example.com", False)
    held = grants_of(ana)
    assert held.by_environment == {"prod": Role.OPERATOR, "dev": Role.VIEWER}
    assert held.by_group == {("prod", "payments"): Role.RESPONDER}
    told = AuditEntry.objects.filter(environment="*").order_by("number")
    assert [(one.verb, one.object) for one in told] == [
        ("account.create", "ana"),
        ("account.groups", "ana"),
        ("account.sign_in", "ana"),
    ]


def test_roles_follow_the_groups_at_each_sign_in_and_what_a_person_gave_stays(says: Says) -> None:
    come(Client())
    ana = User.objects.get()
    RoleGrant.objects.create(user=ana, environment="lab", role="editor")
    says(groups=["platform"], preferred_username="ana.berg")
    come(Client())
    assert grants_of(User.objects.get()).by_environment == {"*": Role.ADMIN, "lab": Role.EDITOR}
    says(groups=[])
    come(Client())
    assert grants_of(User.objects.get()).by_environment == {"lab": Role.EDITOR}
    assert [entry.after["roles"] for entry in AuditEntry.objects.filter(verb="account.groups").order_by("number")] == [
        ["viewer@dev", "operator@prod", "responder@prod/payments"],
        ["admin@*"],
        [],
    ]


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        ("signature", "Invalid id_token"),
        ("issuer", "Invalid id_token"),
        ("audience", "Invalid id_token"),
        ("over", "Invalid id_token"),
        ("nonce", "the ID token is not for this sign-in"),
        ("person", "the provider told of somebody else"),
    ],
)
def test_who_is_vouched_for_by_a_lie_stays_outside(
    says: Says, lie: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    says(lie)
    client = Client()
    assert come(client).status_code == 403
    assert why in caplog.text
    assert client.get("/settings/you").status_code == 302
    assert not User.objects.exists()


def test_who_changes_their_mind_is_at_the_door_again(says: Says) -> None:
    says("denied")
    assert come(Client()).headers["Location"].endswith("/sign-in/with/cancelled")


def test_a_code_of_somebody_elses_browser_opens_nothing(says: Says) -> None:
    leaving = Client().get("/sign-in/with")
    with closing(requests.get(leaving.headers["Location"], allow_redirects=False, timeout=5)) as answer:
        back = answer.headers["Location"].removeprefix("http://testserver")
    victim = Client()
    assert victim.get(back).status_code == 403
    assert not User.objects.exists()


def test_who_is_in_no_group_of_ours_gets_no_account(says: Says) -> None:
    says(groups=["gardening"])
    arrived = come(Client())
    assert arrived.status_code == 403
    assert "None of your groups at Acme stands for a role here" in arrived.content.decode()
    assert not User.objects.exists()


def test_a_name_that_is_taken_is_not_taken_over(says: Says) -> None:
    create_account("ana", "admin")
    arrived = come(Client())
    assert arrived.status_code == 403
    assert "There is an account called ana here" in arrived.content.decode()
    assert grants_of(User.objects.get()).by_environment == {"*": Role.ADMIN}


def test_who_was_locked_out_stays_out(says: Says) -> None:
    come(Client())
    User.objects.update(is_active=False)
    client = Client()
    assert come(client).status_code == 403
    assert client.get("/settings/you").status_code == 302


def test_whoever_has_no_password_confirms_at_the_provider(says: Says) -> None:
    client = Client()
    come(client)
    page = client.get("/sign-in/again?next=/breakers").content.decode()
    assert "Continue with Acme" in page
    leaving = client.get("/sign-in/with?again=1&next=/settings/keys/new")
    assert "prompt=login" in leaving.headers["Location"]


def test_a_provider_that_is_away_is_said_so(settings: Any) -> None:
    settings.SINGLE_SIGN_ON = single_sign_on.provider(said("http://127.0.0.1:9"))
    answer = Client().get("/sign-in/with")
    assert answer.status_code == 503
    assert "Acme does not answer now" in answer.content.decode()
    settings.SINGLE_SIGN_ON = None
    assert Client().get("/sign-in/with").status_code == 404


@pytest.mark.parametrize(
    ("changed", "variable"),
    [
        ({"ISSUER": "http://login.example.com"}, "ISSUER"),
        ({"ISSUER": "login.example.com"}, "ISSUER"),
        ({"CLIENT_ID": ""}, "CLIENT_ID"),
        ({"CLIENT_SECRET": " "}, "CLIENT_SECRET"),
        ({"ROLES": "sre"}, "ROLES"),
        ({"ROLES": "sre=emperor"}, "ROLES"),
        ({"ROLES": "sre=viewer@"}, "ROLES"),
    ],
)
def test_what_is_set_up_wrong_is_said_at_the_start(changed: dict[str, str], variable: str) -> None:
    with pytest.raises(Misconfigured) as wrong:
        single_sign_on.provider(said("https://login.example.com") | said("https://login.example.com", **changed))
    assert wrong.value.variable == f"RECOVERY_OPS_OIDC_{variable}"

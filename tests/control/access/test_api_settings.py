"""Keys, accounts, the quarantine and one's own things by the API: what the pages do, by the same rules."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.test import Client

from events import keys
from events.keys import find_key
from events.models import AgentKey, Fact, Quarantine
from recovery_ops.control.access.account_services import create_account
from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.access.sign_in import sessions
from recovery_ops.control.core.audit_log import verify_chain
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.rules.roles import Role
from tests.support.api_client import Program
from tests.support.intake import mended, refused
from tests.support.pages import signed_in
from tests.support.told import untold

pytestmark = pytest.mark.django_db

PASSWORD = "a-long-password-of-ben"
WHY = {"reason": "the deployment of billing asks for it"}
BILLING = WHY | {"name": "billing", "scopes": ["ingest", "desired"]}


@pytest.fixture(autouse=True)
def _fresh_keys() -> None:
    keys.forget_keys()


@pytest.fixture
def program() -> Program:
    return Program("read", "act", "admin")


class Person:
    """Somebody who is signed in, at the API."""

    def __init__(self, role: Role, name: str = "ana", environment: str = "dev") -> None:
        self.client = signed_in(role, name, environment)
        self.user = User.objects.get(username=name)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        named = {one.replace("_", "-"): value for one, value in headers.items()}
        sent = "" if body is None else json.dumps(body)
        answer = self.client.generic(method, f"/api/v1/{path}", sent, "application/json", headers=named)
        return answer.status_code, answer.json()


def verbs() -> list[str]:
    done = AuditEntry.objects.filter(result=AuditEntry.OK).order_by("pk")
    return list(done.values_list("verb", flat=True))


# -- keys -------------------------------------------------------------------------------------------------------------
def test_a_key_is_made_and_told_once_replaced_and_revoked(program: Program) -> None:
    status, made = program.post("keys", BILLING | {"days": 30}, idempotency_key="k-1")
    assert (status, made["key"]["scopes"], made["key"]["standing"]) == (201, ["ingest", "desired"], "never used")
    assert find_key(made["token"]) is not None
    status, again = program.post("keys", BILLING | {"days": 30}, idempotency_key="k-1")
    assert (status, again["was_already"], again["token"]) == (200, True, None)
    at = f"keys/{made['key']['prefix']}"
    status, replaced = program.post(f"{at}/rotate", WHY | {"overlap_s": 60})
    assert (status, replaced["key"]["name"]) == (201, "billing")
    assert find_key(replaced["token"]) is not None
    status, revoked = program.post(f"{at}/revoke", WHY)
    assert (status, revoked["key"]["standing"], revoked["token"]) == (200, "revoked", None)
    assert program.post(f"{at}/revoke", WHY)[1]["was_already"] is True
    assert program.post(f"{at}/rotate", WHY)[1]["code"] == "key_over"
    assert verbs() == ["key.create", "key.rotate", "key.revoke"]
    entry = AuditEntry.objects.get(verb="key.create")
    assert (entry.actor_kind, entry.channel, entry.reason) == ("key", "api", WHY["reason"])
    assert verify_chain("dev").is_whole


def test_no_list_and_no_log_tells_what_opens_anything(program: Program) -> None:
    token = program.post("keys", BILLING)[1]["token"]
    told = [program.get("keys"), program.get("audit")]
    assert token not in json.dumps(told)
    assert token.rpartition("_")[2] not in json.dumps(told)
    assert {one["name"] for one in told[0][1]["keys"]} == {"billing", "deployer"}


def test_a_key_that_is_tried_is_not_made_and_its_secret_not_told(program: Program) -> None:
    status, tried = program.post("keys", BILLING | {"dry_run": True})
    assert (status, tried["dry_run"], tried["token"], tried["key"]["prefix"]) == (200, True, None, None)
    assert AgentKey.objects.filter(name="billing").count() == 0
    prefix = program.post("keys", BILLING)[1]["key"]["prefix"]
    assert program.post(f"keys/{prefix}/revoke", WHY | {"dry_run": True})[0] == 200
    assert AgentKey.objects.get(prefix=prefix).revoked_at is None
    assert verbs() == ["key.create"]


def test_a_key_that_somebody_changed_meanwhile_is_not_changed_blindly(program: Program) -> None:
    prefix = program.post("keys", BILLING)[1]["key"]["prefix"]
    tag = program.raw(f"keys/{prefix}")["ETag"]
    assert program.post(f"keys/{prefix}/rotate", WHY, if_match=tag)[0] == 201
    status, problem = program.post(f"keys/{prefix}/revoke", WHY, if_match=tag)
    assert (status, problem["code"]) == (409, "stale")
    assert untold(problem["detail"], "deployer") == []
    assert problem["changes"][0]["verb"] == "key.rotate"
    newer = program.raw(f"keys/{prefix}")["ETag"]
    assert program.post(f"keys/{prefix}/revoke", WHY, if_match=newer)[0] == 200


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["all"]}, "scopes"),
        ({"scopes": [{}]}, "scopes"),
        ({"name": " "}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"days": 0}, "days"),
        ({"days": "ten"}, "days"),
        ({"reason": "x" * 501}, "reason"),
    ],
)
def test_a_key_that_makes_no_sense_is_refused_by_its_field(
    program: Program, changed: dict[str, Any], field: str
) -> None:
    status, problem = program.post("keys", BILLING | changed)
    assert (status, list(problem["fields"])) == (400, [field])
    assert verbs() == []


def test_a_key_of_other_scopes_makes_no_key_and_no_account() -> None:
    other = Program("read", "act", "settings")
    account = WHY | {"name": "li", "role": "admin"}
    for path, body in (("keys", BILLING), ("accounts", account), (f"keys/{other.key.prefix}/revoke", WHY)):
        assert other.post(path, body)[0] == 403
    assert verbs() == []
    assert Program("read").get("keys")[0] == 200


def test_a_key_rules_its_own_environment_and_no_other(program: Program) -> None:
    other, _ = keys.create_key("theirs", ["ingest"], "prod")
    assert program.post(f"keys/{other.prefix}/revoke", WHY)[0] == 404
    assert [one["name"] for one in program.get("keys")[1]["keys"]] == ["deployer"]
    assert program.post("accounts", WHY | {"name": "li", "role": "admin", "everywhere": True})[0] == 403


def test_a_person_makes_a_key_only_after_a_fresh_sign_in(monkeypatch: pytest.MonkeyPatch) -> None:
    ana = Person(Role.ADMIN)
    prefix = ana.send("POST", "keys", BILLING)[1]["key"]["prefix"]
    monkeypatch.setattr(sessions, "clock", lambda: time.time() + 2 * 3600)
    for path, body in (("keys", BILLING), (f"keys/{prefix}/rotate", WHY)):
        status, problem = ana.send("POST", path, body)
        assert (status, problem["code"]) == (403, "sign_in_again")
    assert ana.send("POST", f"keys/{prefix}/revoke", WHY)[0] == 200, "to shut somebody out waits for nobody"
    assert Person(Role.APPROVER, "ben").send("POST", "keys", BILLING)[0] == 403


# -- people -----------------------------------------------------------------------------------------------------------
def test_an_admin_lets_somebody_in_gives_and_takes_roles(program: Program) -> None:
    status, made = program.post("accounts", WHY | {"name": "li", "role": "viewer"}, idempotency_key="a-1")
    assert (status, made["account"]["role"], made["account"]["may_sign_in"]) == (201, "viewer", True)
    assert Client().login(username="li", password=made["password"])
    again = program.post("accounts", WHY | {"name": "li", "role": "viewer"}, idempotency_key="a-1")[1]
    assert (again["was_already"], again["password"]) == (True, None)
    at = f"accounts/{made['account']['number']}"
    tag = program.raw(at)["ETag"]
    role = WHY | {"role": "operator", "group": "payments"}
    assert program._send("PUT", f"{at}/role", role, {"If-Match": tag})[1]["account"]["groups"] == [
        "operator for payments"
    ]
    status, problem = program._send("PUT", f"{at}/role", WHY | {"role": "editor"}, {"If-Match": tag})
    assert (status, problem["code"], problem["changes"][0]["verb"]) == (409, "stale", "account.grant")
    assert program._send("DELETE", f"{at}/role", WHY | {"group": "payments"}, {})[1]["account"]["groups"] == []
    assert program._send("DELETE", f"{at}/role", WHY, {})[1]["account"]["role"] is None
    assert program.get(at)[0] == 404, "without a role here it is another environment's business"
    assert verbs() == ["account.create", "account.grant", "account.take", "account.take"]


def test_what_is_tried_makes_no_account_and_tells_no_password(program: Program) -> None:
    status, tried = program.post("accounts", WHY | {"name": "li", "role": "viewer", "dry_run": True})
    assert (status, tried["password"], tried["account"]["number"]) == (200, None, None)
    assert not User.objects.filter(username="li").exists()


def test_a_whole_account_is_for_admins_of_everything(program: Program) -> None:
    number = program.post("accounts", WHY | {"name": "li", "role": "viewer"})[1]["account"]["number"]
    here, root = Person(Role.ADMIN), Person(Role.ADMIN, "root", "*")
    for verb in ("reset", "disable", "enable"):
        assert program.post(f"accounts/{number}/{verb}", WHY)[0] == 403
        assert here.send("POST", f"accounts/{number}/{verb}", WHY)[0] == 403
    status, reset = root.send("POST", f"accounts/{number}/reset", WHY)
    assert status == 200
    assert Client().login(username="li", password=reset["password"])
    assert root.send("POST", f"accounts/{number}/disable", WHY)[1]["account"]["may_sign_in"] is False
    assert not User.objects.get(username="li").is_active
    assert root.send("POST", f"accounts/{number}/enable", WHY)[1]["account"]["may_sign_in"] is True
    own = root.send("POST", f"accounts/{root.user.pk}/disable", WHY)[1]
    assert own["code"] == "own_account"


def test_whom_another_environment_lets_in_is_not_told(program: Program) -> None:
    Person(Role.VIEWER, "theirs", "prod")
    Person(Role.VIEWER, "ours")
    assert [one["name"] for one in program.get("accounts")[1]["accounts"]] == ["ours"]
    assert program.get(f"accounts/{User.objects.get(username='theirs').pk}")[0] == 404
    root = Person(Role.ADMIN, "root", "*")
    assert {one["name"] for one in root.send("GET", "accounts")[1]["accounts"]} == {"ours", "theirs", "root"}


# -- the quarantine ---------------------------------------------------------------------------------------------------
def test_what_was_set_aside_is_listed_taken_in_again_and_dropped(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused(3)
    found = program.get("quarantine")[1]
    assert (found["total"], len(found["lines"])) == (3, 3)
    newest = found["lines"][0]["number"]
    assert program.post("quarantine/replay", WHY)[1] | {"was_already": 0} == {
        "was_already": 0,
        "dry_run": False,
        "stored": 0,
        "settled": 0,
        "left": 3,
    }
    mended(monkeypatch)
    tried = program.post("quarantine/replay", WHY | {"dry_run": True})[1]
    assert (tried["stored"], Quarantine.objects.count(), Fact.objects.count()) == (3, 3, 0)
    for _ in range(2):
        done = program.post("quarantine/replay", WHY | {"lines": [newest]}, idempotency_key="q-1")[1]
        assert done["settled"] == 1
    assert (Quarantine.objects.count(), Fact.objects.count()) == (2, 1)
    assert program.post("quarantine/drop", WHY)[1]["settled"] == 2
    assert Quarantine.objects.count() == 0
    assert verbs() == ["quarantine.replay", "quarantine.replay", "quarantine.drop"]


def test_all_lines_are_dropped_only_by_who_has_seen_the_newest(program: Program) -> None:
    refused(1)
    tag = program.raw("quarantine")["ETag"]
    refused(1)
    status, problem = program.post("quarantine/drop", WHY, if_match=tag)
    assert (status, problem["code"], Quarantine.objects.count()) == (409, "stale", 2)
    assert program.post("quarantine/drop", WHY, if_match=program.raw("quarantine")["ETag"])[0] == 200


@pytest.mark.parametrize("lines", [[], ["1"], [0], [2**70], list(range(1, 1002))])
def test_lines_that_are_none_are_refused(program: Program, lines: list[Any]) -> None:
    status, problem = program.post("quarantine/drop", WHY | {"lines": lines})
    assert (status, list(problem["fields"])) == (400, ["lines"])


def test_the_quarantine_takes_the_role_that_the_page_asks_for() -> None:
    refused(1)
    assert Person(Role.RESPONDER).send("POST", "quarantine/drop", WHY)[0] == 403
    assert Program("read").post("quarantine/drop", WHY)[0] == 403
    assert Quarantine.objects.count() == 1


# -- one's own --------------------------------------------------------------------------------------------------------
def test_everybody_says_where_they_are_written_to(program: Program) -> None:
    ben = Person(Role.VIEWER, "ben")
    status, done = ben.send("PATCH", "you", WHY | {"email": "ben@example.org"})
    assert (status, done["you"]["email"]) == (200, "ben@example.org")
    assert ben.send("PATCH", "you", WHY | {"email": "ben@example.org"})[1]["was_already"] is True
    assert set(ben.send("PATCH", "you", WHY | {"email": "no address"})[1]["fields"]) == {"email"}
    assert ben.send("PATCH", "you", WHY | {"email": "", "dry_run": True})[0] == 200
    assert User.objects.get(username="ben").email == "ben@example.org"
    entry = AuditEntry.objects.get(verb="account.email")
    assert "example.org" not in str(entry.after)
    assert program.get("you")[1]["code"] == "not_a_person"


def test_sessions_are_listed_and_ended() -> None:
    create_account("ben", "viewer", password=PASSWORD)
    ben, phone = Person(Role.VIEWER, "ben"), Client()
    for client in (ben.client, phone):
        client.logout()
        client.post("/sign-in", {"username": "ben", "password": PASSWORD})
    listed = ben.send("GET", "you/sessions")[1]["sessions"]
    assert [one["is_this"] for one in listed] == [True, False]
    assert ben.send("POST", "you/sessions/end", WHY | {"dry_run": True})[1]["ended"] == 1
    for number in (None, "1", 10**25, -1, True):
        assert ben.send("POST", "you/sessions/end", WHY | {"session": number})[0] in (200, 400)
        assert UserSession.objects.count() == 2, number
    assert ben.send("POST", "you/sessions/end", WHY | {"session": listed[0]["number"]})[1]["ended"] == 0, "it asks"
    assert ben.send("POST", "you/sessions/end", WHY | {"session": listed[1]["number"]})[1]["ended"] == 1
    assert phone.get("/").status_code == 302
    assert ben.client.get("/").status_code == 200
    assert ben.send("POST", "you/sessions/end", WHY)[1] == {"was_already": True, "dry_run": False, "ended": 0}
    assert verbs().count("account.sign_out") == 1


def test_a_role_of_a_group_is_told_apart(program: Program) -> None:
    ana = Person(Role.VIEWER)
    RoleGrant.objects.create(user=ana.user, environment="prod", role=Role.ADMIN)
    told = program.get(f"accounts/{ana.user.pk}")[1]["account"]
    assert (told["role"], told["elsewhere"]) == ("viewer", None)

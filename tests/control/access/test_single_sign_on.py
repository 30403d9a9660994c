"""Single sign-on against a provider that is a process of its own: who comes in, with which roles, and who does not."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from recovery_ops.control.access.account_services import create_account
from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.access.selectors import grants_of
from recovery_ops.control.access.sign_in import allauth_adapters, proxies
from recovery_ops.control.access.sign_in.oidc_discovery import Finding
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.notifications import transport
from recovery_ops.control.notifications.transport import Unreached
from recovery_ops.rules.roles import Role
from recovery_ops.server import oidc_environment as single_sign_on
from recovery_ops.server.environment import Misconfigured
from tests.support.actions import REASON, small_fleet
from tests.support.api_client import Program
from tests.support.html import Shown
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET
from tests.support.pages import signed_in, text_of
from tests.support.processes import ROOT
from tests.support.sign_in import is_in

pytestmark = pytest.mark.django_db

ROLES = "sre=operator@prod, payments=responder@prod/payments, platform=admin, all staff=viewer@dev, sre=viewer@dev"
ANA = {"sub": "248289761001", "preferred_username": "ana", "email": "ana@example.com", "groups": ["sre", "payments"]}
Says = Callable[..., None]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The provider's address, and the file that says who is there."""
    people = tmp_path_factory.mktemp("provider") / "people.json"
    command = [sys.executable, "-m", "tests.support.oidc_provider", str(people)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), people
        process.kill()


@pytest.fixture
def says(running: tuple[str, Path], settings: Any) -> Says:
    """Set the console up for the provider; say who is there, and which lie it tells."""
    address, people = running
    settings.SINGLE_SIGN_ON = single_sign_on.provider(said(address))

    def say(lie: str = "", ago_s: int = 0, **changed: Any) -> None:
        people.write_text(json.dumps({"me": ANA | changed, "lie": lie, "ago_s": ago_s}))

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
    return back_from(leaving, client)


def back_from(leaving: Any, client: Client) -> Any:
    """Be at the provider and come back with `client`; return our answer."""
    with closing(requests.get(leaving.headers["Location"], allow_redirects=False, timeout=5)) as answer:
        return client.get(answer.headers["Location"].removeprefix("http://testserver"))


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
        ("signature", "OAuth2Error"),
        ("issuer", "OAuth2Error"),
        ("audience", "OAuth2Error"),
        ("over", "OAuth2Error"),
        ("nonce", "other_sign_in"),
        ("person", "other_person"),
        ("later", "later_than_now"),
        ("words", "no_time"),
    ],
)
def test_who_is_vouched_for_by_a_lie_stays_outside(
    says: Says, lie: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    says(lie)
    client = Client()
    assert come(client).status_code == 403
    [error] = [next(iter(one.args)) for one in caplog.records if one.name == allauth_adapters.__name__ and one.args]
    assert getattr(error, "code", type(error).__name__) == why
    assert client.get("/settings/you").status_code == 302
    assert not User.objects.exists()


@pytest.mark.parametrize("subject", ["5" * 192, "5" * 5000, "", None, 5, ["5"]])
def test_subject_that_is_no_name_opens_nothing(says: Says, subject: object) -> None:
    says(sub=subject)
    client = Client(raise_request_exception=False)
    assert come(client).status_code == 403
    assert not User.objects.exists()


@pytest.mark.parametrize("lie", ["one of several", "several", "party", "none", "hmac", "no kid", "discovery"])
def test_token_of_wrong_client_or_algorithm_opens_nothing(says: Says, lie: str) -> None:
    client = Client()
    leaving = client.get("/sign-in/with?next=/breakers")
    says(lie)
    assert back_from(leaving, client).status_code == 403
    assert not User.objects.exists()


def test_token_of_several_clients_opens_for_its_party(says: Says) -> None:
    says("shared")
    client = Client()
    come(client)
    assert is_in(client)


def test_token_of_earlier_sign_in_opens_nothing(says: Says) -> None:
    come(Client())
    says("replay")
    client = Client()
    assert come(client).status_code == 403
    assert not is_in(client)


def test_provider_with_another_issuer_is_left_alone(says: Says) -> None:
    says("discovery")
    assert Client().get("/sign-in/with").status_code == 403


def test_who_changes_their_mind_is_at_the_door_again(says: Says) -> None:
    says("denied")
    assert come(Client()).headers["Location"].endswith("/sign-in/with/cancelled")


def test_a_code_of_somebody_elses_browser_opens_nothing(says: Says) -> None:
    victim = Client()
    assert back_from(Client().get("/sign-in/with"), victim).status_code == 403
    assert not User.objects.exists()


def test_who_is_in_no_group_of_ours_gets_no_account(says: Says) -> None:
    says(groups=["gardening"])
    arrived = come(Client())
    assert arrived.status_code == 403
    assert Shown(arrived).values("refused") == ["no_role"]
    assert not User.objects.exists()


@pytest.mark.parametrize("name", ["ana", "Ana", "\uff41na", "\u0430na", "ana.", " ana "])
def test_a_name_that_is_taken_is_not_taken_over(says: Says, name: str) -> None:
    create_account("ana", "admin")
    says(preferred_username=name)
    client = Client()
    arrived = come(client)
    assert arrived.status_code == 403
    assert Shown(arrived).values("refused") == ["taken"]
    assert not is_in(client)
    assert grants_of(User.objects.get()).by_environment == {"*": Role.ADMIN}


def test_email_of_local_account_takes_nothing_over(says: Says) -> None:
    local, _ = create_account("ada", "admin")
    User.objects.update(email=ANA["email"])
    says(email_verified=True)
    client = Client()
    come(client)
    assert client.session["_auth_user_id"] == str(User.objects.get(username="ana").pk)
    assert not SocialAccount.objects.filter(user=local).exists()


def test_email_that_names_local_account_takes_nothing_over(says: Says) -> None:
    create_account("Ana@Example.com", "admin")
    says(preferred_username="")
    assert come(Client()).status_code == 403
    assert not SocialAccount.objects.exists()


def test_changed_name_at_provider_stays_same_account(says: Says) -> None:
    create_account("root", "admin")
    come(Client())
    says(preferred_username="root", email="root@example.com")
    client = Client()
    come(client)
    assert client.session["_auth_user_id"] == str(User.objects.get(username="ana").pk)


def test_second_person_with_same_name_stays_outside(says: Says) -> None:
    come(Client())
    says(sub="another person")
    assert come(Client()).status_code == 403
    assert SocialAccount.objects.get().uid == ANA["sub"]


def test_group_removed_ends_roles_of_open_sessions(says: Says) -> None:
    """At once where the person comes again, in any browser; else when the last word of the provider is too old."""
    small_fleet(environment="prod")
    first, second = Client(), Client()
    come(first)
    assert sees_prod(first)
    says(groups=["all staff"])
    come(second)
    assert not sees_prod(first)


def test_roles_of_groups_end_without_provider(says: Says, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    small_fleet(environment="prod")
    client = Client()
    come(client)
    come(client)
    now = timezone.now()
    own = Client()  # who has a passkey here needs no provider
    for later_s, expected in ((-60, True), (60, False)):
        moment = now + timedelta(seconds=settings.SESSION_LONGEST_S + later_s)
        monkeypatch.setattr(timezone, "now", lambda moment=moment: moment)
        own.force_login(User.objects.get())
        assert sees_prod(own) is expected
        assert bool(Program("read", environment="prod").get("accounts")[1]["accounts"]) is expected
    come(own)
    assert sees_prod(own)


def sees_prod(client: Client) -> bool:
    return client.get("/breakers?environment=prod").status_code == 200


def test_who_was_locked_out_stays_out(says: Says) -> None:
    come(Client())
    User.objects.update(is_active=False)
    client = Client()
    assert come(client).status_code == 403
    assert client.get("/settings/you").status_code == 302


def test_whoever_has_no_password_confirms_at_the_provider(says: Says) -> None:
    client = Client()
    come(client)
    page = Shown(client.get("/sign-in/again?next=/breakers"))
    assert any(link.startswith("/sign-in/with?again=1") for link in page.links)
    leaving = client.get("/sign-in/with?again=1&next=/settings/keys/new")
    assert "prompt=login" in leaving.headers["Location"]


AGAIN = "/sign-in/with?again=1&next=/settings/keys/new"
HOURS_AGO_S = 5 * 3600
NEEDS_FRESH = "/breakers/*/trip", "/settings/you/sign-in/app", "/settings/you/sign-in/keys/add"


def is_taken_for_fresh(client: Client) -> bool:
    """Whether all that asks for a fresh sign-in is open: acts on every breaker, and means of one's own to sign in."""
    answers = [client.get(f"{path}?environment=prod") for path in NEEDS_FRESH]
    sent = [one.headers.get("Location", "").startswith("/sign-in/again") for one in answers]
    assert all(sent) or [one.status_code for one in answers] == [200] * len(answers)
    trip = client.post("/api/v1/breakers/*/trip?environment=prod", {"reason": REASON}, "application/json")
    assert (trip.json().get("code") == "sign_in_again") == all(sent)
    return not any(sent)


def test_who_typed_their_password_at_the_provider_long_ago_is_in_but_not_fresh(says: Says) -> None:
    small_fleet(environment="prod")
    says(ago_s=HOURS_AGO_S)
    client = Client()
    assert come(client).headers["Location"] == "/breakers"
    assert client.get("/breakers?environment=prod").status_code == 200
    assert not is_taken_for_fresh(client)
    assert come(client, AGAIN).headers["Location"] == "/settings/keys/new"
    assert is_taken_for_fresh(client)


def test_who_types_it_now_is_fresh_at_once(says: Says) -> None:
    small_fleet(environment="prod")
    client = Client()
    come(client)
    assert is_taken_for_fresh(client)


@pytest.mark.parametrize("lie", ["old time", "no time"])
def test_a_provider_that_does_not_ask_again_makes_nobody_fresh(says: Says, lie: str) -> None:
    small_fleet(environment="prod")
    says(ago_s=HOURS_AGO_S)
    client = Client()
    come(client)
    says(lie, ago_s=HOURS_AGO_S)
    refused = come(client, AGAIN)
    assert refused.status_code == 403
    assert Shown(refused).values("refused") == ["not_fresh"]
    assert client.get("/breakers?environment=prod").status_code == 200, "who was in stays in"
    assert not is_taken_for_fresh(client)


def test_a_provider_that_never_says_when_makes_nobody_fresh(says: Says) -> None:
    small_fleet(environment="prod")
    says("no time")
    client = Client()
    assert come(client).status_code == 302
    assert not is_taken_for_fresh(client)


def test_the_provider_is_asked_when_somebody_signed_in_and_for_whom_it_is_too_long_ago(
    says: Says, settings: Any
) -> None:
    asked = parse_qs(urlsplit(Client().get("/sign-in/with").headers["Location"]).query)
    assert (asked["max_age"], asked.get("prompt")) == ([str(settings.SESSION_LONGEST_S)], None)
    client = Client()
    come(client)
    asked = parse_qs(urlsplit(client.get(AGAIN).headers["Location"]).query)
    assert (asked["max_age"], asked["prompt"]) == ([str(settings.FRESH_SIGN_IN_S)], ["login"])


def test_a_provider_that_is_away_is_said_so(settings: Any) -> None:
    settings.SINGLE_SIGN_ON = single_sign_on.provider(said("http://127.0.0.1:9"))
    answer = Client().get("/sign-in/with")
    assert answer.status_code == 503
    assert Shown(answer).values("refused") == ["provider_away"]
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


def looked_at(admin: Client) -> tuple[str, dict[str, Finding]]:
    """Whether people can come from the provider, and what was found; the page shows each of it."""
    page = admin.post("/settings/access/issuer")
    return Shown(page).one("fitness").data["fitness"], findings_of(page)


def findings_of(page: Any) -> dict[str, Finding]:
    """What was found, by what was looked at; the page shows each of it."""
    found = {one.what: one for one in page.context["findings"]}
    shown = text_of(page)
    assert all(one.words in shown for one in found.values())
    return found


def test_the_issuer_is_tested_and_what_is_wrong_is_said(
    says: Says, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = signed_in(Role.ADMIN)
    page = Shown(admin.get("/settings/access/issuer"))
    assert "test-title" in page.ids
    assert page.values("fitness") == [], "nothing was tested yet"
    fitness, found = looked_at(admin)
    assert (fitness, found["keys"].is_good) == ("fit", True)
    assert "http://127.0.0.1" in found["keys"].words
    address = settings.SINGLE_SIGN_ON.issuer
    settings.SINGLE_SIGN_ON = single_sign_on.provider(said(f"{address}/elsewhere"))
    fitness, found = looked_at(admin)
    assert (fitness, [*found], found["discovery"].is_good) == ("unfit", ["discovery"], False)
    assert "404" in found["discovery"].words
    settings.SINGLE_SIGN_ON = single_sign_on.provider(said("http://localhost:1"))
    fitness, found = looked_at(admin)
    assert (fitness, [*found], found["discovery"].is_good) == ("unfit", ["discovery"], False)
    assert "404" not in found["discovery"].words
    asked = transport.get

    def lying(url: str, *, is_known: bool, most: int) -> transport.Answer:
        told = {
            "issuer": "https://other.example\ud800",
            "token_endpoint": "https://[x",
            "jwks_uri": "https://169.254.169.254/keys",
        }
        return (
            transport.Answer(status=200, headers={}, text=json.dumps(told))
            if is_known
            else asked(url, is_known=False, most=most)
        )

    monkeypatch.setattr(transport, "get", lying)
    fitness, found = looked_at(admin)
    assert (fitness, found["discovery"].is_good) == ("unfit", True)
    assert [found[one].is_good for one in ("issuer", "token_endpoint", "keys")] == [False, False, False]
    assert "https://other.example" in found["issuer"].words
    assert "link-local" in found["keys"].words
    assert signed_in(Role.OPERATOR, "bob").post("/settings/access/issuer").status_code == 403


class _Proxy(BaseHTTPRequestHandler):
    """Answers for the provider, whom it would have to reach; `asked` keeps the addresses and what came with them."""

    asked: ClassVar[list[tuple[str, str]]] = []

    def log_message(self, *words: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Proxy-Authorization", "")))
        told = {"issuer": "http://localhost:1", "jwks_uri": "http://localhost:1/keys", "keys": [{}]}
        body = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_the_issuer_is_asked_through_the_proxy_of_the_environment(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody listens at the provider's own address: only the proxy reaches it, for the test and for signing in."""
    settings.SINGLE_SIGN_ON = single_sign_on.provider(said("http://localhost:1"))
    for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    _Proxy.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Proxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"127.0.0.1:{server.server_port}"
        monkeypatch.setenv("http_proxy", f"http://ana:secret@{place}")
        page = signed_in(Role.ADMIN).post("/settings/access/issuer")
        server.shutdown()
    found = findings_of(page)
    assert (found["discovery"].is_good, found["keys"].is_good) == (True, True)
    assert place in found["discovery"].words
    assert "http://localhost:1/keys" in found["keys"].words
    assert "secret" not in text_of(page)
    assert [path for path, _ in _Proxy.asked] == [
        "http://localhost:1/.well-known/openid-configuration",
        "http://localhost:1/keys",
    ]
    assert all(came.startswith("Basic ") for _, came in _Proxy.asked)
    fitness, found = looked_at(signed_in(Role.ADMIN, "eve"))
    assert (fitness, [*found], found["discovery"].is_good) == ("unfit", ["discovery"], False)
    assert place in found["discovery"].words


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 7\r\n\r\nnotgzip",
        b"HTTP/1.1 200 OK\r\nContent-Length: 700\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}",
    ],
    ids=["no gzip", "cut short", "no chunk"],
)
def test_a_proxy_that_answers_nonsense_is_told_as_out_of_reach(monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with listening.accept()[0] as asking:
                asking.recv(65_536)
                asking.sendall(said)

        for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{listening.getsockname()[1]}")
        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(Unreached):
            proxies.get("http://idp.example.com/x", is_known=True, most=1000)

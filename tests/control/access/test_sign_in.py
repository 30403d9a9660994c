"""The door: passwords, codes, keys and passkeys; tries that are held back; sessions with bounds; fresh sign-ins."""

from __future__ import annotations

import io
import re
import time
from html import escape
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from events.models import AgentKey
from recovery_ops.control.access.account_services import create_account
from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.access.selectors import grants_of
from recovery_ops.control.access.sign_in import sessions
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.core.audit_log import verify_chain
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.rules.roles import Role
from tests.support.html import Shown
from tests.support.passkeys import SoftwareKey
from tests.support.sign_in import NAME, PASSWORD, add_app, add_key, code_of, is_in, json_in, signed_in

pytestmark = pytest.mark.django_db


REASON = "the provider answers 529 to everyone"
LOCKED_OUT = "the provider is away and we are locked out"
TABLET = "<b>A tablet</b>"
TOO_MANY = "too_many_login_attempts"


@pytest.fixture
def ana() -> User:
    return create_account("ana", "admin", password=PASSWORD)[0]


@pytest.fixture
def client(ana: User) -> Client:
    """A browser in which ana has just signed in, by password."""
    return signed_in()


def codes(answer: Any) -> set[str]:
    """What is wrong with a form, by the codes of its errors."""
    return {one.code for errors in answer.context["form"].errors.as_data().values() for one in errors}


def verbs() -> list[str]:
    return list(AuditEntry.objects.filter(environment="*").order_by("number").values_list("verb", flat=True))


# -- second factors ---------------------------------------------------------------------------------------------------


def test_with_an_app_a_password_alone_opens_nothing(client: Client, ana: User) -> None:
    secret = add_app(client)
    other = Client()
    half = other.post("/sign-in", NAME | {"next": "/breakers"})
    assert half.headers["Location"] == "/sign-in/code"
    assert not is_in(other)
    assert "Code" in other.get("/sign-in/code").content.decode()
    wrong = other.post("/sign-in/code", {"code": "000000"})
    assert wrong.status_code == 422
    assert codes(wrong) == {"incorrect_code"}
    assert not is_in(other)
    right = other.post("/sign-in/code", {"code": code_of(secret, later=1)})
    assert right.headers["Location"] == "/breakers"
    assert is_in(other)
    assert verbs() == ["account.create", "account.sign_in", "account.factor_add", "account.sign_in"]
    assert AuditEntry.objects.latest("number").after == {"how": ["mfa", "password"]}
    assert verify_chain("*").is_whole


def test_a_code_opens_once(client: Client) -> None:
    secret = add_app(client)
    first, second = Client(), Client()
    for one in (first, second):
        one.post("/sign-in", NAME)
        one.post("/sign-in/code", {"code": code_of(secret, later=1)})
    assert is_in(first)
    assert not is_in(second)


def test_recovery_codes_are_shown_once_and_open_once(client: Client) -> None:
    add_app(client)
    shown = client.get("/settings/you/sign-in/codes")
    codes = re.findall(
        r"^(?:<pre class=\"codes\">)?(\d{8})$", shown.content.decode().split("panel", 1)[1], re.MULTILINE
    )
    codes += re.findall(r'class="codes">(\d{8})', shown.content.decode())
    codes = sorted(set(codes))
    assert len(codes) == 10
    assert "no-store" in shown.headers["Cache-Control"]
    assert not any(code in client.get("/settings/you/sign-in/codes").content.decode() for code in codes)
    for expected in (True, False):
        other = Client()
        other.post("/sign-in", NAME)
        other.post("/sign-in/code", {"code": codes[0]})
        assert is_in(other) is expected
    client.post("/settings/you/sign-in/codes/new")
    assert verbs()[-1] == "account.factor_codes"
    other = Client()
    other.post("/sign-in", NAME)
    assert other.post("/sign-in/code", {"code": codes[1]}).status_code == 422


def test_pages_that_show_secrets_are_stored_nowhere(client: Client) -> None:
    app = "/settings/you/sign-in/app"
    shown = [client.get(app), client.post(app, {"code": "000000"}), client.get("/settings/you/sign-in/keys/add")]
    add_app(client)
    shown += [client.get("/settings/you/sign-in/codes"), client.post("/settings/you/sign-in/codes/new")]
    assert [answer.status_code for answer in shown] == [200, 422, 200, 200, 302]
    assert ["no-store" in answer.headers.get("Cache-Control", "") for answer in shown] == [True] * len(shown)


def test_secrets_of_factors_are_not_in_the_database_as_they_are(client: Client, settings: Any) -> None:
    secret = add_app(client)
    kept = str(list(Authenticator.objects.values()))
    assert secret not in kept
    assert secret not in str(list(AuditEntry.objects.values()))
    # A new key of the console opens what the old one closed, as long as that one is named.
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "another key " * 5
    other = Client()
    other.post("/sign-in", NAME)
    other.post("/sign-in/code", {"code": code_of(secret, later=1)})
    assert is_in(other)


def test_a_factor_is_removed_by_who_confirms_that_it_is_they(client: Client) -> None:
    add_app(client)
    assert client.post("/settings/you/sign-in/app/remove").status_code == 302
    assert not Authenticator.objects.exists()
    assert verbs()[-1] == "account.factor_remove"
    assert is_in(signed_in())


def test_a_key_is_the_second_factor_and_alone_a_passkey(client: Client, ana: User) -> None:
    key = SoftwareKey()
    assert add_key(client, key, passwordless="on").status_code == 302
    second = Client(headers={"host": "localhost"})
    assert second.post("/sign-in", NAME).headers["Location"] == "/sign-in/code"
    asked = json_in(second.get("/sign-in/code"))
    assert second.post("/sign-in/code", {"credential": key.get(asked)}).status_code == 302
    assert is_in(second)
    alone = Client(headers={"host": "localhost"})
    options = alone.get("/sign-in/passkey", headers={"accept": "application/json"}).json()["request_options"]
    answer = alone.post("/sign-in/passkey", {"credential": key.get(options), "next": "/breakers"})
    assert answer.headers["Location"] == "/breakers"
    assert is_in(alone)
    number = Authenticator.objects.get(type="webauthn").pk
    assert client.post(f"/settings/you/sign-in/keys/{number}/remove").status_code == 302
    assert not Authenticator.objects.exists()


@pytest.mark.parametrize("origin", ["https://console.example.evil", "http://evil.localhost", "https://localhost.evil"])
def test_a_key_that_was_used_elsewhere_opens_nothing_here(client: Client, origin: str) -> None:
    key = SoftwareKey()
    add_key(client, key, passwordless="on")
    key.origin = origin
    other = Client(headers={"host": "localhost"})
    options = other.get("/sign-in/passkey", headers={"accept": "application/json"}).json()["request_options"]
    answer = other.post("/sign-in/passkey", {"credential": key.get(options)})
    assert answer.status_code == 422
    assert answer.context["problem"]
    assert not is_in(other)


def test_key_of_subdomain_is_not_added(client: Client) -> None:
    assert add_key(client, SoftwareKey("http://evil.localhost")).status_code == 422
    assert not Authenticator.objects.exists()


@pytest.mark.parametrize("said", ["", "{}", "[]", '{"response": {}}', '{"response": {"userHandle": "AAAA"}}', "null"])
def test_a_passkey_that_is_none_is_refused_in_words(said: str) -> None:
    client = Client(headers={"host": "localhost"})
    client.get("/sign-in/passkey", headers={"accept": "application/json"})
    assert client.post("/sign-in/passkey", {"credential": said}).status_code == 422


def test_nobody_touches_the_factors_of_others(client: Client) -> None:
    add_key(client, SoftwareKey())
    number = Authenticator.objects.get(type="webauthn").pk
    create_account("eva", "admin", password=PASSWORD)
    eva = Client()
    eva.post("/sign-in", NAME | {"username": "eva"})
    assert eva.post(f"/settings/you/sign-in/keys/{number}/remove").status_code == 404
    assert Authenticator.objects.filter(pk=number).exists()


def test_where_a_second_factor_is_asked_of_everybody_nothing_opens_before_it(ana: User, settings: Any) -> None:
    settings.SECOND_FACTOR_REQUIRED = True
    client = signed_in()
    assert client.get("/breakers").headers["Location"] == "/settings/you/sign-in"
    assert client.get("/api/v1/status").status_code == 403
    assert client.get("/settings/you/sign-in").context["must_add"]
    add_app(client)
    assert not client.get("/settings/you/sign-in").context["must_add"]
    assert client.get("/breakers").status_code == 200


# -- tries ------------------------------------------------------------------------------------------------------------


def test_after_five_wrong_tries_also_the_right_one_waits(ana: User) -> None:
    client = Client()
    wrong = [client.post("/sign-in", NAME | {"password": "no"}) for _ in range(7)]
    assert [answer.status_code for answer in wrong] == [422] * 5 + [429] * 2
    assert [codes(answer) == {TOO_MANY} for answer in wrong] == [False] * 5 + [True] * 2
    assert codes(client.post("/sign-in", NAME)) == {TOO_MANY}
    assert not is_in(client)
    assert verbs() == ["account.create", "account.lock_out"]
    cache.clear()  # what five minutes do
    assert client.post("/sign-in", NAME).status_code == 302


def test_tries_at_names_that_nobody_has_are_held_back_and_not_written_down(ana: User) -> None:
    client = Client()
    answers = [client.post("/sign-in", {"username": f"nobody-{number}", "password": "no"}) for number in range(12)]
    assert codes(answers[-1]) == {TOO_MANY}
    assert verbs() == ["account.create"]


def test_codes_are_not_tried_out(client: Client) -> None:
    secret = add_app(client)
    other = Client()
    other.post("/sign-in", NAME)
    for _ in range(6):
        other.post("/sign-in/code", {"code": "000000"})
    answer = other.post("/sign-in/code", {"code": code_of(secret, later=1)})
    assert answer.status_code == 429
    assert codes(answer) == {TOO_MANY}


def test_passwords_can_be_left_to_those_who_break_glass(ana: User, settings: Any) -> None:
    settings.PASSWORD_SIGN_IN = False
    client = Client()
    answer = client.post("/sign-in", NAME)
    assert answer.status_code == 422
    assert codes(answer) == {"not_by_password"}
    name, password = broken_glass()
    assert client.post("/sign-in", {"username": name, "password": password}).status_code == 302
    assert is_in(client)


# -- sessions ---------------------------------------------------------------------------------------------------------


def test_sessions_are_listed_and_ended_one_by_one_or_all(client: Client, ana: User) -> None:
    phone = signed_in(REMOTE_ADDR="192.0.2.7", HTTP_USER_AGENT="A telephone")
    tablet = signed_in(HTTP_USER_AGENT=TABLET)
    page = client.get("/settings/you/sign-in").content.decode()
    assert "A telephone" in page
    assert "192.0.2.7" in page
    assert escape(TABLET) in page
    assert TABLET not in page
    assert page.count('name="session"') == len((phone, tablet)), "the one at hand is ended by signing out"
    [row] = [one for one in Shown(page).root.all() if one.tag in ("li", "tr") and "192.0.2.7" in one.text]
    client.post("/settings/you/sign-in/sessions/end", {"session": Shown(row).fields["session"]})
    assert [is_in(one) for one in (client, phone, tablet)] == [True, False, True]
    client.post("/settings/you/sign-in/sessions/end")
    assert [is_in(one) for one in (client, tablet)] == [True, False]
    assert [one.after for one in AuditEntry.objects.filter(verb="account.sign_out")] == [{"sessions": 1}] * 2


@pytest.mark.parametrize("number", ["9" * 25, "\uff11", "-1", "one"])
def test_unreadable_session_number_ends_none(client: Client, number: str) -> None:
    phone = signed_in()
    assert client.post("/settings/you/sign-in/sessions/end", {"session": number}).status_code == 404
    assert is_in(phone)


def test_nobody_ends_a_session_of_others(client: Client) -> None:
    create_account("eva", "admin", password=PASSWORD)
    eva = Client()
    eva.post("/sign-in", NAME | {"username": "eva"})
    page = client.get("/settings/you/sign-in").content.decode()
    assert "value=" in page
    for number in range(1, 5):
        eva.post("/settings/you/sign-in/sessions/end", {"session": str(number)})
    assert is_in(client)


class Clock:
    """The clock of sessions, which a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = time.time()
        monkeypatch.setattr(sessions, "clock", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_a_session_ends_when_nobody_is_there(clock: Clock, client: Client, settings: Any) -> None:
    for _ in range(3):
        clock.now += settings.SESSION_IDLE_S - 60
        assert is_in(client)
    clock.now += settings.SESSION_IDLE_S + 1
    assert not is_in(client)


def test_a_page_that_asks_by_itself_is_nobody(clock: Clock, client: Client, settings: Any) -> None:
    clock.now += settings.SESSION_IDLE_S - 60
    assert client.get("/breakers", headers={"x-fragment": "breakers"}).status_code == 200
    clock.now += settings.SESSION_IDLE_S - 60
    assert client.get("/breakers", headers={"x-fragment": "breakers"}).status_code == 302
    screen = signed_in()
    for _ in range(3):  # a screen on the wall is meant to be alone
        clock.now += settings.SESSION_IDLE_S - 60
        assert screen.get("/wallboard", headers={"x-fragment": "wallboard"}).status_code == 200


def test_a_session_ends_when_it_was_long_enough(clock: Clock, client: Client, settings: Any) -> None:
    settings.SESSION_LONGEST_S = 3 * settings.SESSION_IDLE_S
    for _ in range(3):
        assert is_in(client)
        clock.now += settings.SESSION_IDLE_S - 60
    assert is_in(client), "it is neither idle nor old"
    clock.now += 200
    assert not is_in(client)


def test_the_stored_session_ends_by_itself_so_that_streams_do_too(client: Client, settings: Any) -> None:
    left = Session.objects.get(pk=client.session.session_key).expire_date - timezone.now()
    assert settings.SESSION_IDLE_S - 60 < left.total_seconds() <= settings.SESSION_IDLE_S


def test_looking_at_pages_costs_no_write_more_than_once_a_minute(
    clock: Clock, client: Client, django_assert_max_num_queries: Any
) -> None:
    is_in(client)
    with django_assert_max_num_queries(4) as asked:
        is_in(client)
    assert not [one for one in asked.captured_queries if one["sql"].startswith(("UPDATE", "INSERT"))]


# -- fresh sign-ins ---------------------------------------------------------------------------------------------------


def trip_all(client: Client) -> Any:
    typed = {"reason": REASON, "expires_in_s": "3600", "confirm": "dev", "scope": "all", "seen": "0", "key": "k-1"}
    return client.post("/breakers/*/trip", typed)


def test_a_key_is_made_only_by_who_has_signed_in_lately(clock: Clock, client: Client, settings: Any) -> None:
    clock.now += settings.FRESH_SIGN_IN_S + 1
    asked = client.get("/settings/keys/new?environment=dev")
    assert asked.headers["Location"] == "/sign-in/again?next=%2Fsettings%2Fkeys%2Fnew%3Fenvironment%3Ddev"
    typed = {"name": "research", "scopes": ["ingest"], "reason": REASON}
    late = client.post("/settings/keys/new", typed)
    assert late.status_code == 403
    assert "/sign-in/again" in late.context["problem"]
    assert REASON in late.content.decode()
    assert not AgentKey.objects.exists()
    wrong = client.post(asked.headers["Location"], {"password": "no", "next": "/settings/keys/new"})
    assert wrong.status_code == 422
    again = client.post(asked.headers["Location"], {"password": PASSWORD, "next": "/settings/keys/new"})
    assert again.headers["Location"] == "/settings/keys/new"
    assert client.post("/settings/keys/new", typed).status_code == 200
    assert AgentKey.objects.get().name == "research"


@pytest.mark.usefixtures("known")
def test_every_breaker_is_tripped_only_by_who_has_signed_in_lately(clock: Clock, client: Client, settings: Any) -> None:
    assert client.get("/breakers/*/trip").status_code == 200
    clock.now += settings.FRESH_SIGN_IN_S + 1
    assert client.get("/breakers/*/trip").headers["Location"].startswith("/sign-in/again")
    assert client.get("/breakers/search_web/trip").status_code == 200
    assert trip_all(client).status_code == 403
    api = client.post(
        "/api/v1/breakers/*/trip", {"reason": REASON}, "application/json", headers={"x-csrftoken": "none"}
    )
    assert (api.status_code, api.json()["code"]) == (403, "sign_in_again")
    assert not Override.objects.exists()


def test_who_has_an_app_confirms_with_its_code(clock: Clock, client: Client, settings: Any) -> None:
    secret = add_app(client)
    clock.now += settings.FRESH_SIGN_IN_S + 1
    page = Shown(client.get("/sign-in/again?next=/settings/keys/new"))
    assert any(link.startswith("/sign-in/again/code") for link in page.links)
    answer = client.post("/sign-in/again/code?next=/settings/keys/new", {"code": code_of(secret, later=1)})
    assert answer.headers["Location"] == "/settings/keys/new"
    assert client.get("/settings/keys/new").status_code == 200


# -- broken glass -----------------------------------------------------------------------------------------------------


def broken_glass(*words: str) -> tuple[str, str]:
    said = io.StringIO()
    call_command("account", "break-glass", "--reason", LOCKED_OUT, *words, stdout=said)
    lines = said.getvalue().splitlines()
    return lines[0].split()[0], lines[-1]


def test_broken_glass_lets_an_admin_in_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    name, password = broken_glass("--hours", "2")
    client = Client()
    client.post("/sign-in", {"username": name, "password": password})
    assert is_in(client)
    user = User.objects.get()
    assert grants_of(user).by_environment == {"*": Role.ADMIN}
    entry = AuditEntry.objects.get(verb="account.break_glass")
    assert (entry.object, entry.reason) == (name, LOCKED_OUT)
    assert password not in str(list(AuditEntry.objects.values()))
    RoleGrant.objects.update(expires_at=timezone.now())  # what two hours do
    assert grants_of(user).by_environment == {}
    assert client.get("/breakers").status_code == 403


@pytest.mark.parametrize("words", [("--hours", "0"), ("--hours", "25"), ("--reason", "short")])
def test_glass_is_not_broken_without_a_reason_and_an_end(words: tuple[str, str]) -> None:
    with pytest.raises(CommandError):
        broken_glass(*words)
    assert not User.objects.exists()


def test_the_last_lasting_admin_is_not_demoted_because_glass_is_broken() -> None:
    create_account("root", "admin")
    broken_glass()
    with pytest.raises(CommandError):
        call_command("account", "grant", "root", "--role", "viewer")

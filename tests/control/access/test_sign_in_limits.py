"""Limits of sign-in: per account and per address, for all hosts, processes and restarts; codes that open once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import requests
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from recovery_ops.control.access.account_services import create_account
from recovery_ops.control.access.models import CacheEntry
from recovery_ops.control.access.services import accounts as people
from recovery_ops.control.core.models.audit import AuditEntry
from tests.support.concurrency import THREADS, at_once, engine
from tests.support.html import Shown
from tests.support.keys_and_people import account
from tests.support.otlp_server import Process
from tests.support.sign_in import NAME, PASSWORD, add_app, code_of, is_in, signed_in

__all__ = ["engine"]  # the fixture

pytestmark = pytest.mark.django_db

OF_ACCOUNT, OF_ADDRESS = 5, 10  # tries
WRONG, HELD_BACK = 422, 429


@pytest.fixture
def ana() -> User:
    return create_account("ana", "admin", password=PASSWORD)[0]


def tries(*said: dict[str, str], name: str = "ana", password: str = "no", address: str = "") -> list[int]:
    """What sign-ins with these headers are answered, each from this address, else from one of its own."""
    typed = {"username": name, "password": password}
    return [
        Client().post("/sign-in", typed, headers=headers, REMOTE_ADDR=address or f"192.0.2.{number}").status_code
        for number, headers in enumerate(said)
    ]


@pytest.mark.usefixtures("ana")
def test_account_limit_counts_across_hosts_and_ports() -> None:
    hosts = [{"host": f"{name}:{port}"} for port in (8000, 8001, 8002) for name in ("localhost", "127.0.0.1", "[::1]")]
    assert tries(*hosts) == [WRONG] * OF_ACCOUNT + [HELD_BACK] * (len(hosts) - OF_ACCOUNT)
    assert tries({"host": "testserver"}, password=PASSWORD) == [HELD_BACK]


@pytest.mark.usefixtures("ana")
def test_account_limit_counts_every_spelling_together() -> None:
    spellings = ["ana", "Ana", "ANA", "\uff41na", "ana", " ana", "aNa"]
    answers = [tries({}, name=name) for name in spellings]
    assert answers == [[WRONG]] * OF_ACCOUNT + [[HELD_BACK]] * (len(spellings) - OF_ACCOUNT)
    assert AuditEntry.objects.filter(verb="account.lock_out", object="ana").count() == 1


def test_address_limit_takes_mapped_ipv4_as_ipv4() -> None:
    """A socket of both families names IPv4 clients so; they are no one network, and one client has one count."""
    answers = [
        Client().post("/sign-in", {"username": f"n-{one}", "password": "no"}, REMOTE_ADDR=address).status_code
        for one, address in enumerate(["::ffff:192.0.2.1"] * OF_ADDRESS + ["192.0.2.1", "::ffff:192.0.2.1"])
    ]
    assert answers == [WRONG] * OF_ADDRESS + [HELD_BACK] * 2
    assert tries({"host": "testserver"}, name="ben", address="::ffff:192.0.2.2") == [WRONG]


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("fe80::1%eth0", "fe80::1"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("unknown", "0.0.0.0"),
        ("", "0.0.0.0"),
    ],  # not bound
)
def test_session_keeps_address_without_zone(engine: Callable[[], None], address: str, kept: str) -> None:
    create_account("ana", "admin", password=PASSWORD)
    client = Client(REMOTE_ADDR=address)
    assert client.post("/sign-in", NAME).status_code == 302
    assert list(UserSession.objects.values_list("ip", flat=True)) == [kept]


@pytest.mark.usefixtures("ana")
def test_right_code_keeps_count_of_its_address() -> None:
    """Who has an account with an app does not win further tries at others by signing in to it."""
    secret = add_app(signed_in())
    guess = [Client().post("/sign-in", {"username": f"n-{one}", "password": "no"}) for one in range(OF_ADDRESS - 1)]
    assert {answer.status_code for answer in guess} == {WRONG}
    own = Client()
    own.post("/sign-in", NAME)
    own.post("/sign-in/code", {"code": code_of(secret, later=1)})
    assert is_in(own)
    further = [Client().post("/sign-in", {"username": f"m-{one}", "password": "no"}).status_code for one in range(3)]
    assert further == [WRONG, HELD_BACK, HELD_BACK]


@pytest.mark.usefixtures("ana")
def test_codes_count_towards_limit_of_their_address() -> None:
    add_app(signed_in())
    for one in range(OF_ADDRESS - 1):
        Client().post("/sign-in", {"username": f"n-{one}", "password": "no"})
    half = Client()
    half.post("/sign-in", NAME)
    assert [half.post("/sign-in/code", {"code": "000000"}).status_code for _ in range(2)] == [WRONG, HELD_BACK]


def test_attempts_at_once_stay_within_account_limit(engine: Callable[[], None]) -> None:
    create_account("ana", "admin", password=PASSWORD)
    for number in range(3):
        tries({"host": f"localhost:{number}"})
    answers = Counter(at_once(engine, lambda number: tries({}, name="Ana" if number % 2 else "ana")[0]))
    assert set(answers) <= {WRONG, HELD_BACK}
    assert answers[WRONG] <= OF_ACCOUNT - 3


@pytest.mark.full
def test_two_processes_share_one_limit_of_tries(transactional_db: None, ana: User, tmp_path: Path) -> None:
    """40 tries at one moment, at two processes on two ports, by two names of the host; then after both have ended."""
    env = {
        "RECOVERY_OPS_DATA": str(tmp_path),
        "RECOVERY_OPS_DATABASE_URL": f"sqlite:///{connection.settings_dict['NAME']}",
        "RECOVERY_OPS_SECRET_KEY": "of two processes " * 4,
    }
    with Process(env) as first, Process(env) as second:
        doors = [f"{one.url}/sign-in" for one in (first, second)]
        doors += [door.replace("127.0.0.1", "localhost") for door in doors]
        page = requests.get(doors[0], timeout=20)
        typed = {"csrfmiddlewaretoken": Shown(page.text).fields["csrfmiddlewaretoken"], "password": "no"}
        cookies = {one.name: one.value or "" for one in page.cookies}

        def ask(number: int) -> int:
            said = typed | {"username": "ana"}
            return requests.post(doors[number % len(doors)], said, cookies=cookies, timeout=20).status_code

        with ThreadPoolExecutor(40) as pool:
            answers = Counter(pool.map(ask, range(40)))
        assert set(answers) == {WRONG, HELD_BACK}
        assert answers[WRONG] <= OF_ACCOUNT
    assert tries({}, password=PASSWORD) == [HELD_BACK]
    assert Client().post("/sign-in", {"username": "eve", "password": "no"}).status_code == HELD_BACK, "one address"


# -- one-time codes ---------------------------------------------------------------------------------------------------


def wait(seconds: int) -> None:
    """What so many seconds do to all that sign-in remembers."""
    for entry in CacheEntry.objects.all():
        entry.expires -= timedelta(seconds=seconds)
        entry.save()


def half_in() -> Client:
    """A browser in which ana's password was typed, and her code is asked for."""
    client = Client()
    assert client.post("/sign-in", NAME).headers["Location"] == "/sign-in/code"
    return client


@pytest.mark.usefixtures("ana")
def test_used_code_stays_used_while_tolerance_accepts_it() -> None:
    """The code of the next step is good now, and for at least 30 seconds more."""
    browser = signed_in()
    code = code_of(add_app(browser), later=1)
    first, second = half_in(), half_in()
    first.post("/sign-in/code", {"code": code})
    assert is_in(first)
    wait(33)
    assert second.post("/sign-in/code", {"code": f"{code[:3]} {code[3:]}"}).status_code == WRONG
    assert browser.post("/sign-in/again/code", {"code": code}).status_code == WRONG
    assert not is_in(second)


@pytest.mark.usefixtures("ana")
def test_code_that_set_app_up_opens_nothing() -> None:
    browser = signed_in()
    secret = add_app(browser)
    assert half_in().post("/sign-in/code", {"code": code_of(secret)}).status_code == WRONG


@pytest.mark.parametrize("kind", ["app", "recovery"])
def test_code_sent_at_once_opens_once(engine: Callable[[], None], kind: str) -> None:
    create_account("ana", "admin", password=PASSWORD)
    browser = signed_in()
    code = code_of(add_app(browser), later=1)
    if kind == "recovery":
        code = browser.get("/settings/you/sign-in/codes").context["unused_codes"][0]
    clients = [half_in() for _ in range(THREADS)]
    answers = at_once(engine, lambda number: clients[number].post("/sign-in/code", {"code": code}).status_code)
    assert Counter(answers)[302] == 1
    assert [is_in(client) for client in clients].count(True) == 1


@pytest.mark.usefixtures("ana")
def test_recovery_code_used_anywhere_opens_nothing_again() -> None:
    browser = signed_in()
    add_app(browser)
    code = browser.get("/settings/you/sign-in/codes").context["unused_codes"][0]
    assert browser.post("/sign-in/again/code", {"code": code}).status_code == 302
    assert half_in().post("/sign-in/code", {"code": code}).status_code == WRONG
    wait(3600)
    assert half_in().post("/sign-in/code", {"code": code}).status_code == WRONG


def test_second_reset_ends_password_of_first(ana: User) -> None:
    passwords = [account(people.reset_account, "ana").object.password for _ in range(2)]
    opened = [Client().post("/sign-in", {"username": "ana", "password": one}).status_code for one in passwords]
    assert opened == [WRONG, 302]


def test_reset_repeated_with_its_key_tells_no_password(ana: User) -> None:
    first, second = (account(people.reset_account, "ana", key="reset-1") for _ in range(2))
    assert (first.was_already, second.was_already, second.object.password) == (False, True, None)
    assert Client().post("/sign-in", {"username": "ana", "password": first.object.password}).status_code == 302

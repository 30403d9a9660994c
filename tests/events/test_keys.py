"""Keys: shown once, kept as digests, scoped, revocable, and never confused with a database that is away."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection

from events import keys
from events.keys import (
    KeyBusy,
    KeyInvalid,
    KeyRefused,
    KeyStoreAway,
    authenticate,
    create_key,
    find_key,
    recall,
    revoke_key,
)
from events.models import AgentKey
from tests.support.processes import eventually
from tests.support.sentences import left_out

pytestmark = pytest.mark.usefixtures("store")


def bearer(token: str) -> str:
    return f"Bearer {token}"


def test_a_key_opens_what_its_scopes_name() -> None:
    key, token = create_key("billing", ["desired", "ingest"], "prod")
    assert authenticate(bearer(token), "ingest").pk == key.pk
    assert authenticate(f"bearer   {token} ", "desired").environment == "prod"
    with pytest.raises(KeyRefused) as refused:
        authenticate(bearer(token), "act")
    assert (refused.value.status, "act" in refused.value.message) == (403, True)


def test_the_token_is_kept_nowhere() -> None:
    key, token = create_key("billing", ["ingest"], "prod")
    stored = [str(value) for value in AgentKey.objects.filter(pk=key.pk).values_list()[0]]
    assert token.startswith(f"{key.prefix}_")
    assert not any(token in value or token.removeprefix(key.prefix) in value for value in stored)


def test_of_the_addresses_that_a_key_is_used_from_the_last_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the moment, once a minute; who names none, like the server itself, takes none away."""
    key, token = create_key("billing", ["ingest"], "dev", made_by="ana")
    start = time.monotonic()

    def used(minute: int, address: str) -> tuple[str, str]:
        monkeypatch.setattr("events.keys.time.monotonic", lambda: start + 61 * minute)
        AgentKey.objects.filter(pk=key.pk).update(last_used_at=None)
        authenticate(bearer(token), "ingest", address)
        eventually(lambda: AgentKey.objects.get(pk=key.pk).last_used_at is not None, what="the note")
        kept = AgentKey.objects.get(pk=key.pk)
        return kept.last_used_from, kept.made_by

    assert used(1, "192.0.2.7") == ("192.0.2.7", "ana")
    assert used(2, "2001:db8::7") == ("2001:db8::7", "ana")
    assert used(3, "") == ("2001:db8::7", "ana")


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic dTpw",
        "ro_1_x",
        "Bearer ro_1_x",
        "Bearer " + "x" * 10_000,
        "Bearer \u00e9\ud800",
    ],
)
def test_anything_else_is_401(header: str | None) -> None:
    with pytest.raises(KeyRefused) as refused:
        authenticate(header, "ingest")
    assert refused.value.status == 401


def test_an_expired_key_is_401_even_while_it_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    expires_at = datetime.now(UTC) + timedelta(hours=1)
    _, token = create_key("billing", ["ingest"], "dev", expires_at=expires_at)
    assert find_key(token) is not None

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return expires_at

    monkeypatch.setattr(keys, "datetime", Later)
    assert find_key(token) is None
    assert recall(bearer(token), "ingest") is None


def test_a_key_revoked_elsewhere_is_refused_within_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("events.keys.time.monotonic", lambda: now[0])
    key, token = create_key("billing", ["ingest"], "dev")
    assert find_key(token) is not None
    AgentKey.objects.filter(pk=key.pk).update(revoked_at=datetime.now(UTC))
    now[0] = 9.9
    assert find_key(token) is not None
    now[0] = 10.0
    assert find_key(token) is None


def test_a_key_revoked_here_is_refused_at_once() -> None:
    key, token = create_key("billing", ["ingest"], "dev")
    assert find_key(token) is not None
    assert revoke_key(key.prefix) is not None
    assert find_key(token) is None
    assert revoke_key("ro_unknown") is None


def test_a_remembered_key_asks_no_database(django_assert_num_queries: Callable[[int], Any]) -> None:
    _, token = create_key("billing", ["ingest"], "dev")
    assert recall(bearer(token), "ingest") is None
    authenticate(bearer(token), "ingest")
    with django_assert_num_queries(0):
        assert recall(bearer(token), "ingest") is not None
        assert recall(bearer(token), "act") is None
        authenticate(bearer(token), "ingest")


def test_a_store_that_is_away_is_not_a_wrong_key() -> None:
    def away(*_: object) -> None:
        raise OperationalError("no connection")

    with connection.execute_wrapper(away), pytest.raises(KeyStoreAway):
        authenticate("Bearer ro_1_x", "ingest")


def test_a_use_is_noted_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    key, token = create_key("billing", ["ingest"], "dev")
    find_key(token)
    eventually(lambda: AgentKey.objects.get(pk=key.pk).last_used_at is not None, what="the note")
    noted: list[int] = []
    monkeypatch.setattr(keys, "_note_use", lambda number, _: noted.append(number))
    find_key(token)
    assert noted == []
    start = time.monotonic()
    monkeypatch.setattr("events.keys.time.monotonic", lambda: start + 61)
    find_key(token)
    eventually(lambda: noted == [key.pk], what="the next note")


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("name", ("", ["ingest"], "dev")),
        ("name", ("x" * 201, ["ingest"], "dev")),
        ("environment", ("a", ["ingest"], " ")),
        ("environment", ("a", ["ingest"], "x" * 65)),
        ("scopes", ("a", [], "dev")),
        ("scopes", ("a", ["ingest", "all"], "dev")),
    ],
)
def test_a_key_that_cannot_be_made_says_why(field: str, arguments: tuple[str, list[str], str]) -> None:
    with pytest.raises(KeyInvalid) as invalid:
        create_key(*arguments)
    assert invalid.value.field == field


def run(*words: str) -> str:
    out = StringIO()
    call_command("key", *words, stdout=out, stderr=StringIO())
    return out.getvalue()


def test_the_command_prints_the_key_alone_on_the_last_line() -> None:
    said = run("create", "--name", "billing", "--scope", "ingest,desired", "--environment", "prod")
    key = authenticate(bearer(said.splitlines()[-1]), "desired")
    assert (key.name, key.environment, key.scopes) == ("billing", "prod", "ingest desired")


def test_the_command_lists_and_revokes() -> None:
    token = run("create", "--name", "billing", "--days", "3").strip()
    prefix = token.rpartition("_")[0][:11]
    assert prefix in run("list")
    assert "billing" in run("list", "--environment", "dev")
    assert run("list", "--environment", "prod") == ""
    assert "revoked" in run("revoke", prefix)
    assert "revoked" in run("list")
    with pytest.raises(KeyRefused):
        authenticate(bearer(token), "ingest")
    with pytest.raises(CommandError, match="ro_00000000"):
        run("revoke", "ro_00000000")


@pytest.mark.parametrize("words", [["--scope", "all"], ["--scope", ","], ["--days", "0"], ["--days", "soon"]])
def test_the_command_refuses_what_makes_no_sense(words: list[str]) -> None:
    with pytest.raises(CommandError):
        run("create", "--name", "billing", *words)


class Clock:
    """The clock of the keys' pace, which a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(keys, "clock", lambda: self.now)


def test_a_key_that_asks_too_often_waits_and_others_do_not(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    clock = Clock(monkeypatch)
    settings.KEY_REQUESTS_PER_S = {"read": 5, "ingest": 0}
    _, token = create_key("script", ["read", "ingest", "desired"], "prod")
    _, other = create_key("another", ["read"], "prod")
    for _ in range(20):  # four seconds' worth at once
        authenticate(bearer(token), "read")
    for ask in (authenticate, recall):
        with pytest.raises(KeyBusy) as busy:
            ask(bearer(token), "read")
        assert (busy.value.status, busy.value.retry_after_s) == (429, 1)
        assert left_out(busy.value.message, "5") == []
    authenticate(bearer(other), "read")
    for _ in range(50):
        authenticate(bearer(token), "ingest")
        authenticate(bearer(token), "desired")
    clock.now += 1
    for _ in range(5):
        authenticate(bearer(token), "read")
    with pytest.raises(KeyBusy):
        authenticate(bearer(token), "read")


def test_the_end_of_one_key_fills_no_bucket_of_another(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    clock = Clock(monkeypatch)
    settings.KEY_REQUESTS_PER_S = {"read": 1}
    _, token = create_key("script", ["read"], "prod")
    for number in range(4):
        authenticate(bearer(token), "read")
        keys.revoke_key(create_key(f"passing {number}", ["read"], "prod")[0].prefix)
    with pytest.raises(KeyBusy):
        authenticate(bearer(token), "read")
    clock.now += 2
    keys.forget_keys()
    authenticate(bearer(token), "read")
    authenticate(bearer(token), "read")
    with pytest.raises(KeyBusy):
        authenticate(bearer(token), "read")
    clock.now += keys.BURST_S
    keys.forget_keys()
    for _ in range(4):
        authenticate(bearer(token), "read")


def test_every_scope_has_a_pace(settings: Any) -> None:
    assert set(settings.KEY_REQUESTS_PER_S) == set(keys.SCOPES)

"""Addresses that messages may go to: refused where they are typed, whatever way of writing leads to our own network."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.notifications.models.notifications import Channel
from recovery_ops.control.notifications.services.settings import save_channel
from recovery_ops.control.notifications.transport import fault_of_address
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person
from tests.support.channels import EVA, SECRET

HIDDEN = [
    "https://localhost/x",
    "https://LOCALHOST./x",
    "https://a.localhost/x",
    "https://metadata.google.internal/x",
    "https://printer.local/x",
    "https://intranet/x",
    "https://2130706433/x",
    "https://0x7f000001/x",
    "https://0177.0.0.1/x",
    "https://127.1/x",
    "https://127.0.0.1/x",
    "https://127.0.0.1./x",
    "https://0.0.0.0/x",
    "https://169.254.169.254/latest/meta-data",
    "https://10.0.0.1/x",
    "https://[::1]/x",
    "https://[::]/x",
    "https://[::127.0.0.1]/x",
    "https://[::ffff:127.0.0.1]/x",
    "https://[::ffff:a00:1]/x",
    "https://[64:ff9b::7f00:1]/x",
    "https://[64:ff9b:1::1]/x",
    "https://[2002:7f00:1::]/x",
    "https://[fe80::1%25eth0]/x",
    "https://[fec0::1]/x",
    "https://[fd00::1]/x",
    "https://[::1/x",
    "https://192.0.0.192/x",
    "https://168.63.129.16/x",
    "https://[64:ff9b:1::7f00:1]/x",
]
ODD = [
    "https://eva:pw@hooks.example.org/",
    "https://eva@hooks.example.org/",
    "https://@hooks.example.org/",
    "https://:@hooks.example.org/",
    "https://hooks.example.org\\@127.0.0.1/",
    "https://hooks.example.org:0/x",
    "https://hooks.example.org:22/x",
    "https://hooks.example.org:25/x",
    "https://hooks.example.org:80/x",
    "https://hooks.example.org:99999/x",
    "https://hooks.example.org:port/x",
    "https://hooks..example.org/x",
    "https://-hooks.example.org/x",
    "https://hooks.example.org%00.evil.example/x",
    "https://hooks.example.org/x y",
    "https:///x",
    "https://",
    "hooks.example.org/x",
    "file:///etc/passwd",
    "gopher://hooks.example.org/x",
    "http://hooks.example.org/x",
]
FINE = [
    "https://hooks.example.org/x",
    "https://hooks.example.org:443/x?a=b#c",
    "https://hooks.example.org:8443/x",
    "https://hooks.slack.com/services/T0/B0/s3cret",
    "https://under_score.example.org/x",
    "https://xn--bcher-kva.example/x",
    "https://8.8.8.8/x",
    "https://[2606:4700:4700::1111]/x",
]


@pytest.mark.parametrize("url", [*HIDDEN, *ODD])
def test_what_leads_nowhere_good_is_refused_where_it_is_typed(url: str) -> None:
    assert fault_of_address(url)


@pytest.mark.parametrize("url", FINE)
def test_what_is_an_address_of_the_open_internet_is_none_of_these(url: str) -> None:
    assert fault_of_address(url) == ""


def test_a_host_that_the_setting_names_may_be_anywhere(settings: Any) -> None:
    settings.NOTIFY_HOSTS = ["alerts.internal", "127.0.0.1:8080", "localhost"]
    assert fault_of_address("http://alerts.internal:25/x") == ""
    assert fault_of_address("http://127.0.0.1:8080/x") == ""
    assert fault_of_address("https://127.0.0.1:8081/x")
    assert fault_of_address("http://localhost/x") == ""
    assert fault_of_address("http://eva@localhost/x"), "a password in an address is shown in logs"


@pytest.mark.parametrize(
    ("named", "url"),
    [
        ("alerts.internal:443", "https://alerts.internal/x"),
        ("alerts.internal:80", "http://alerts.internal/x"),
        ("Alerts.internal:8443", "https://alerts.internal:8443/x"),
        ("[::1]:8443", "https://[::1]:8443/x"),
        ("[::1]", "https://[::1]/x"),
        ("::1", "https://[::1]:8443/x"),
    ],
)
def test_host_named_with_port_may_be_anywhere(settings: Any, named: str, url: str) -> None:
    settings.NOTIFY_HOSTS = [named]
    assert fault_of_address(url) == ""


@pytest.mark.parametrize("url", ["http://alerts.internal:443/x", "https://alerts.internal:8443/x", "https://[::1]/x"])
def test_host_named_with_port_has_no_other(settings: Any, url: str) -> None:
    settings.NOTIFY_HOSTS = ["alerts.internal:80", "[::1]:8443"]
    assert fault_of_address(url)


def saved(**more: Any) -> Channel:
    given = {"name": "ops", "kind": "webhook", "address": "https://127.0.0.1.nip.io/x", "secret": SECRET}
    return save_channel(**asked(by=EVA) | given | more).object


@pytest.mark.django_db
def test_a_name_that_leads_to_our_own_network_is_refused_where_it_is_typed(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.NOTIFY_LOOK_UP_S = 5.0
    looked_up: list[str] = []

    def look_up(host: str, *_: object, **__: object) -> list[Any]:
        looked_up.append(host)
        return [(2, 1, 6, "", ("127.0.0.1", 443))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(CommandRejected) as refused:
        saved()
    assert list(refused.value.fields) == ["address"]
    with pytest.raises(CommandRejected) as refused:
        saved(by=person(Role.OPERATOR))
    assert refused.value.code == "forbidden"
    assert looked_up == ["127.0.0.1.nip.io"], "whoever may not save makes the server look up nothing"


@pytest.mark.django_db
def test_a_name_that_cannot_be_looked_up_in_time_is_kept_and_checked_when_it_is_sent(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.NOTIFY_LOOK_UP_S = 0.05
    hang = threading.Event()

    def look_up(*_: object, **__: object) -> list[Any]:
        hang.wait(10)
        raise OSError

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert saved().address == "https://127.0.0.1.nip.io/x"
    hang.set()

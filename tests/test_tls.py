"""The console behind TLS, as in production: what its cookies are called, and that no program is ever sent elsewhere.

The proxy that ends TLS is this test: it says `X-Forwarded-Proto`, from the address that uvicorn believes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from http.cookies import SimpleCookie

import httpx
import pytest

from tests.support.processes import Server

HOST = "ops.example"
BY_TLS = {"Host": HOST, "X-Forwarded-Proto": "https"}
YEAR_S = 365 * 24 * 3600
OF_PROGRAMS = [
    "/api",
    "/api/",
    "/api/v1",
    "/api/v1/",
    "/api/v1/breakers",
    "/api/v1/breakers/",
    "/api/v1/breakers/search_web/trip",
    "/api/v1/desired",
    "/api/v1/desired/",
    "/api/v1/desired/stream",
    "/api/v1/openapi.json/",
    "/api/v1/no-such-thing",
    "/v1",
    "/v1/",
    "/v1/logs",
    "/v1/logs/",
    "/v1/traces/",
    "/v1/opamp",
    "/v1/opamp/",
    "/metrics",
    "/metrics/",
    "/metrics//",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    said = {"RECOVERY_OPS_TLS": "1", "RECOVERY_OPS_HOSTS": HOST, "RECOVERY_OPS_METRICS_TOKEN": "m" * 32}
    said["FORWARDED_ALLOW_IPS"] = "127.0.0.1"
    with Server(tmp_path_factory.mktemp("tls") / "data", env=said) as running:
        yield running


@pytest.fixture
def browser(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers=BY_TLS | {"Origin": f"https://{HOST}"}) as client:
        yield client


def kept(answer: httpx.Response, jar: dict[str, str]) -> list[str]:
    """The cookies that an answer sets, one a line; what they hold is put into `jar`."""
    set_here = answer.headers.get_list("set-cookie")
    for line in set_here:
        jar.update({name: one.value for name, one in SimpleCookie(line).items()})
    return set_here


def test_every_cookie_is_for_this_host_alone(server: Server, browser: httpx.Client) -> None:
    jar: dict[str, str] = {}
    seen: list[str] = []

    def go(method: str, path: str, **form: str) -> httpx.Response:
        cookies = "; ".join(f"{name}={value}" for name, value in jar.items())
        answer = browser.request(method, path, data=form or None, headers={"Cookie": cookies})
        seen.extend(kept(answer, jar))
        return answer

    def token() -> str:
        found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', go("GET", page).text)
        assert found
        return found[1]

    name, password = server.sign_in
    page = "/sign-in"
    assert go("POST", page, username=name, password=password, csrfmiddlewaretoken=token()).status_code == 302
    page = "/settings/you"
    look = {"theme": "dark", "contrast": "more", "density": "compact", "keys": "off", "zone": "Europe/Berlin"}
    assert go("POST", "/look", csrfmiddlewaretoken=token(), **look).status_code == 303
    shown = go("GET", page).text
    assert 'data-theme="dark"' in shown
    assert 'data-zone="Europe/Berlin"' in shown
    assert 'data-cookies="__Host-recovery-"' in shown
    assert go("POST", "/settings/you/sign-in/sessions/end", csrfmiddlewaretoken=token()).status_code == 303
    assert go("POST", "/look", csrfmiddlewaretoken=token(), theme="").status_code == 303
    assert go("POST", "/sign-out", csrfmiddlewaretoken=token()).status_code == 302

    names = {line.partition("=")[0] for line in seen}
    expected = {"session", "csrf", "notices", *look}
    assert names == {f"__Host-recovery-{one}" for one in expected}
    for line in seen:
        words = {word.strip().lower() for word in line.split(";")[1:]}
        assert {"secure", "path=/"} <= words, line
        assert not any(word.startswith("domain") for word in words), line
        assert {"samesite=lax", "samesite=strict"} & words, line
    for line in seen:
        if line.startswith(("__Host-recovery-session=", "__Host-recovery-csrf=", "__Host-recovery-notices=")):
            assert "httponly" in line.lower() or line.partition("=")[2].startswith('""'), line


def test_browsers_are_told_to_come_by_tls_only(browser: httpx.Client, server: Server) -> None:
    for path in ("/sign-in", "/static/app.css", "/no-such-page", "/api/v1/breakers", "/metrics"):
        assert browser.get(path).headers["strict-transport-security"] == f"max-age={YEAR_S}", path
    plain = httpx.get(f"{server.url}/sign-in?next=/breakers", headers={"Host": HOST})
    assert (plain.status_code, plain.headers["location"]) == (301, f"https://{HOST}/sign-in?next=/breakers")
    assert "set-cookie" not in plain.headers


@pytest.mark.full
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("path", OF_PROGRAMS)
def test_programs_are_sent_nowhere(server: Server, path: str, scheme: str) -> None:
    """With a slash too many, by plain HTTP, and without a key: an answer, never an address to go to, never a page."""
    headers = {"Host": HOST, "X-Forwarded-Proto": scheme}
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        answer = httpx.request(method, f"{server.url}{path}", headers=headers)
        told = (method, path, answer.status_code, answer.headers.get("content-type"))
        assert 400 <= answer.status_code < 500 or (answer.status_code == 200 and method == "OPTIONS"), told
        assert "location" not in answer.headers, told
        assert "set-cookie" not in answer.headers, told
        assert "html" not in answer.headers.get("content-type", ""), told
        if method == "GET" and not path.startswith("/v1"):
            assert answer.headers["content-type"] == "application/problem+json", told
            assert answer.json()["status"] == answer.status_code, told


def test_metrics_are_read_by_who_knows_the_token(server: Server) -> None:
    headers = {"Host": HOST, "Authorization": f"Bearer {'m' * 32}"}
    answer = httpx.get(f"{server.url}/metrics", headers=headers)
    assert (answer.status_code, "recovery_ops" in answer.text) == (200, True)

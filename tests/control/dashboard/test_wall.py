"""A screen on the wall: let in by a link, for one environment and for reading, until the link is over."""

from __future__ import annotations

import io
import logging
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from uvicorn.logging import AccessFormatter

from events import keys
from events.models import AgentKey
from recovery_ops import asgi
from recovery_ops.rules.roles import Role
from tests.support.html import Shown
from tests.support.pages import signed_in, text_of, troubled_fleet

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]
REASON = "for the screen in the hall"


@pytest.fixture(autouse=True)
def forgotten() -> None:
    keys.forget_keys()


def link(environment: str = "dev", **more: object) -> str:
    return keys.create_key("hall", ["wall"], environment, **more)[1]  # type: ignore[arg-type]  # as the test says


def screen(token: str) -> Client:
    client = Client()
    answer = client.get(f"/wall/{token}")
    assert (answer.status_code, answer["Location"]) == (303, "/wall")
    assert answer["Referrer-Policy"] == "no-referrer"
    assert answer.cookies["recovery-wall"]["httponly"]
    assert answer.cookies["recovery-wall"]["path"] == "/wall"
    return client


def test_an_admin_makes_a_link_and_a_screen_without_a_sign_in_shows_the_wallboard() -> None:
    troubled_fleet()
    admin = signed_in(Role.ADMIN)
    form = Shown(admin.get("/settings/keys/new?scope=wall"))
    chosen = [one.attributes for one in form.root.all() if "checked" in one.attributes]
    assert "wall" in [one["value"] for one in chosen if one.get("name") == "scopes"]
    shown = admin.post("/settings/keys/new", {"name": "hall", "scopes": ["wall"], "days": "90", "reason": REASON})
    token = shown.context["made"].token
    assert f"/wall/{token}" in shown.content.decode()
    tv = screen(token)
    page = tv.get("/wall")
    assert page.status_code == 200
    assert "search_web" in text_of(page)
    assert token not in page.content.decode(), "what stands on the screen is photographed"
    assert page["Cache-Control"] == "no-store"
    part = tv.get("/wall", headers={"x-fragment": "wallboard"})
    assert 'data-refresh-url="/wall"' in part.content.decode()
    assert text_of(admin.get("/settings/keys")).count("wall") >= 1


def test_the_link_opens_nothing_else() -> None:
    troubled_fleet()
    tv, token = screen(link()), link()
    assert tv.get("/").status_code == 302
    assert tv.get("/wallboard").status_code == 302
    assert tv.get("/api/v1/status").status_code == 401
    with_key = Client(headers={"authorization": f"Bearer {token}"})
    assert with_key.get("/api/v1/status").status_code == 403
    assert with_key.get("/api/v1/desired").status_code == 403
    assert tv.post("/wall").status_code == 405
    with pytest.raises(keys.KeyInvalid):
        keys.create_key("both", ["wall", "ingest"], "dev")


def test_it_shows_its_own_environment_whatever_the_address_says() -> None:
    troubled_fleet()
    page = screen(link("prod")).get("/wall?environment=dev")
    assert Shown(page).values("why") == ["cannot know"]
    assert "search_web" not in text_of(page)


def test_a_link_that_was_revoked_or_is_over_or_never_was_shows_nothing() -> None:
    tv = screen(link())
    keys.revoke_key(AgentKey.objects.get().prefix)
    late = link(expires_at=timezone.now() - timedelta(seconds=1))
    other = keys.create_key("agents", ["ingest"], "dev")[1]
    answers = [tv.get("/wall"), Client().get("/wall"), *(Client().get(f"/wall/{one}") for one in (late, other, "x"))]
    assert [answer.status_code for answer in answers] == [401] * 5
    assert len({text_of(answer) for answer in answers}) == 1, "no key is told more than a wrong one"


def test_who_asks_too_often_is_told_when_to_come_back() -> None:
    tv = screen(link(requests_per_s=1))
    answers = [tv.get("/wall") for _ in range(12)]
    busy = next(answer for answer in answers if answer.status_code == 429)
    assert busy["Retry-After"] == "1"


def test_a_viewer_makes_no_link() -> None:
    assert signed_in(Role.VIEWER).get("/settings/keys/new?scope=wall").status_code == 403


def test_the_link_stands_in_no_log(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def is_away(*words: object, **more: object) -> None:
        raise OperationalError("the store is away")

    token = link()
    monkeypatch.setattr(AgentKey.objects, "filter", is_away)
    assert Client().get(f"/wall/{token}").status_code == 503
    assert "Service Unavailable: /wall/…" in caplog.text
    assert token not in caplog.text

    assert asgi.application is not None, "which is what uvicorn loads"
    written, access = io.StringIO(), logging.getLogger("uvicorn.access")
    handler = logging.StreamHandler(written)
    handler.setFormatter(AccessFormatter("%(message)s"))
    access.addHandler(handler)
    try:
        access.error('%s - "%s %s HTTP/%s" %d', "127.0.0.1:5", "GET", f"/wall/{token}?a=1", "1.1", 303)
    finally:
        access.removeHandler(handler)
    assert '"GET /wall/…?a=1 HTTP/1.1" 303' in written.getvalue()

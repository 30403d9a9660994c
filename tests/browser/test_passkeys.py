"""A passkey in a real browser, whose authenticator is a virtual one: added, signed in with, and asked for again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, CDPSession, Page, expect

from tests.support.agents import manage_each
from tests.support.processes import Server

PATIENCE_MS = 60_000
IN_THIS_DEVICE = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


class Authenticator:
    """What holds a person's keys in the browser of this page."""

    def __init__(self, page: Page) -> None:
        self._cdp: CDPSession = page.context.new_cdp_session(page)
        self._cdp.send("WebAuthn.enable")
        added = self._cdp.send("WebAuthn.addVirtualAuthenticator", {"options": IN_THIS_DEVICE})
        self._id = added["authenticatorId"]

    @property
    def keys(self) -> int:
        """How many it holds."""
        return len(self._cdp.send("WebAuthn.getCredentials", {"authenticatorId": self._id})["credentials"])

    def refuse(self) -> None:
        """From now on it does not know the finger that is shown to it."""
        self._cdp.send("WebAuthn.setUserVerified", {"authenticatorId": self._id, "isUserVerified": False})


@pytest.fixture
def console(chromium: str, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The console by a name, because no passkey belongs to a number; and the password of pat."""
    with Server(tmp_path / "data") as server:
        [password] = manage_each(tmp_path / "data", "account create pat --role viewer --generate")
        yield server.url.replace("127.0.0.1", "localhost"), password


def test_a_passkey_opens_the_console_without_the_password(browser: Browser, console: tuple[str, str]) -> None:
    url, password = console
    with browser.new_context() as context:
        page = context.new_page()
        authenticator = Authenticator(page)
        page.goto(f"{url}/sign-in")
        page.get_by_label("Name").fill("pat")
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.wait_for_url(f"{url}/", timeout=PATIENCE_MS)
        page.goto(f"{url}/settings/you/sign-in/keys/add")
        page.get_by_label("Key name").fill("this laptop")
        page.get_by_label("Passwordless sign-in").check()
        page.get_by_role("button", name="Add key").click()
        expect(page.get_by_text("10 of 10")).to_be_visible(timeout=PATIENCE_MS)  # recovery codes, with the first factor
        assert authenticator.keys == 1
        page.goto(f"{url}/settings/you/sign-in")
        expect(page.get_by_text("this laptop, added")).to_be_visible()

        context.clear_cookies()
        page.goto(f"{url}/sign-in")
        page.get_by_role("button", name="Use a passkey").click()
        page.wait_for_url(f"{url}/", timeout=PATIENCE_MS)

        context.clear_cookies()
        page.goto(f"{url}/sign-in")
        authenticator.refuse()
        page.get_by_role("button", name="Use a passkey").click()
        expect(page.get_by_role("alert")).to_be_visible(timeout=PATIENCE_MS)
        assert page.goto(f"{url}/settings/you") is not None
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()

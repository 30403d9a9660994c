"""A real agent asks, a manager answers with the keyboard, and the agent hears it, though both were restarted."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.agents import manage_each
from tests.support.asking_agents import asking
from tests.support.processes import Server

PATIENCE_MS = 60_000


@pytest.mark.default
def test_a_question_reaches_a_manager_and_the_answer_reaches_the_agent(
    page: Page, start_server: Callable[..., Server], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    server = start_server()
    key, password = manage_each(
        data,
        "key create --name flow --scope ingest,desired",
        "account create mia --role responder --generate",
    )
    page.goto(server.url)
    page.get_by_label("Name").fill("mia")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("navigation", name="Main")).to_be_visible(timeout=PATIENCE_MS)
    page.goto(f"{server.url}/escalations")
    expect(page.locator('[data-asked="0"]')).to_be_visible()

    with asking(server, key, "billing-1", tmp_path / "one") as first:
        first.said("asking")
        # No reload: the page hears of it.
        expect(page.get_by_text("May 120 EUR be refunded? Proposed: 120 EUR").first).to_be_visible(timeout=PATIENCE_MS)
        first.process.send_signal(signal.SIGKILL)

    page.keyboard.press("j")
    page.keyboard.press("y")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading", name="Approve ESC-1")).to_be_visible()
    dialog.get_by_label("Answer").fill("80 EUR")
    dialog.get_by_label("Reason").fill("The customer keeps the second item.")
    dialog.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("ESC-1: approved.")).to_be_visible(timeout=PATIENCE_MS)

    with asking(server, key, "billing-2", tmp_path / "two") as second:
        second.said(r"told: True 80 EUR by mia")
        assert second.process.wait(20) == 0

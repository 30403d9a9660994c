"""A failure that people name."""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.support.agents import Console
from tests.support.processes import ROOT, Running

PATIENCE_MS = 60_000


REASON = "The ledger says so while it compacts."


def puzzled(server: Console, key: str, folder: Path) -> Running:
    argv = [sys.executable, "-m", "tests.flows.puzzled_agent", "ledger-1"]
    env = {"RECOVERY_OPS_URL": server.url, "RECOVERY_OPS_KEY": key, "RECOVERY_OPS_DIR": str(folder)}
    return Running(argv, env=env, folder=ROOT)


def a_failure_is_named(
    page: Page, server: Console, seen_by_agents: Console, key: str, password: str, folder: Path
) -> None:
    """The whole of it: people look at one address of the console, and agents talk to that or to another one."""
    page.goto(server.url)
    page.get_by_label("Name").fill("olga")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("navigation", name="Main")).to_be_visible(timeout=PATIENCE_MS)
    page.goto(f"{server.url}/failures/unclassified")
    expect(page.get_by_text("No agent has reported yet")).to_be_visible()

    with puzzled(seen_by_agents, key, folder / "agent") as agent:
        agent.said("failed: unknown")
        # No reload: the page hears of it.
        found = page.get_by_role("link", name="of the ledger is busy")
        expect(found.first).to_be_visible(timeout=PATIENCE_MS)
        page.goto(f"{server.url}/escalations")
        expect(page.get_by_text("post_entry").first).to_be_visible(timeout=PATIENCE_MS)
        page.goto(f"{server.url}/failures/unclassified")
        found.first.click()
        expect(page.locator("#message")).to_have_value("partition * of the ledger is busy")
        expect(page.locator("#category")).to_have_value("overloaded")
        expect(page.get_by_text("; 0 with another category.")).to_be_visible()
        page.locator("form:has(#category)").get_by_label("Reason").fill(REASON)
        page.locator("button[name=act][value=propose]").click()
        expect(page.get_by_text("Proposal 1 drafted with the rule.")).to_be_visible(timeout=PATIENCE_MS)
        page.goto(f"{server.url}/policies/proposals/1")
        release = page.locator("form", has=page.get_by_role("button", name="Release now"))
        release.get_by_label("Reason").fill(REASON)
        release.get_by_role("button", name="Release now").click()
        agent.said("failed: overloaded")
        assert agent.process.wait(20) == 0

    page.goto(f"{server.url}/failures/unclassified")
    expect(page.get_by_text("rule LedgerError in post_entry")).to_be_visible()

"""Every page in light and dark, wide and narrow: nobody is shut out, nothing sticks out, nothing is blocked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

Visit = Callable[..., Page]

PAGES = {
    "overview": "/",
    "breakers": "/breakers",
    "none of a kind": "/breakers?show=disabled",
    "breaker": "/breakers/search_web?range=15m",
    "breaker tables": "/breakers/search_web/tables",
    "trip": "/breakers/search_web/trip",
    "timelines": "/timelines?range=15m",
    "timelines as tables": "/timelines?range=15m&view=table",
    "policies": "/policies",
    "policy": "/policies/operations/search_web",
    "agents": "/agents",
    "audit": "/audit",
    "nothing": "/breakers/nothing",
}
WITH_CHARTS = {"breaker", "timelines", "timelines as tables"}
SIZES = {"wide": {"width": 1280, "height": 900}, "narrow": {"width": 390, "height": 844}}
AXE = {
    "resultTypes": ["violations"],
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "rules": {"target-size": {"enabled": True}},
}


def settled(page: Page, name: str) -> None:
    """Wait until the parts that come later are there."""
    if name in WITH_CHARTS:
        page.locator(".plotly-host").first.scroll_into_view_if_needed()
        expect(page.locator(".plotly-host .main-svg").first).to_be_visible(timeout=20_000)
    if name == "overview":
        expect(page.locator("#strip .lane").first).to_be_visible(timeout=10_000)


def violations(page: Page) -> list[str]:
    """What axe finds, as `rule: element`."""
    found: list[dict[str, Any]] = Axe().run(page, options=AXE).response["violations"]
    return [f"{rule['id']}: {node['target']}" for rule in found for node in rule["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_axe_finds_nothing_and_nothing_sticks_out(scheme: str, size: str, visit: Visit) -> None:
    page = visit(color_scheme=scheme, viewport=SIZES[size])
    for name, path in PAGES.items():
        page.goto(page.url.split("/", 3)[0] + "//" + page.url.split("/", 3)[2] + path)
        settled(page, name)
        assert violations(page) == [], name
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["width"], name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_what_opens(scheme: str, visit: Visit) -> None:
    page = visit("/breakers/search_web", color_scheme=scheme)
    page.get_by_role("link", name="Trip…").click()
    page.get_by_role("dialog").get_by_role("button", name="Trip breaker").click()
    expect(page.get_by_text("Say why")).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="operator, operator: account").click()
    assert violations(page) == []


def test_axe_finds_nothing_on_the_way_in(page: Page, stage: Any) -> None:
    page.goto(f"{stage.server.url}/sign-in")
    assert violations(page) == []
    page.get_by_label("Name").fill("nobody")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert violations(page) == []


def test_nothing_is_blocked_and_nothing_fails(visit: Visit) -> None:
    page = visit()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    for name, path in PAGES.items():
        page.goto("/".join(page.url.split("/", 3)[:3]) + path)
        settled(page, name)
    # Plotly tries one inline style of its own, which the policy refuses and no chart misses.
    unexpected = [one for one in said if not one.startswith("Applying inline style") and "404" not in one]
    assert unexpected == []


def test_the_theme_is_kept_and_nothing_flashes(visit: Visit) -> None:
    page = visit("/breakers", color_scheme="light")
    page.get_by_role("button", name="Switch theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload(wait_until="commit")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="operator, operator: account").click()
    page.get_by_role("button", name="System theme").click()
    assert page.locator("html").get_attribute("data-theme") is None


def test_a_keyboard_reaches_the_content_past_the_navigation(visit: Visit) -> None:
    page = visit("/breakers")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator("main").get_by_role("link").first).to_be_focused()


def test_the_narrow_navigation_opens_and_closes(visit: Visit) -> None:
    page = visit("/breakers", viewport=SIZES["narrow"])
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Agents").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Agents")
    expect(page.get_by_role("link", name="Audit", exact=True)).to_be_hidden()

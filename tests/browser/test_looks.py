"""What opens, what a person prefers, and how tables and navigation fit: nobody is shut out, nothing flashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_axe import EVERYTHING, found_by_axe

Visit = Callable[..., Page]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_what_opens(scheme: str, visit: Visit) -> None:
    page = visit("/breakers/search_web", color_scheme=scheme)
    page.get_by_role("link", name="Trip…").click()
    page.get_by_role("dialog").get_by_role("button", name="Trip breaker").click()
    expect(page.get_by_text("Say why")).to_be_visible()
    assert found_by_axe(page, EVERYTHING) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="operator, operator: account").click()
    assert found_by_axe(page, EVERYTHING) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_high_contrast_and_compact(scheme: str, visit: Visit) -> None:
    page = visit("/settings/you", color_scheme=scheme)
    page.get_by_role("radio", name="High").check(force=True)
    page.get_by_role("radio", name="Compact").check(force=True)
    page.get_by_role("button", name="Save").click()
    expect(page.locator("html")).to_have_attribute("data-contrast", "more")
    for path in ("/", "/breakers", "/escalations", "/settings/health"):
        page.goto("/".join(page.url.split("/", 3)[:3]) + path)
        assert found_by_axe(page, EVERYTHING) == [], path


def test_axe_finds_nothing_on_the_way_in(page: Page, stage: Any) -> None:
    page.goto(f"{stage.server.url}/sign-in")
    assert found_by_axe(page, EVERYTHING) == []
    page.get_by_label("Name").fill("nobody")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert found_by_axe(page, EVERYTHING) == []


@pytest.mark.parametrize("path", ["/capacity", "/failures", "/escalations", "/runs", "/breakers", "/agents", "/audit"])
def test_a_table_fits_a_desk_and_keeps_its_names_on_a_phone(path: str, visit: Visit) -> None:
    page = visit(path, viewport={"width": 1440, "height": 900})
    wide = "[...document.querySelectorAll('main .table')].filter(one => one.scrollWidth > one.clientWidth)"
    assert page.evaluate(f"{wide}.length") == 0
    page.set_viewport_size({"width": 390, "height": 844})
    left = (
        wide
        + """.map(one => {
      one.scrollLeft = one.scrollWidth;
      const name = one.querySelector("tbody th");
      return name ? Math.round(name.getBoundingClientRect().left - one.getBoundingClientRect().left) : 0;
    })"""
    )
    assert all(found == 0 for found in page.evaluate(left)), "the name of a row stays when the rest is scrolled"


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
    page = visit("/breakers", viewport={"width": 390, "height": 844})
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Agents").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Agents")
    expect(page.get_by_role("link", name="Audit", exact=True)).to_be_hidden()

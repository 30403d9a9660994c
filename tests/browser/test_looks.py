"""What opens, what a person prefers, and how tables and navigation fit: nobody is shut out, nothing flashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from recovery_ops.rules.enums import Category, State
from recovery_ops.rules.events import DegradationStarted, Escalated
from tests.browser.axe import EVERYTHING, found_by_axe
from tests.browser.stage import INSTANCES, Stage
from tests.support.stories import counted, failed, moved

Visit = Callable[..., Page]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_what_opens(scheme: str, visit: Visit) -> None:
    page = visit("/breakers/search_web", color_scheme=scheme)
    page.get_by_role("link", name="Trip…").click()
    page.get_by_role("dialog").get_by_role("button", name="Trip breaker").click()
    expect(page.get_by_role("dialog").get_by_label("Reason")).to_have_attribute("aria-invalid", "true")
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


LONG = (
    "HTTPConnectionPool(host='10.20.30.40', port=40481): Read timed out. (read timeout=0.6); the body was 'a long one'"
)


@pytest.fixture(scope="module")
def wordy(stage: Stage) -> Stage:
    """Names and messages as long as they come: an outage of several instances, what stood in, who was asked."""
    operation = "knowledge_base.search_by_embedding"
    for instance in INSTANCES:
        late = [failed(Category.TIMEOUT, operation, message=LONG, duration_s=0.6, retry_after_s=5.0)] * 3
        moves = moved(State.OPEN, breaker=operation)
        less = DegradationStarted(
            operation=operation,
            kind="fallback",
            reason="context_overflow",
            from_name=operation,
            to_name="knowledge_base.search_by_words",
        )
        asks = Escalated(operation=operation, queue="knowledge_base_owners", reason="timeout", message=LONG)
        calls = counted(60, operation)
        stage.tell(*late, moves, less, asks, calls, instance=instance, ago_s=10, run=f"run-{instance}")
    return stage


@pytest.mark.parametrize(
    "path", ["/capacity", "/capacity/1", "/degradations", "/amplification", "/escalations", "/escalations/2", "/report"]
)
def test_long_words_fit_a_desk_and_a_phone(path: str, wordy: Stage, visit: Visit) -> None:
    page = visit("/capacity", viewport={"width": 1440, "height": 900})
    expect(page.get_by_text("CE-1").first).to_be_visible(timeout=30_000)
    page.goto(wordy.server.url + path)
    expect(page.locator("main .table tbody tr").first).to_be_attached()
    wide = "[...document.querySelectorAll('main .table')].filter(one => one.scrollWidth > one.clientWidth)"
    names = f"{wide}.map(one => one.getAttribute('aria-label') ?? one.textContent.trim().slice(0, 60))"
    assert page.evaluate(names) == [], "nothing is to be found by scrolling a table sideways on a desk"
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    hidden = f"{wide}.filter(one => one.tabIndex !== 0 && !one.querySelector('a, button, input')).length"
    assert page.evaluate(hidden) == 0, "a keyboard scrolls what is wider than a phone"


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
    expect(page.locator("main").locator("a, button").first).to_be_focused()


def test_the_narrow_navigation_opens_and_closes(visit: Visit) -> None:
    page = visit("/breakers", viewport={"width": 390, "height": 844})
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Agents").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Agents")
    expect(page.get_by_role("link", name="Audit", exact=True)).to_be_hidden()


def test_a_row_with_a_name_above_its_text_is_as_high_as_both(visit: Visit) -> None:
    page = visit("/breakers", viewport={"width": 390, "height": 844})
    row = '<ul class="list" data-named><li><span>name</span><span class="grow">short</span></li></ul>'
    height = f"document.querySelector('main').insertAdjacentHTML('beforeend', {row!r}),"
    height += " document.querySelector('main > .list .grow').getBoundingClientRect().height"
    assert page.evaluate(height) < 48, "what keeps a text wide beside a name keeps it hollow below one"

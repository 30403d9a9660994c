"""What stands beside the screens: a wall without a sign-in, notes on the time axis, a row's menu, a look into it."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Browser, Page, expect

from recovery_ops.rules.enums import State
from tests.browser.axe import EVERYTHING, found_by_axe
from tests.browser.stage import Stage
from tests.support.agents import manage_each
from tests.support.stories import moved

Visit = Callable[..., Page]


def test_a_screen_shows_what_happens_without_a_sign_in_until_its_link_is_over(browser: Browser, stage: Stage) -> None:
    [key] = manage_each(stage.data, "key create --name hall --scope wall")
    with browser.new_context(viewport={"width": 1920, "height": 1080}) as context:
        page = context.new_page()
        page.goto(f"{stage.server.url}/wall/{key}")
        expect(page).to_have_url(f"{stage.server.url}/wall")
        expect(page.get_by_text("search_web is open on 1 of 3", exact=True)).to_be_visible()
        stage.tell(moved(State.OPEN, breaker="crm.update"), instance="r-2")
        expect(page.get_by_text("crm.update is open on 1 of 3", exact=True)).to_be_visible(timeout=30_000)
        expect(page.locator("[data-live]")).to_contain_text("Live")
        assert page.evaluate("document.documentElement.scrollHeight <= innerHeight"), "nobody scrolls a wall"
        assert found_by_axe(page, EVERYTHING) == []
        manage_each(stage.data, f"key revoke {key[: len('ro_12345678')]}")
        expect(page.get_by_text("This wallboard link has expired.")).to_be_visible(timeout=40_000)
        assert page.reload().status == 401  # type: ignore[union-attr]  # it was answered


def test_a_key_notes_something_and_it_stands_on_the_time_axis(visit: Visit) -> None:
    page = visit("/timelines?range=15m")
    page.keyboard.press("n")
    page.get_by_label("What", exact=True).fill("deploy 2.8.1")
    assert found_by_axe(page, EVERYTHING) == [], "with the dialog open"
    page.get_by_role("button", name="Annotate", exact=True).click()
    expect(page.get_by_text("“deploy 2.8.1” added.")).to_be_visible()
    page.goto(page.url.partition("?")[0] + "?range=15m&view=table")
    row = page.get_by_role("row").filter(has_text="deploy 2.8.1")
    expect(row).to_contain_text("annotation")
    row.get_by_role("link").first.click()
    expect(page.get_by_role("heading", name="deploy 2.8.1")).to_be_visible()
    assert found_by_axe(page, EVERYTHING) == []
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("“deploy 2.8.1” deleted.")).to_be_visible()


def test_a_row_has_its_acts_and_can_be_looked_into(visit: Visit) -> None:
    page = visit("/breakers")
    menu = page.get_by_label("Actions for search_web")
    menu.click()
    expect(page.get_by_role("link", name="Probe…")).to_be_visible()
    assert found_by_axe(page, EVERYTHING) == [], "with the menu open"
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="Probe…")).to_be_hidden()
    page.keyboard.press("j")
    page.keyboard.press("Space")
    expect(page.locator("#peek")).to_be_visible()
    expect(page).to_have_url(re.compile(r"peek=breaker-"))
    expect(page.locator("#peek").get_by_text("Observed").first).to_be_visible()
    assert found_by_axe(page, EVERYTHING) == [], "with a row looked into"


def test_axe_finds_nothing_at_the_evidence_of_a_move(visit: Visit) -> None:
    page = visit("/timelines?range=15m&view=table")
    page.locator('a[href^="/moves/"]').first.click()
    expect(page.get_by_role("heading", name="At that moment")).to_be_visible()
    assert found_by_axe(page, EVERYTHING) == []

"""The palette, the settings and saved views without a mouse, and the search without script."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import unquote

import pytest
from playwright.sync_api import Browser, Page, expect

from recovery_ops.rules.events import Escalated
from tests.browser.screens import ADMINS, FORMS, OFFICE_FORMS, SCREENS
from tests.browser.stage import Stage

Visit = Callable[..., Page]


def test_the_palette_finds_opens_and_gives_the_focus_back(visit: Visit) -> None:
    page = visit("/breakers")
    page.keyboard.press("Control+k")
    field = page.get_by_role("dialog").get_by_role("searchbox")
    expect(field).to_be_focused()
    page.keyboard.type("crm")
    expect(page.get_by_role("dialog").get_by_role("link", name="crm.update breaker")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("/")
    expect(field).to_be_focused()
    page.keyboard.type("trip crm")
    expect(page.get_by_role("dialog").get_by_role("link", name="Trip crm.update…")).to_be_visible()
    page.keyboard.press("Enter")  # a verb was typed: its action is the first hit
    expect(page.get_by_role("button", name="Trip breaker")).to_be_visible()
    page = visit("/breakers")
    page.keyboard.press("/")
    expect(page.get_by_role("dialog").get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("crm")
    expect(page.get_by_role("dialog").get_by_role("link", name="crm.update breaker")).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/breakers/crm.update")
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.wait_for_url("**/settings")


def test_shortcuts_are_shown_and_can_be_turned_off_by_keyboard(visit: Visit) -> None:
    page = visit("/settings/you")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog.get_by_role("heading", name="Everywhere")).to_be_in_viewport()
    expect(dialog.get_by_text("Close")).to_be_in_viewport()
    page.keyboard.press("Escape")
    page.get_by_role("group", name="Shortcuts").get_by_role("radio", name="On").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-keys", "off")
    page.wait_for_load_state()  # before that no key is heard
    page.keyboard.press("?")
    page.keyboard.press("g")
    page.keyboard.press("b")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert page.url.endswith("/settings/you")
    page.keyboard.press("Control+k")  # a chord is no single key: it stays
    expect(page.get_by_role("searchbox")).to_be_focused()


def test_a_view_is_saved_by_keyboard_and_opened_from_the_list(visit: Visit) -> None:
    page = visit("/failures?range=1h")
    page.keyboard.press("v")
    name = page.locator("#view-name")
    expect(page.get_by_role("dialog")).to_be_visible()
    name.focus()
    page.keyboard.type("the last hour")
    page.keyboard.press("Enter")
    expect(page.get_by_text("View the last hour saved.")).to_be_visible()
    page.goto(page.url.partition("?")[0])  # by a key, the range would go along
    page.keyboard.press("v")
    page.get_by_role("dialog").get_by_role("link", name="the last hour").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/failures?range=1h*")


def test_a_row_is_looked_into_beside_the_list_and_the_address_keeps_it(visit: Visit) -> None:
    page = visit("/breakers?sort=name")
    page.keyboard.press("j")
    page.keyboard.press(" ")
    pane = page.get_by_role("complementary", name="Peek")
    expect(pane.get_by_role("heading", level=1)).to_contain_text("crm.update")
    page.keyboard.press("j")
    expect(pane.get_by_role("heading", level=1)).to_contain_text("model:large")
    assert "peek=breaker-model%3Alarge" in page.url
    page.reload()
    expect(pane.get_by_role("heading", level=1)).to_contain_text("model:large")
    page.keyboard.press("Escape")
    expect(pane).to_be_hidden()
    assert "peek" not in page.url


def test_breakers_are_chosen_by_keys_and_taken_to_one_form(visit: Visit) -> None:
    page = visit("/breakers?sort=name")
    ways = (("j", "x", "j", "j", "Shift+X"), ("j", "j", "j", "x", "k", "k", "Shift+X"), ("j", "J", "x"))
    for keys, count in zip(ways, (3, 3, 2), strict=True):
        page.goto(page.url)
        for key in keys:
            page.keyboard.press(key)
        expect(page.locator("[data-chosen]")).to_have_text(f"{count} selected")
    page.keyboard.press("f")
    page.wait_for_url("**/bulk?name=crm.update&name=model*")
    expect(page.get_by_role("checkbox", checked=True)).to_have_count(2)
    page.get_by_role("link", name="Cancel").click()
    expect(page.get_by_role("checkbox", name="Select", checked=True)).to_have_count(2)
    page.keyboard.press("Escape")


def test_what_is_done_to_one_row_hangs_on_the_row(visit: Visit) -> None:
    page = visit("/failures?range=1h")
    acts = page.get_by_role("button", name="Actions for").first
    acts.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Assign…").last).to_be_focused()
    page.keyboard.press("Escape")
    expect(acts).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Assign")).to_be_visible()


def test_row_menu_acts_on_its_row_alone(visit: Visit, stage: Stage) -> None:
    for number in range(3):
        stage.tell(
            Escalated(operation=f"publish_{number}", queue="menus", reason="policy_denied"), run=f"menu-{number}"
        )
    page = visit("/escalations?queue=menus")
    rows = page.locator("tr[data-key^=escalation-]")
    expect(rows).to_have_count(3)
    for row in (0, 1):
        rows.nth(row).get_by_role("checkbox").check(force=True)
    key = rows.nth(2).get_attribute("data-key") or ""
    rows.nth(2).get_by_role("button", name="Actions for").click()
    with page.expect_navigation():
        page.locator(".menu-list:popover-open button").first.click()
    page.goto(f"{stage.server.url}/escalations?queue=menus&tab=mine")
    assert [row.get_attribute("data-key") for row in rows.all()] == [key]


def test_brackets_go_to_the_range_before_and_after(visit: Visit) -> None:
    page = visit("/breakers?range=1h")
    with page.expect_navigation():
        page.keyboard.press("[")
    assert re.search(r"from=.*&to=", page.url)


def test_without_script_one_searches_on_a_page(visit: Visit) -> None:
    page = visit("/breakers", java_script_enabled=False)
    page.get_by_role("link", name="Search", exact=True).click()
    page.get_by_role("main").get_by_role("searchbox").fill("search")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name="search_web breaker").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("search_web")


def test_local_times_are_chosen_in_the_menu(visit: Visit) -> None:
    page = visit("/breakers", timezone_id="Europe/Berlin")
    page.get_by_role("button", name="operator, operator: account").click()
    page.get_by_role("button", name="Local times").click()
    expect(page.locator("html")).to_have_attribute("data-zone", "Europe/Berlin")
    page.get_by_role("button", name="operator, operator: account").click()
    page.get_by_role("button", name="Times in UTC").click()
    expect(page.locator("html")).not_to_have_attribute("data-zone", "Europe/Berlin")


# -- every screen, with nothing but keys ------------------------------------------------------------------------------
WATCH = """(isShell) => {
  const shown = (one) => one.checkVisibility({ checkVisibilityCSS: true }) && one.getClientRects().length > 0;
  const words = (one) => one.getAttribute("aria-label") ?? one.textContent.trim().slice(0, 30);
  const name = (one) => `${one.tagName} ${words(one)} ${one.name ?? ""}`;
  const within = isShell ? document : document.querySelector("main");
  if (!isShell) within.focus(); // what stands around it is the same everywhere
  const wanted = "a[href], button, input, select, textarea, summary, [tabindex='0']";
  const groups = new Set();
  window.seen = new Set();
  window.faults = [];
  window.reachable = [...within.querySelectorAll(wanted)].filter((one) => {
    if (one.disabled || one.tabIndex < 0 || one.type === "hidden" || !shown(one)) return false;
    if (one.type !== "radio") return true;
    const group = `${one.form?.action} ${one.name}`; // one of them has the group's place
    return !groups.has(group) && groups.add(group);
  });
  document.addEventListener("focusin", ({ target: one }) => {
    if (window.seen.has(one)) return;
    window.seen.add(one);
    const outlined = [one, one.parentElement, one.labels?.[0]].filter(Boolean).some((host) => {
      const { outlineStyle, outlineWidth } = getComputedStyle(host);
      return outlineStyle !== "none" && parseFloat(outlineWidth) >= 2;
    });
    if (one !== document.body && !outlined && one.id !== "main") window.faults.push(`no focus is seen: ${name(one)}`);
    const box = one.getBoundingClientRect();
    const bar = document.querySelector(".topbar").getBoundingClientRect();
    const isUnder = box.bottom > 0 && box.bottom <= bar.bottom && !one.closest(".topbar, .nav, .skip") && box.height;
    if (isUnder) window.faults.push(`hidden by the head: ${name(one)}`);
  });
  window.missed = () => window.reachable.filter((one) => {
    if (!one.isConnected || !shown(one)) return false;
    return !window.seen.has(one) && !(one.type === "radio" && [...window.seen].some((two) => two.name === one.name));
  }).map((one) => `no key reaches: ${name(one)}`);
  return window.reachable.length;
}"""
PRESSES = """() => {
  window.acted = [];
  const take = (event) => {
    window.acted.push(event.type);
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  document.addEventListener("click", take, true);
  document.addEventListener("submit", take, true);
  const of = (one) => one.dataset.press;
  return [...new Set([...document.querySelectorAll("main [data-press]:not([hidden])")].map(of))];
}"""
OPENERS = "main a[data-dialog], .topbar a[data-dialog], main button[popovertarget], .topbar button[popovertarget]"
"""What opens something over the page."""
OPEN = "dialog[open], :popover-open:not(.nav)"


def used_by_keyboard(page: Page, address: str, *, is_shell: bool = False) -> None:
    """Everything on a screen is reached and seen to be reached, nothing holds the focus, each key does something, and
    what opens is closed by Escape, which gives the focus back.
    """
    page.goto(address)
    number = page.evaluate(WATCH, is_shell)
    for _ in range(number + 12):  # and some more, for what came meanwhile and for the parts of a date
        page.keyboard.press("Tab")
    assert page.evaluate("[...window.missed(), ...window.faults]") == []
    for opener in page.locator(OPENERS).all()[: None if is_shell else 1]:
        if not opener.is_visible() or opener.get_attribute("aria-label") == "Menu":
            continue
        opener.focus()
        page.keyboard.press("Enter")
        expect(page.locator(OPEN)).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator(OPEN)).to_have_count(0)
        expect(opener).to_be_focused()
    page.evaluate("document.activeElement.blur()")
    for key in page.evaluate(PRESSES):
        page.keyboard.press(key)
        said = page.evaluate("[window.acted.splice(0).length, document.querySelectorAll('#toasts .notice').length]")
        assert any(said), f"{key} does nothing"


@pytest.fixture(scope="module")
def seat(browser: Browser, stage: Stage) -> Iterator[Page]:
    """One page for all screens, signed in once after an outage, that does not change by itself."""
    stage.suffer_outage()
    with browser.new_context(reduced_motion="reduce", viewport={"width": 1440, "height": 900}) as context:
        page = stage.sign_in(context)
        page.goto(f"{stage.server.url}/capacity")
        expect(page.locator("#capacity [data-key^=event-]").first).to_be_visible(
            timeout=60_000
        )  # the worker has looked
        yield page


@pytest.mark.parametrize("name", [*SCREENS, *FORMS])
def test_every_screen_is_used_by_keyboard_alone(name: str, seat: Page, stage: Stage) -> None:
    used_by_keyboard(seat, stage.server.url + (SCREENS | FORMS)[name], is_shell=name == "overview")


@pytest.mark.parametrize("name", [*ADMINS, *OFFICE_FORMS])
def test_every_screen_of_an_administrator_is_used_by_keyboard_alone(name: str, office: Page, stage: Stage) -> None:
    office.set_viewport_size({"width": 1440, "height": 900})
    used_by_keyboard(office, stage.server.url + (ADMINS | OFFICE_FORMS)[name].format(prefix=stage.prefix))


def test_a_range_is_shifted_widened_and_pinned_by_keys(seat: Page, stage: Stage) -> None:
    seat.goto(f"{stage.server.url}/failures?range=1h")
    for keys, address in (
        (("t", "z"), r"from=now-120m&to=now"),
        (("t", "a"), r"from=\d{4}-\d\d-\d\dT.*Z&to=\d{4}-"),
        (("t", "ArrowLeft"), r"from=\d{4}-\d\d-\d\dT.*Z&to=\d{4}-"),
        (("t", "n"), r"from=now-120m&to=now"),
    ):
        with seat.expect_navigation():
            for key in keys:
                seat.keyboard.press(key)
        assert re.search(address, unquote(seat.url)), seat.url

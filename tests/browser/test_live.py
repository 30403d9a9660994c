"""Pages that change without being reloaded, and without taking anything out of the reader's hands."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from recovery_ops.rules.enums import Category, State, Trigger
from tests.browser.stage import Stage
from tests.browser.virtual import VIRTUAL, weight_of
from tests.support.processes import Server
from tests.support.stories import failed, heartbeat, moved

PATIENCE_MS = 15_000
MARKED = "window.isStillThisPage === true"
KEYS = "rows => rows.map(row => row.dataset.key)"
CLOCK = re.compile(r"\d\d:\d\d:\d\d")
"""A banner says since when what is shown is not live."""
TURN = """isHidden => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => isHidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
"""The tab is hidden, or looked at again."""
PASS = "([seconds, every]) => pass(seconds, every)"

Visit = Callable[..., Page]


def move(stage: Stage, breaker: str, to: State, instance: str = "r-0") -> None:
    before = State.OPEN if to is State.CLOSED else State.CLOSED
    stage.tell(moved(to, before=before, breaker=breaker, trigger=Trigger.FAILURE_RATE), instance=instance)


def mark(page: Page) -> None:
    """Leave a trace that a reload would wipe out."""
    page.evaluate("window.isStillThisPage = true")


@pytest.mark.default
def test_a_fact_is_on_the_page_without_a_reload(stage: Stage, visit: Visit) -> None:
    page = visit("/breakers/model:large")
    mark(page)
    expect(page.get_by_role("heading", level=1)).to_contain_text("closed")
    move(stage, "model:large", State.OPEN)
    expect(page.get_by_role("heading", level=1)).to_contain_text("open 1/3", timeout=PATIENCE_MS)
    assert page.evaluate(MARKED)
    move(stage, "model:large", State.CLOSED)
    expect(page.get_by_role("heading", level=1)).to_contain_text("closed", timeout=PATIENCE_MS)


def test_what_was_opened_a_moment_ago_is_not_asked_for_at_once(stage: Stage, visit: Visit) -> None:
    """A pulse that comes while a dear page is still being drawn waits for the page's own gap."""
    page = visit("/failures")
    gap_ms = 1000 * int(str(page.locator("#failures").get_attribute("data-gap-s")))
    stage.tell(failed(Category.TIMEOUT, "told.at_once"))
    expect(page.locator("#failures")).to_contain_text("told.at_once", timeout=PATIENCE_MS)
    asked = "performance.getEntriesByType('resource').filter(one => one.initiatorType === 'fetch')"
    times = page.evaluate(f"{asked}.filter(one => one.name.endsWith('/failures')).map(one => one.startTime)")
    assert times
    assert min(times) >= gap_ms


def test_the_navigation_counts_what_does_not_flow(stage: Stage, visit: Visit) -> None:
    page = visit("/audit")
    count = page.locator("#count-breakers")
    expect(count).to_have_text(re.compile(r"\b\d+$"))
    already = int(count.inner_text().split()[-1])  # what other tests of this stage left open
    move(stage, "nav.counted", State.OPEN)
    expect(count).to_have_text(re.compile(rf"\b{already + 1}$"), timeout=PATIENCE_MS)
    move(stage, "nav.counted", State.CLOSED)
    expect(count).to_have_text(re.compile(rf"\b{already}$"), timeout=PATIENCE_MS)


def test_focus_selection_and_open_menus_survive(stage: Stage, visit: Visit) -> None:
    page = visit("/breakers")
    page.get_by_role("link", name="crm.update").focus()
    page.get_by_role("button", name="operator, operator: account").click()
    expect(page.get_by_text("Shortcuts are on")).to_be_visible()
    page.get_by_role("link", name="crm.update").focus()
    move(stage, "crm.update", State.OPEN)
    expect(page.locator("tr[data-key='breaker-crm.update']")).to_contain_text("open", timeout=PATIENCE_MS)
    expect(page.get_by_role("link", name="crm.update")).to_be_focused()
    move(stage, "crm.update", State.CLOSED)


def test_rows_stay_where_they_are_while_the_pointer_is_among_them(stage: Stage, visit: Visit) -> None:
    page = visit("/breakers")
    rows = page.locator("tbody[data-rows] tr")
    before = rows.evaluate_all(KEYS)
    rows.nth(1).hover()
    move(stage, before[-1].removeprefix("breaker-"), State.OPEN)
    expect(rows.last).to_contain_text("open", timeout=PATIENCE_MS)
    assert rows.evaluate_all(KEYS) == before
    pill = page.locator("[data-pending-pill]")
    expect(pill).to_be_visible()
    pill.click()
    expect(rows.last).not_to_have_attribute("data-key", before[-1])
    expect(pill).to_be_hidden()
    move(stage, before[-1].removeprefix("breaker-"), State.CLOSED)


def test_new_rows_wait_behind_a_pill_while_somebody_is_at_the_table(stage: Stage, visit: Visit) -> None:
    page = visit("/agents")
    rows = page.locator("tbody[data-rows] tr")
    before = rows.evaluate_all(KEYS)
    rows.first.hover()
    for number in range(12):
        stage.tell(heartbeat(), instance=f"waiting-{len(before)}-{number}")
    pill = page.locator("[data-pending-pill]")
    expect(pill).to_contain_text("12", timeout=PATIENCE_MS)
    assert rows.evaluate_all(KEYS) == before
    pill.click()
    expect(rows).to_have_count(len(before) + 12)
    expect(pill).to_be_hidden()


def test_what_is_read_further_down_stays_there(stage: Stage, visit: Visit) -> None:
    for number in range(12):  # more than such a window shows at once
        stage.tell(heartbeat(), instance=f"many-{number}")
    page = visit("/agents", viewport={"width": 1280, "height": 300})
    rows = page.locator("tbody[data-rows] tr")
    expect(rows.nth(12)).to_be_attached(timeout=PATIENCE_MS)
    before = rows.count()
    rows.last.evaluate("row => row.scrollIntoView({ block: 'end' })")
    page.mouse.move(2, 2)
    stage.tell(heartbeat(), instance=f"aaa-{before}")
    pill = page.locator("[data-pending-pill]")
    expect(pill).to_have_text("1 new", timeout=PATIENCE_MS)
    expect(pill).to_be_in_viewport()
    assert rows.count() == before
    pill.click()
    expect(rows).to_have_count(before + 1)


def test_a_hidden_page_asks_for_nothing_and_catches_up(stage: Stage, visit: Visit) -> None:
    page = visit("/agents")
    expect(page.locator("button.live")).to_contain_text("Live")
    page.evaluate(TURN, True)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    name = f"meanwhile-{page.locator('tbody[data-rows] tr').count()}"
    stage.tell(heartbeat(), instance=name)
    seen = visit("/agents")  # another page has it, so the pulse has gone out
    expect(seen.get_by_role("row").filter(has_text=name)).to_be_visible(timeout=PATIENCE_MS)
    assert asked == []
    expect(page.get_by_role("row").filter(has_text=name)).to_have_count(0)
    page.evaluate(TURN, False)
    expect(page.get_by_role("row").filter(has_text=name)).to_be_visible(timeout=PATIENCE_MS)


@pytest.mark.default
def test_paused_page_is_refreshed_by_its_reader_alone(stage: Stage, visit: Visit) -> None:
    page = visit("/agents")
    live = page.locator("button.live")
    expect(live).to_contain_text("Live")
    live.click()
    page.wait_for_timeout(1_200)  # a refresh that began before the pause ends
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    stage.tell(heartbeat(), instance="heard-late")
    seen = visit("/agents")  # another page has it, so the pulse has gone out
    expect(seen.get_by_role("row").filter(has_text="heard-late")).to_be_visible(timeout=PATIENCE_MS)
    page.evaluate(TURN, True)
    page.evaluate(TURN, False)
    page.wait_for_timeout(100)
    assert asked == []
    live.click()
    expect(page.get_by_role("row").filter(has_text="heard-late")).to_be_visible(timeout=PATIENCE_MS)


@pytest.mark.parametrize(
    "path", ["/", "/breakers", "/capacity", "/escalations", "/failures", "/failures/f00d", "/runs", "/agents", "/audit"]
)
def test_every_live_list_has_rows_with_names_of_their_own_and_a_pill(path: str, visit: Visit) -> None:
    page = visit(path)
    faults = page.evaluate(
        """() => [...document.querySelectorAll("[data-refresh-url] [data-rows]")].flatMap((rows) => {
          const keys = [...rows.children].map((row) => row.dataset.key ?? "");
          const isNamed = keys.every(Boolean) && new Set(keys).size === keys.length;
          const pill = rows.closest(".panel")?.querySelector("[data-pending-pill][data-keep]");
          return isNamed && pill ? [] : [rows.outerHTML.slice(0, 200)];
        })"""
    )
    assert faults == []


def test_seven_tabs_are_live_at_once(stage: Stage, visit: Visit) -> None:
    first = visit("/agents")
    pages = [first, *(first.context.new_page() for _ in range(6))]
    for page in pages[1:]:
        page.goto(f"{stage.server.url}/agents")
    for page in pages:
        page.bring_to_front()
        instance = f"late-{pages.index(page)}"
        stage.tell(heartbeat(), instance=instance)
        expect(page.get_by_role("row").filter(has_text=instance)).to_be_visible(timeout=PATIENCE_MS)


def test_silence_is_said_and_nothing_old_looks_new(browser: Browser, tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server, browser.new_context() as context:
        stage = Stage(server, tmp_path / "data").prepare()
        page = stage.sign_in(context)
        page.clock.install()
        page.goto(f"{server.url}/agents")
        expect(page.locator("button.live")).to_have_attribute("data-live", "on")
        server.end()
        page.clock.fast_forward(31_000)
        expect(page.locator("#live-banner")).to_contain_text(CLOCK, timeout=PATIENCE_MS)
        expect(page.locator("button.live")).to_have_attribute("data-live", "stale")


def test_a_page_whose_stream_alone_fails_is_not_called_live_and_asks_every_ten_seconds(
    stage: Stage, visit: Visit
) -> None:
    page = visit("/settings")
    page.add_init_script("delete window.SharedWorker")  # what a worker of one tab asks for can be refused here
    page.route("**/live/stream", lambda route: route.abort())
    page.clock.install()
    page.goto(f"{stage.server.url}/agents")
    light, banner = page.locator("button.live"), page.locator("#live-banner")
    expect(light).to_have_attribute("data-live", "on")
    page.clock.fast_forward(31_000)
    expect(banner).to_contain_text(CLOCK, timeout=PATIENCE_MS)
    for number in range(2):
        name = f"unheard-{number}"
        stage.tell(heartbeat(), instance=name)
        page.clock.fast_forward(10_500)
        expect(page.get_by_role("row").filter(has_text=name)).to_be_visible(timeout=PATIENCE_MS)
        page.clock.run_for(2_000)
        assert light.get_attribute("data-live") == "stale"
        assert banner.is_visible()
    page.unroute("**/live/stream")
    expect(light).to_have_attribute("data-live", "on", timeout=4 * PATIENCE_MS)
    expect(banner).to_be_hidden()


HOURS = 8
UPDATES = {"/": (60, 240), "/escalations": (200, 15), "/timelines?range=15m": (20, 900)}
"""How many updates come first, which is when what is made once is made; and then one in how many seconds. To draw a
figure is dear."""

COMPILED_BYTES = 200_000
"""The browser compiles on while time passes: 130 kB of heap were seen so, with nodes and listeners the same."""


@pytest.mark.parametrize("path", UPDATES)
def test_eight_hours_of_live_updates_leave_nothing_behind(path: str, stage: Stage, visit: Visit) -> None:
    warm, every_s = UPDATES[path]
    page = visit("/settings")
    page.add_init_script(VIRTUAL)
    page.goto(stage.server.url + path)
    if "timelines" in path:
        page.locator("#figure").hover()
        expect(page.locator("#figure .main-svg").first).to_be_visible(timeout=PATIENCE_MS)
    page.evaluate("keep()")
    stage.tell(*(moved(State.OPEN, breaker=f"hours-{number}") for number in range(9)), run="hours")
    stage.tell(*(failed(Category.TIMEOUT, f"hours-{number}") for number in range(9)), run="hours")
    stage.tell(*(moved(State.CLOSED, breaker="hours-0"), heartbeat()), instance="hours")
    page.evaluate("keep().then(replay)")
    session = page.context.new_cdp_session(page)
    planned = page.evaluate(PASS, [warm * every_s, every_s])
    before = weight_of(session)
    asked = page.evaluate("answers()")
    assert page.evaluate(PASS, [HOURS * 3_600, every_s]) <= planned
    after = weight_of(session)
    assert page.evaluate("answers()") - asked >= HOURS * 3_600 / every_s
    assert after.heap_bytes <= 1.1 * before.heap_bytes + COMPILED_BYTES
    assert after.nodes <= 1.1 * before.nodes
    assert after.listeners <= before.listeners + 10


@pytest.mark.parametrize("how", ["key", "button"])
def test_a_reader_may_stop_the_page_from_changing(how: str, stage: Stage, visit: Visit) -> None:
    page = visit("/agents")
    light = page.locator("button.live")
    if how == "key":
        page.keyboard.press("p")
    else:
        light.click()
    expect(light).to_contain_text("Paused")
    expect(light).to_have_attribute("aria-pressed", "true")
    stage.tell(heartbeat(), instance=f"unseen-{how}")
    row = page.get_by_role("row").filter(has_text=f"unseen-{how}")
    expect(row).to_have_count(0)
    light.click()
    expect(row).to_be_visible(timeout=PATIENCE_MS)


def test_shortcuts_can_be_switched_off(visit: Visit) -> None:
    page = visit("/agents")
    page.get_by_role("button", name="operator, operator: account").click()
    page.get_by_role("button", name="Shortcuts are on").click()
    page.keyboard.press("Escape")
    page.keyboard.press("p")
    expect(page.locator("button.live")).to_contain_text("Live")


def test_the_first_fact_turns_the_first_page_into_the_overview(browser: Browser, tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server, browser.new_context() as context:
        stage = Stage(server, tmp_path / "data").open_doors()
        page = stage.sign_in(context)
        expect(page.get_by_role("heading", level=1)).to_have_text("Connect your first agent")
        mark(page)
        stage.tell(heartbeat(), moved(State.CLOSED))
        expect(page.get_by_role("heading", level=1)).to_have_text("Overview", timeout=PATIENCE_MS)
        expect(page.locator("#strip .lane a", has_text="search_web")).to_be_visible(timeout=PATIENCE_MS)
        assert page.evaluate(MARKED)

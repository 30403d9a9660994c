"""Ways through the console, to their end: what is typed, put away, held still, printed and saved."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Dialog, Page, expect

from recovery_ops.rules.enums import Category, State, Trigger
from tests.browser.axe import hearing
from tests.browser.journeys import PATIENCE_MS, Visit, editor_of, picture, point_at
from tests.browser.stage import Stage
from tests.support.stories import failed, moved

HELD = "window.held.isConnected && window.held.contains(document.activeElement)"
"""Whether the row that was kept as `held` is still there, and has the focus."""


@pytest.fixture(scope="module")
def storm(stage: Stage) -> Stage:
    """One backend is overloaded in three runs on two instances, and its breaker tries again."""
    overloaded = failed(Category.OVERLOADED, "model:large", provider="helios", model="large", status_code=529)
    for number in range(6):
        stage.tell(overloaded, overloaded, instance=f"r-{number % 2}", ago_s=6 - number, run=f"run-{number % 3}")
    trying = moved(State.HALF_OPEN, before=State.OPEN, breaker="model:large", trigger=Trigger.WAIT_ELAPSED)
    stage.tell(trying, instance="r-0")
    return stage


def test_what_is_typed_into_a_policy_is_checked_while_it_is_typed(visit: Visit, stage: Stage, tmp_path: Path) -> None:
    """A fault stands at its field a moment after it was typed, and goes as soon as it is mended; nothing is pressed."""
    page = visit("/policies/proposals/new", role=editor_of(stage))
    field = page.locator("[id='capacity_events.least_failures']")
    field.fill("1")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.locator(f"[id='{field.get_attribute('name')}-error']")).to_contain_text(
        re.compile(r"\b2\b\D+\b10000\b")
    )
    expect(field).to_be_focused()
    expect(field).to_have_value("1")
    picture(page, tmp_path, "typed")
    field.fill("6")
    expect(field).not_to_have_attribute("aria-invalid", "true")
    page.goto(f"{stage.server.url}/policies/proposals/new?mode=json")
    text = page.get_by_label("Document as JSON")
    whole = text.input_value()
    text.fill('{"rules": [}')
    expect(page.locator("#text-error")).to_contain_text(re.compile(r"\b1\b\D+\b12\b"))
    text.fill(whole)
    expect(page.locator("#text-error")).to_have_count(0)
    expect(text).to_have_value(whole)


def test_what_is_typed_into_a_policy_is_not_left_by_mistake_and_is_saved_by_a_key(visit: Visit, stage: Stage) -> None:
    page = visit("/policies/proposals/new", role=editor_of(stage))
    title = page.get_by_label("Title")
    asked: list[str] = []

    def stay(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.dismiss()

    page.once("dialog", stay)
    title.press_sequentially("kept")
    page.get_by_role("link", name="Cancel").click(no_wait_after=True)
    expect(title).to_have_value("kept")
    assert asked == ["beforeunload"]
    page.keyboard.press("Control+s")
    expect(page.get_by_role("heading", name="kept")).to_be_visible(timeout=PATIENCE_MS)
    page.wait_for_load_state()  # a key that comes before the scripts is lost
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", level=1, name="Replay")).to_be_visible(timeout=PATIENCE_MS)
    assert asked == ["beforeunload"]


def test_causes_are_put_away_by_keyboard(visit: Visit, storm: Stage) -> None:
    for name in ("away-1", "away-2"):
        storm.tell(failed(Category.BUG, "put_away", fingerprint=f"{name}-{id(visit)}"))
    page = visit("/failures?range=15m&operation=put_away")
    rows = page.locator("table[data-queue] tbody tr")
    expect(rows.first).to_be_visible(timeout=PATIENCE_MS)
    total = rows.count()
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("Shift+X")
    page.keyboard.press("s")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading", name="Archive 2 issues")).to_be_visible()
    dialog.get_by_text("7 days").click()
    dialog.get_by_role("button", name="Archive").click()
    expect(page.get_by_role("status", name="Notices")).to_contain_text("2", timeout=PATIENCE_MS)
    expect(rows).to_have_count(total - 2)


STOP = "Stop load shedding"


def shed(page: Page, choice: str) -> None:
    """Start or stop load shedding."""
    page.goto("/".join(page.url.split("/", 3)[:3]) + "/shed")
    page.get_by_label(choice).check(force=True)
    page.get_by_label("Reason").fill("The ledger needs what there is.")
    page.locator("#confirm").fill("dev")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("form.act header")).to_have_attribute("data-shedding", "no" if choice == STOP else "now")


@pytest.mark.parametrize("height", [320, 1400])
def test_rows_stay_under_the_pointer_when_a_notice_comes_and_goes_above_them(
    height: int, visit: Visit, stage: Stage, tmp_path: Path
) -> None:
    other = visit("/shed")
    if other.get_by_label(STOP).count():  # what a try before this one left
        shed(other, STOP)
    page = visit("/breakers", viewport={"width": 1280, "height": height})
    row = page.locator("tbody[data-rows] tr").nth(1)
    row.get_by_role("link").focus()
    row.evaluate("row => (window.held = row)")
    point_at(page, row)
    said = page.get_by_text("Load shedding is active.")
    shed(other, "Shed sheddable calls only")
    expect(said).to_be_attached(timeout=PATIENCE_MS)
    picture(page, tmp_path, f"held-{height}")
    shed(other, STOP)
    expect(said).not_to_be_attached(timeout=PATIENCE_MS)
    assert len(page.evaluate("window.seen")) == 1, page.evaluate("window.seen")
    assert page.evaluate(HELD)


PAPER = {
    "overview": "/",
    "timelines": "/timelines?range=15m",
    "escalation": "/escalations/1",
    "run": "/runs/run-1",
    "report": "/report",
}


@pytest.mark.usefixtures("storm")
@pytest.mark.parametrize("name", PAPER)
def test_on_paper_is_what_one_reads_and_nothing_else(name: str, visit: Visit, tmp_path: Path) -> None:
    page = visit(PAPER[name], viewport={"width": 794, "height": 1123})  # A4 at 96 dots an inch
    if name == "timelines":
        page.locator("#figure").hover()
        expect(page.locator("#figure .main-svg").first).to_be_visible(timeout=PATIENCE_MS)
        assert page.locator("#figure .bars path").count() > 0
    page.emulate_media(media="print")
    for gone in (".nav", ".topbar", ".button", ".toasts", ".tabs", ".crumbs", "[download]", "details:not([open])"):
        assert page.locator(f"{gone}:visible").count() == 0, gone
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 794
    assert page.evaluate(
        "[...document.querySelectorAll('.table')].every(one => one.scrollWidth <= one.clientWidth + 1)"
    )
    assert page.pdf().startswith(b"%PDF-")
    heads = "[...document.querySelectorAll('thead')].map(one => getComputedStyle(one).display)"
    assert set(page.evaluate(heads)) <= {"table-header-group"}, "a table that goes on has its head on each page"
    picture(page, tmp_path, f"paper-{name}")


@pytest.mark.usefixtures("storm")
@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_figure_is_saved_as_a_picture(kind: str, visit: Visit, tmp_path: Path) -> None:
    page = visit("/timelines?range=15m")
    with hearing(page) as heard, page.expect_download() as started:
        page.get_by_role("button", name=kind.upper(), exact=True).click()
    assert heard == [], "the page's policy refuses nothing of it"
    started.value.save_as(tmp_path / f"figure.{kind}")
    content = (tmp_path / f"figure.{kind}").read_bytes()
    assert started.value.suggested_filename.startswith("timelines-last-15-minutes-")
    assert started.value.suggested_filename.endswith(f".{kind}")
    if kind == "png":
        assert content.startswith(b"\x89PNG")
        assert len(content) > 10_000
    else:
        said = content.decode()
        assert "<title>Timelines · Last 15 minutes" in said
        assert "search_web" in said
        assert "token:" not in said
        assert ">half-open" in said, "a picture has a legend"
        assert 'id="m-half_open"' in said
        assert not re.search(r'style="[^"]*var\(|(?:fill|stroke|color)="[^"]*var\(', said), (
            "nothing of the page is needed to see it"
        )

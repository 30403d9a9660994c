"""Drawings say what they show at the pointer and by the keyboard; legends filter; the page's policy refuses nothing."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.stage import Stage

PATIENCE_MS = 20_000
NOTE_REFUSED = """window.refused = [];
const note = (one) => window.refused.push([one.effectiveDirective, one.target?.nodeName]);
addEventListener("securitypolicyviolation", note);"""
DRAWN = """(name) =>
  document.getElementById("figure").data.filter((one) => one.name === name && one.visible !== false).length"""

Visit = Callable[..., Page]

pytestmark = pytest.mark.usefixtures("stage")


def middle(one: Locator, share: float = 0.5) -> tuple[float, float]:
    one.scroll_into_view_if_needed()
    box = one.bounding_box()
    assert box is not None
    return box["x"] + box["width"] * share, box["y"] + box["height"] / 2


def shown(page: Page, told: Locator, place: Callable[[], tuple[float, float]]) -> tuple[float, float]:
    """Point at a place until `told` is there: the page is live, and what it shows moves on below the pointer."""
    for _ in range(20):
        x, y = place()
        page.mouse.move(x - 1, y)
        page.mouse.move(x, y)
        if told.count():
            return x, y
        page.wait_for_timeout(500)
    raise AssertionError(f"nothing is told at {place()}")


def widest(drawing: Locator) -> Locator:
    """The part of a drawing that is easiest to point at."""
    expect(drawing.locator(":has(> title)").first).to_be_attached(timeout=PATIENCE_MS)
    parts = drawing.locator(":has(> title)").all()
    return max(parts, key=lambda one: (one.bounding_box() or {"width": 0.0})["width"])


def issue_href(page: Page) -> str:
    return page.locator("main th.cause a").first.get_attribute("href") or ""


def opened(visit: Visit, path: str) -> Page:
    """A page by its path; `issue` stands for the most frequent one."""
    page = visit("/failures?range=15m" if path == "issue" else path)
    if path == "issue":
        page.goto(page.url.partition("/failures")[0] + issue_href(page))
    return page


@pytest.mark.parametrize(
    ("path", "drawing"),
    [
        ("/failures?range=15m", "svg.histogram"),
        ("issue", "svg.histogram"),
        ("/failures/f00d?range=15m", "svg.stacked"),
        ("/?range=15m", ".lanes-view .lane svg[role=group]"),
        ("/capacity?range=15m", ".lanes-view .lane svg"),
        ("/breakers", "svg.strip"),
    ],
)
def test_pointer_reads_value_with_crosshair(visit: Visit, path: str, drawing: str) -> None:
    page = opened(visit, path)
    one = page.locator(f"main {drawing}").first
    words = widest(one).locator("title").text_content() or "nothing"
    if "lane" in drawing or "strip" in drawing:
        words, *_ = words.partition(":")  # the state; its times move on
    x, _ = shown(page, page.locator("output.values", has_text=words), lambda: middle(widest(one)))
    line = page.locator(".crosshair").bounding_box()
    assert line is not None
    assert abs(line["x"] - x) < 2
    page.mouse.move(2, 2)
    expect(page.locator("output.values")).to_have_count(0)


def test_line_in_a_list_reads_its_values(visit: Visit) -> None:
    page = visit("/failures?range=15m")
    one = page.locator("main svg.spark").first
    values = (one.get_attribute("data-values") or "").split(" ")
    page.mouse.move(*middle(one, 0.99))
    expect(page.locator("output.values")).to_have_text(
        re.compile(rf"^\d\d:\d\d.*: {'no data' if values[-1] == '-' else values[-1]}$")
    )


@pytest.mark.parametrize("path", ["/failures?range=15m", "issue"])
def test_keys_read_every_bar_and_open_it(visit: Visit, path: str) -> None:
    page = opened(visit, path)
    chart = page.locator("main svg.histogram")
    bars = chart.locator("a:has(> title)")
    words = bars.locator("title").all_text_contents()
    chart.focus()
    read = list[str]()
    page.keyboard.press("Home")
    for _ in words:
        read.append(page.locator("output.values").text_content() or "")
        page.keyboard.press("ArrowRight")
    assert read == words
    page.keyboard.press("Enter")
    page.wait_for_url("**from=*")


def test_keys_move_between_lanes(visit: Visit) -> None:
    page = visit("/?range=15m")
    lanes = page.locator("main .lanes-view").first
    lanes.focus()
    page.keyboard.press("End")
    first = page.locator("output.values").text_content() or ""
    page.keyboard.press("ArrowDown")
    second = page.locator("output.values").text_content() or ""
    assert first.partition(":")[0] != second.partition(":")[0], "each lane says its name"
    line, box = page.locator(".crosshair").bounding_box(), lanes.bounding_box()
    assert line is not None
    assert box is not None
    assert line["height"] > 40, "over all lanes"


def test_keys_read_on_where_page_scrolls(visit: Visit) -> None:
    page = visit("/?range=15m", viewport={"width": 1280, "height": 420})
    lanes = page.locator("main .lanes-view").first
    lanes.focus()
    page.keyboard.press("End")
    scrolled = page.evaluate("new Promise((done) => { onscroll = () => setTimeout(done, 50, true); scrollBy(0, 30); })")
    assert scrolled
    expect(page.locator("output.values")).to_have_count(1)
    line, box = page.locator(".crosshair").bounding_box(), lanes.locator("svg:has(title)").first.bounding_box()
    assert line is not None
    assert box is not None
    assert abs(line["y"] - box["y"]) < 2, "it moved with the lanes"


@pytest.fixture
def figure(visit: Visit) -> Page:
    page = visit("/")
    page.add_init_script(NOTE_REFUSED)
    page.goto(page.url.rstrip("/") + "/timelines?range=15m")
    page.locator("#figure").hover()
    expect(page.locator("#figure .main-svg").first).to_be_visible(timeout=PATIENCE_MS)
    return page


def bar(figure: Page) -> tuple[float, float]:
    """The middle of the widest state that is drawn."""
    boxes = [one.bounding_box() for one in figure.locator("#figure .bars path").all()]
    widest = max((one for one in boxes if one), key=lambda one: one["width"])
    return widest["x"] + widest["width"] / 2, widest["y"] + widest["height"] / 2


def test_policy_refuses_nothing_of_a_figure(figure: Page) -> None:
    box = figure.locator("#figure .nsewdrag").first.bounding_box()
    assert box is not None
    for share in range(20, 100, 4):
        figure.mouse.move(box["x"] + box["width"] * share / 100, box["y"] + 10, steps=2)
    shown(figure, figure.locator("#figure .hoverlayer text").first, lambda: bar(figure))
    figure.mouse.move(box["x"] + box["width"] * 0.96, box["y"] + 10)
    figure.mouse.down()
    figure.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 10, steps=6)
    figure.mouse.up()
    assert figure.evaluate("window.refused") == []


@pytest.mark.parametrize(
    ("path", "name"), [("/timelines?range=15m", "figure"), ("/breakers/search_web?range=15m", "states")]
)
def test_drawing_reads_values_without_plotly(visit: Visit, path: str, name: str) -> None:
    page = visit("/")
    page.route("**/plotly.min*.js", lambda route: route.abort())
    page.goto(page.url.rstrip("/") + path)
    drawing = page.locator(f"#{name}")
    drawing.hover()
    box = drawing.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 60)
    line = page.locator(".cursor-line")
    expect(line.locator("span", has_text="closed").first).to_be_visible()
    at = line.locator("i").bounding_box()
    assert at is not None
    assert abs(at["x"] - box["x"] - box["width"] * 0.6) < 2
    page.mouse.move(2, 2)
    expect(line).to_have_count(0)
    if name == "figure":
        page.locator("#cursor summary").click()
    page.locator("[data-cursor-slider]").press("ArrowLeft")
    expect(line).to_have_count(1)
    assert "closed" in (page.locator("[data-cursor-slider]").get_attribute("aria-valuetext") or "")
    expect(page.locator("[data-still]")).to_have_count(1 if name == "figure" else 2)


def test_legend_filters(figure: Page) -> None:
    key = figure.locator("[data-times=figure] [data-trace=closed] button")
    assert figure.evaluate(DRAWN, "closed") == 1
    expect(key).to_have_attribute("aria-pressed", "true")
    key.click()
    expect(key).to_have_attribute("aria-pressed", "false")
    figure.wait_for_function(f"name => ({DRAWN})(name) === 0", arg="closed", timeout=PATIENCE_MS)
    key.press("Enter")
    figure.wait_for_function(f"name => ({DRAWN})(name) === 1", arg="closed", timeout=PATIENCE_MS)


def test_segment_leads_to_runs_issues_and_evidence(figure: Page, stage: Stage) -> None:
    shown(figure, figure.locator("#figure .hoverlayer text").first, lambda: bar(figure))
    figure.mouse.down()
    figure.mouse.up()
    links = figure.locator("#evidence [data-links] a")
    expect(links.first).to_be_visible()
    hrefs = links.evaluate_all("all => all.map((one) => one.getAttribute('href'))")
    found = {next((kind for kind in ("/moves/", "/runs?", "/failures?") if one.startswith(kind)), "") for one in hrefs}
    assert found >= {"/moves/", "/runs?", "/failures?"}
    for href in hrefs:
        assert figure.request.get(stage.server.url + href).status == 200

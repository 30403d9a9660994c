"""Figures in the browser: drawn in the page's colours, kept live without losing the zoom, and readable without them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

from playwright.sync_api import Page, Route, expect

from recovery_ops.rules.enums import State
from tests.browser.stage import Stage
from tests.support.stories import moved

PATIENCE_MS = 20_000
RANGE = "document.getElementById('figure').layout.xaxis.range.map(one => Date.parse(one + 'Z'))"

Visit = Callable[..., Page]


def drawn(page: Page, name: str = "figure") -> None:
    """Go to a figure, and wait until plotly has drawn it."""
    page.locator(f"#{name}").hover()
    expect(page.locator(f"#{name} .main-svg").first).to_be_visible(timeout=PATIENCE_MS)


def test_plotly_is_loaded_where_somebody_goes_to_a_chart_and_nowhere_else(visit: Visit) -> None:
    page = visit("/")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for path in ("/breakers", "/agents", "/audit", "/policies", "/"):
        page.goto("/".join(page.url.split("/", 3)[:3]) + path)
    assert not [url for url in asked if "plotly" in url]
    page.goto("/".join(page.url.split("/", 3)[:3]) + "/timelines?range=15m")
    expect(page.locator("button.live")).to_contain_text("Live")
    expect(page.locator("#figure .lane", has_text="search_web").first).to_be_visible()
    assert not [url for url in asked if "plotly.min" in url or "figure?" in url]
    drawn(page)
    assert [url for url in asked if "plotly.min" in url]


def test_a_theme_changes_the_colours_of_a_figure(visit: Visit) -> None:
    page = visit("/timelines?range=15m", color_scheme="light")
    drawn(page)
    fills = "[...document.querySelectorAll('#figure .bars path')].map(path => path.style.fill).join()"
    light = page.evaluate(fills)
    page.get_by_role("button", name="Switch theme").click()
    page.wait_for_function(f"was => {fills} !== was", arg=light, timeout=PATIENCE_MS)
    assert "token:" not in page.evaluate("document.getElementById('figure').outerHTML")


def test_new_facts_change_a_figure_and_leave_the_zoom_alone(visit: Visit, stage: Stage) -> None:
    page = visit("/timelines?range=15m")
    drawn(page)
    box = page.locator("#figure .nsewdrag").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 10, steps=5)
    page.mouse.up()
    reset = page.get_by_role("button", name="Whole range")
    expect(reset).to_be_visible()
    zoomed = page.evaluate(RANGE)
    page.evaluate("window.bars = document.getElementById('figure').data.length")
    stage.tell(moved(State.OPEN, breaker="model:large"))
    expect(page.get_by_text("model:large (open 1/3, most closed)").first).to_be_visible(timeout=PATIENCE_MS)
    assert page.evaluate(RANGE) == zoomed
    reset.click()
    page.wait_for_function(f"was => {RANGE}[0] < was[0]", arg=zoomed, timeout=PATIENCE_MS)
    expect(reset).to_be_hidden()


def dragged(page: Page, selector: str, begin: float, end: float) -> None:
    """Drag over a drawing, from one share of its width to another."""
    drawing = page.locator(selector).first
    drawing.scroll_into_view_if_needed()
    box = drawing.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * begin, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * end, box["y"] + 10, steps=5)
    page.mouse.up()


def asked(page: Page) -> tuple[datetime, datetime]:
    """The instants that the address of a page says."""
    query = parse_qs(urlsplit(page.url).query)
    return datetime.fromisoformat(query["from"][0]), datetime.fromisoformat(query["to"][0])


def test_what_is_dragged_over_a_figure_stands_in_the_address_and_a_reload_draws_it(visit: Visit) -> None:
    page = visit("/timelines?range=15m&order=failures")
    drawn(page)
    whole = page.evaluate(RANGE)
    dragged(page, "#figure .nsewdrag", 0.5, 0.9)
    page.wait_for_url("**from=*")
    begins, ends = asked(page)
    assert abs(begins.timestamp() * 1000 - (whole[0] + (whole[1] - whole[0]) * 0.5)) < 5_000
    assert abs((ends - begins).total_seconds() - 15 * 60 * 0.4) < 5
    assert "range=" not in page.url
    page.get_by_role("link", name="Only this range").click()
    expect(page.get_by_role("heading", name="Chosen range")).to_be_visible()
    assert asked(page) == (begins, ends)
    assert "order=failures" in page.url
    page.go_back()
    drawn(page)
    assert "range=15m" in page.url, "the way back leads to the whole range"
    dragged(page, "#figure .nsewdrag", 0.2, 0.6)
    expect(page.get_by_role("button", name="Whole range")).to_be_visible()
    page.get_by_role("button", name="Whole range").click()
    expect(page.get_by_role("link", name="Only this range")).to_be_hidden()
    page.wait_for_url("**/timelines?*range=15m*")
    assert "from=" not in page.url


def test_a_drag_over_the_counts_of_causes_is_their_new_range(visit: Visit) -> None:
    page = visit("/failures?range=15m")
    drawing = page.locator("[data-brush]")
    start, end = (int(drawing.get_attribute(name) or 0) for name in ("data-start", "data-end"))
    with page.expect_navigation():
        dragged(page, "[data-brush]", 0.5, 1)
    begins, ends = asked(page)
    assert abs(begins.timestamp() * 1000 - (start + (end - start) * 0.5)) < 10_000
    assert abs((ends - begins).total_seconds() * 1000 - (end - start) * 0.5) < 10_000
    expect(page.get_by_role("heading", name="Over time")).to_be_visible()


def test_one_moment_is_read_across_all_lanes_by_pointer_and_by_keys(visit: Visit) -> None:
    page = visit("/timelines?range=15m")
    drawn(page)
    expect(page.locator("#figure .plot-container")).to_have_attribute("aria-hidden", "true")
    box = page.locator("#figure .nsewdrag").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 3, box["y"] + 10)
    line = page.locator(".cursor-line")
    expect(line.get_by_text("closed 3/3")).to_have_count(3)
    cut = "all => all.filter(one => one.scrollWidth > one.clientWidth).map(one => one.textContent)"
    assert line.locator("span").evaluate_all(cut) == []
    page.mouse.move(2, 2)
    expect(line).to_have_count(0)
    page.get_by_text("Values at a moment").click()
    table = page.get_by_role("table", name="What each lane says at that moment")
    slider = page.get_by_role("slider", name="Move along the axis")
    slider.focus()
    for key in ("Home", "ArrowRight"):
        page.keyboard.press(key)
    expect(table.get_by_role("row").filter(has_text="crm.update")).to_contain_text("not yet reporting")
    expect(line).to_have_count(1)
    page.keyboard.press("End")
    expect(table.get_by_role("row").filter(has_text="search_web").first).to_contain_text("closed on 3 of 3")
    value = slider.get_attribute("aria-valuetext") or ""
    assert all(word in value for word in ("search_web", "closed", "3 of 3"))
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**at=*")
    page.reload()
    expect(page.locator("#cursor")).to_have_attribute("open", "")


def test_bands_are_moved_and_lanes_pinned_by_keys_and_without_script(visit: Visit) -> None:
    page = visit("/timelines?range=15m", java_script_enabled=False)
    page.get_by_text("Lanes and comparison").click()
    page.get_by_role("link", name="Down Capacity").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**order=breakers*")
    expect(page.get_by_role("link", name="Down Capacity")).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**order=breakers%2Cfailures%2Ccapacity*")
    page.get_by_label("pin search_web").first.check()
    page.get_by_role("form", name="Lanes and comparison").get_by_role("button", name="Show").click()
    page.wait_for_url("**pin=breakers*")
    heads = page.locator("#figure .lane.head")
    words = heads.all_inner_texts()
    assert [one.split(",")[0] for one in words[:3]] == [
        "Pinned: Breakers",
        "Breakers",
        "Failures per 10 s",
    ]


def test_a_click_on_a_bar_shows_its_evidence_with_links(visit: Visit) -> None:
    page = visit("/breakers/search_web?range=15m")
    drawn(page, "states")
    bar = page.locator("#states .bars path").last.bounding_box()
    assert bar is not None
    page.mouse.move(bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2)
    expect(page.locator("#states .hoverlayer .hovertext")).to_be_visible()
    page.mouse.down()
    page.mouse.up()
    evidence = page.locator("#evidence")
    expect(evidence).to_be_visible()
    expect(evidence).to_contain_text("Duration")
    expect(evidence.get_by_role("link", name="Zoom to it")).to_be_visible()
    page.keyboard.press("Escape")
    expect(evidence).to_be_hidden()


def test_keys_zoom_and_go_from_change_to_change_and_what_is_shown_leads_on(visit: Visit) -> None:
    page = visit("/breakers/search_web?range=15m", permissions=["clipboard-read", "clipboard-write"])
    drawn(page, "states")
    shown = RANGE.replace("'figure'", "'states'")
    whole = page.evaluate(shown)
    page.keyboard.press("+")
    page.wait_for_function(f"was => {shown}[1] - {shown}[0] < (was[1] - was[0]) * 0.6", arg=whole)
    near = page.evaluate(shown)
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(f"was => {shown}[0] < was[0] - 60000 && {shown}[1] < was[1] - 60000", arg=near)
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"was => Math.abs({shown}[0] - was[0]) < 5000", arg=near)
    page.keyboard.press("-")
    page.wait_for_function(f"was => Math.abs({shown}[0] - was[0]) < 60000", arg=whole)
    evidence = page.locator("#evidence")
    titles: list[str] = []
    while not any("open" in title for title in titles):
        page.keyboard.press(".")
        expect(evidence).to_be_visible()
        titles.append(evidence.locator("h3").inner_text())
        assert len(titles) < 12, titles
    runs = evidence.get_by_role("link", name="Runs it failed in").get_attribute("href") or ""
    assert runs.startswith("/runs?breaker=search_web&from=")
    evidence.get_by_role("button", name="Copy link").click()
    expect(page.get_by_text("Copied")).to_be_visible()
    copied = urlsplit(page.evaluate("navigator.clipboard.readText()"))
    begins, ends = (datetime.fromisoformat(parse_qs(copied.query)[name][0]) for name in ("from", "to"))
    assert copied.path == "/breakers/search_web"
    assert begins < ends
    evidence.get_by_role("link", name="Evidence").click()
    expect(page.get_by_role("heading", name="At that moment")).to_be_visible()
    assert urlsplit(page.url).path.startswith("/moves/")


def test_a_mark_of_what_somebody_did_leads_to_it(visit: Visit, stage: Stage) -> None:
    page = visit("/breakers/crm.update/trip")
    page.locator("textarea[name=reason]").fill("to see where it is marked")
    page.locator("main form button").last.click()
    page.wait_for_url("**/breakers/crm.update*")
    until = datetime.now(UTC) + timedelta(seconds=1)
    span = (f"{one:%Y-%m-%dT%H:%M:%SZ}" for one in (until - timedelta(minutes=15), until))
    # A range that is over is not drawn anew, so a mark stays where it is.
    page.goto("{}/timelines?from={}&to={}".format(stage.server.url, *span))
    still = page.locator("#figure .lane", has_text="Overrides")
    expect(still.locator(".pin")).to_have_count(1)
    drawn(page)
    said = page.evaluate("document.getElementById('figure').data.find(({ meta }) => meta === 'marks').customdata[0]")
    assert said[0] == "forced open crm.update"
    assert said[2][0][3].startswith("/breakers/crm.update?")
    point = page.locator("#figure .scatterlayer .points path").first
    point.evaluate("one => one.scrollIntoView({ block: 'center', behavior: 'instant' })")
    mark = point.bounding_box()
    assert mark is not None
    page.mouse.move(mark["x"] + mark["width"] / 2, mark["y"] + mark["height"] / 2)
    expect(page.locator("#figure .hoverlayer .hovertext")).to_be_visible()  # a click goes to what plotly is at
    page.mouse.down()
    page.mouse.up()
    evidence = page.locator("#evidence")
    expect(evidence).to_contain_text("to see where it is marked")
    evidence.get_by_role("link", name="forced open crm.update").click()
    expect(page.locator("#history")).to_contain_text("to see where it is marked")


def test_the_lanes_are_picked_without_script_and_kept_in_the_address(visit: Visit) -> None:
    page = visit("/timelines?range=15m", java_script_enabled=False)
    page.get_by_text("Lanes and comparison").click()
    page.get_by_label("Find lanes").fill("search")
    page.get_by_label("Breakers", exact=True).check()
    page.get_by_label("Compare with").select_option("day")
    page.get_by_role("form", name="Lanes and comparison").get_by_role("button", name="Show").click()
    assert {"match": ["search"], "band": ["breakers"], "compare": ["day"]}.items() <= parse_qs(
        urlsplit(page.url).query
    ).items()
    expect(page.locator("#figure .lane", has_text="search_web")).to_have_count(1)
    expect(page.locator("#figure .lane", has_text="crm.update")).to_have_count(0)
    expect(page.locator("#figure")).not_to_contain_text("Failures per")


CHANGED = """() => {
  const host = document.getElementById("figure");
  const axis = host.layout.xaxis;
  return axis.tickvals.map((at, place) => [at - host.layout.meta.ahead_ms, axis.ticktext[place]]);
}"""


def test_where_the_clock_was_put_back_labels_are_right_after_a_zoom_too(visit: Visit) -> None:
    page = visit("/timelines?range=15m")
    page.evaluate("document.querySelector('[data-own-zone]').value = 'Europe/Berlin'")
    page.get_by_role("button", name="operator, operator: account").click()
    page.get_by_role("button", name="Local times").click()
    expect(page.locator("html")).to_have_attribute("data-zone", "Europe/Berlin")
    year = datetime.now(UTC).year - 1
    sunday = next(day for day in range(31, 24, -1) if datetime(year, 10, day, tzinfo=UTC).weekday() == 6)
    page.goto(page.url.split("/timelines")[0] + f"/timelines?from={year}-10-{sunday}T00:00&to={year}-10-{sunday}T04:00")
    drawn(page)
    before = page.evaluate(CHANGED)
    page.keyboard.press("+")
    page.wait_for_function(
        f"was => ({CHANGED})().length > 2 && JSON.stringify(({CHANGED})()) !== was", arg=json.dumps(before)
    )
    for ticks in (before, page.evaluate(CHANGED)):
        assert len(ticks) > 2
        for at, words in ticks:
            assert words == datetime.fromtimestamp(at / 1000, ZoneInfo("Europe/Berlin")).strftime("%H:%M")


def test_the_tables_say_what_the_figure_says_also_without_script(visit: Visit) -> None:
    page = visit("/timelines?range=15m", java_script_enabled=False)
    page.get_by_role("link", name="Data table").click()
    table = page.get_by_role("table", name="Breakers, majority of the fleet")
    expect(table.get_by_role("row").filter(has_text="search_web").first).to_be_visible()
    expect(page.get_by_role("table", name="Fallbacks and degradations")).to_contain_text("cache")
    expect(page.locator(".caption")).to_contain_text("2 × 529")


def test_the_figure_is_there_before_plotly_and_without_it(visit: Visit) -> None:
    still = visit("/timelines?range=15m", java_script_enabled=False)
    host = still.locator("#figure")
    expect(host).to_contain_text("Breakers, majority of the fleet")
    lane = host.locator(".lane", has_text="search_web").first
    expect(lane).to_contain_text("open 1/3, most closed")
    expect(lane.locator("rect[fill='url(#p-closed)']").first).to_be_visible()
    before = host.bounding_box()
    page = visit("/timelines?range=15m")
    drawn(page)
    after = page.locator("#figure").bounding_box()
    assert before is not None
    assert after is not None
    assert abs(before["height"] - after["height"]) < 2, "nothing below it moves when plotly takes over"
    expect(page.locator("[data-still]")).to_have_count(0)


def test_the_label_of_a_lane_is_a_link_that_keeps_the_focus_when_plotly_takes_over(visit: Visit) -> None:
    page = visit("/timelines?range=15m")
    lead = page.locator("#figure").get_by_role("link", name="search_web", exact=True)
    lead.focus()
    drawn(page)
    expect(page.locator("#figure .leads")).to_have_count(1)
    expect(lead).to_be_focused()
    page.get_by_role("button", name="Zoom in").click()
    both = "['xaxis', 'xaxis2'].map((axis) => String(document.getElementById('figure').layout[axis].range))"
    page.wait_for_function(f"new Set({both}).size === 1")
    lead.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("search_web")


def test_where_plotly_cannot_be_had_the_drawing_stays_and_lives(visit: Visit, stage: Stage) -> None:
    page = visit("/breakers")
    page.route("**/plotly.min*.js", lambda route: route.abort())
    page.goto("/".join(page.url.split("/", 3)[:3]) + "/timelines?range=15m")
    lane = page.locator("#figure .lane", has_text="crm.update").first
    expect(lane).to_be_visible()
    stage.tell(moved(State.OPEN, breaker="crm.update"))
    expect(lane).to_contain_text("open 1/3, most closed", timeout=PATIENCE_MS)
    stage.tell(moved(State.CLOSED, before=State.OPEN, breaker="crm.update"))


def test_a_link_to_copy_names_the_instants(visit: Visit) -> None:
    page = visit("/timelines?range=15m", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_text("Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "/timelines?from=" in copied
    page.goto(copied)
    expect(page.get_by_role("heading", name="Chosen range")).to_be_visible()


def test_plotly_that_failed_to_load_is_tried_again_and_the_picture_waits_for_the_first_drawing(visit: Visit) -> None:
    page = visit("/breakers")
    page.route("**/plotly.min*.js", lambda route: route.abort())
    page.goto("/".join(page.url.split("/", 3)[:3]) + "/timelines?range=15m")
    with page.expect_event("requestfailed", lambda request: "plotly.min" in request.url):
        page.locator("#figure").hover()
    page.unroute("**/plotly.min*.js")
    with page.expect_download(timeout=PATIENCE_MS) as saved:
        page.get_by_role("button", name="SVG").click()
    assert re.fullmatch(r"timelines-last-15-minutes-[\w-]+-utc-\d{4}-\d\d-\d\d\.svg", saved.value.suggested_filename)


def test_a_picture_that_is_asked_for_during_the_first_drawing_waits_for_it(visit: Visit) -> None:
    page = visit("/timelines?range=15m")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/plotly.min*.js", hold)
    with page.expect_request(lambda request: "plotly.min" in request.url):
        page.locator("#figure").hover()
    with page.expect_download(timeout=PATIENCE_MS) as saved:
        page.get_by_role("button", name="SVG").click()
        held[0].continue_()
    assert re.fullmatch(r"timelines-last-15-minutes-[\w-]+-utc-\d{4}-\d\d-\d\d\.svg", saved.value.suggested_filename)


def test_a_figure_is_on_the_clock_of_the_reader_and_its_links_name_the_true_span(visit: Visit, stage: Stage) -> None:
    page = visit("/timelines?range=6h")
    page.evaluate("document.querySelector('[data-own-zone]').value = 'Asia/Kolkata'")
    page.get_by_role("button", name="operator, operator: account").click()
    page.get_by_role("button", name="Local times").click()
    expect(page.locator("html")).to_have_attribute("data-zone", "Asia/Kolkata")
    drawn(page)
    now_ms = page.evaluate("recoveryOps.now()")
    end_ms = page.evaluate(RANGE)[1]
    assert abs(end_ms - now_ms - 19_800_000) < 120_000
    hrefs = page.evaluate(
        """() => {
          const host = document.getElementById("figure");
          const place = host.data.findIndex((one) => one.dx);
          const at = host.data[place].y.findIndex((count) => count > 0);
          const x = host.data[place].x0 + host.data[place].dx * at;
          const point = { data: host.data[place], pointNumber: at, x, y: host.data[place].y[at] };
          host.emit("plotly_click", { points: [point], event: { clientX: 9, clientY: 9 } });
          const links = [...document.querySelectorAll("#evidence [data-links] a")];
          const hrefs = Object.fromEntries(links.map((one) => [one.textContent, one.href]));
          return { ...hrefs, start: x - 19800000, length: host.data[place].dx };
        }"""
    )
    assert hrefs["length"] > 60_000
    runs = parse_qs(urlsplit(hrefs["Runs in this span"]).query)
    began, ended = (datetime.fromisoformat(runs[name][0]).timestamp() * 1000 for name in ("from", "to"))
    assert abs(began - hrefs["start"]) < 1_000
    assert abs(ended - began - hrefs["length"]) < 2_000
    zoomed = parse_qs(urlsplit(hrefs["Zoom to it"]).query)
    assert datetime.fromisoformat(zoomed["to"][0]).timestamp() * 1000 >= hrefs["start"] + hrefs["length"]

"""What people come for, from the first look to the answer: in clicks and keys, with a picture of where they end."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from itertools import count, cycle
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from recovery_ops.rules.facts import (
    AttemptSucceeded,
    Escalated,
    RetryScheduled,
    RunFinished,
    RunStarted,
)
from recovery_ops.rules.words import Category, DelaySource, RunStatus, State, Trigger
from tests.browser.stage import INSTANCES, Stage
from tests.events.seeding import failed, heartbeat, moved
from tests.flows.fleet import manage

PATIENCE_MS = 30_000
QUESTIONS = 6
_queues = count(1)

Visit = Callable[..., Page]


@pytest.fixture(scope="module")
def storm(stage: Stage) -> Stage:
    """One backend is overloaded in three runs on two instances, and its breaker tries again."""
    overloaded = failed(Category.OVERLOADED, "model:large", provider="helios", model="large", status_code=529)
    for number in range(6):
        stage.tell(overloaded, overloaded, instance=f"r-{number % 2}", ago_s=6 - number, run=f"run-{number % 3}")
    trying = moved(State.HALF_OPEN, before=State.OPEN, breaker="model:large", trigger=Trigger.WAIT_ELAPSED)
    stage.tell(trying, instance="r-0")
    return stage


@pytest.fixture
def queue(stage: Stage) -> str:
    """A queue of the test's own, with questions: whoever tries again begins with one that nobody has cleared."""
    name = f"editors-{next(_queues)}"
    for number in range(QUESTIONS):
        asked = Escalated(operation=f"publish_{number}", queue=name, reason="policy_denied", message=f"May {number}?")
        stage.tell(asked, run=f"{name}-{number}")
    return name


def picture(page: Page, folder: Path, name: str) -> None:
    """Keep what it looks like; pytest's `--basetemp` says where."""
    page.screenshot(path=folder / f"{name}.png", full_page=True)


def test_who_is_on_call_reads_whose_trouble_it_is_in_one_look_and_how_far_it_reaches_in_one_click(
    visit: Visit, storm: Stage, tmp_path: Path
) -> None:
    page = visit("/")
    said = page.locator("#overview .page-head p")
    expect(said).to_contain_text(
        re.compile(r"helios / large has been overloaded since \d\d:\d\d:\d\d, .*3 runs on 2 instances so far"),
        timeout=PATIENCE_MS,
    )
    expect(said).to_contain_text("nothing for us to do")
    expect(said).to_contain_text("model:large is half_open on 1 of 3")
    picture(page, tmp_path, "overview")
    page.get_by_role("link", name="helios / large is overloaded", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("helios / large")
    facts = page.get_by_role("region", name="What it was")
    expect(facts).to_contain_text("Provider overloaded, nothing for us to do")
    expect(facts).to_contain_text("3 runs on 2 instances")
    picture(page, tmp_path, "event")


def test_a_trip_is_seen_applied_by_name_and_ends_by_itself(visit: Visit, stage: Stage, tmp_path: Path) -> None:
    name = f"billing.charge{next(_queues)}"
    for instance in INSTANCES:
        stage.tell(moved(State.CLOSED, breaker=name), instance=instance)
    second = visit(f"/breakers/{name}/disable")
    page = visit(f"/breakers/{name}/trip")
    why = "The ledger takes every charge twice."
    page.get_by_label("Reason").fill(why)
    page.get_by_role("button", name="Trip breaker").click()
    observed = page.get_by_role("region", name="Observed")
    expect(observed).to_contain_text("0/3 applied, 3 pending")
    revision = int(re.findall(r"revision (\d+)", page.get_by_role("region", name="Desired").inner_text())[0])
    for instance in INSTANCES[:2]:
        stage.obey(instance, revision)
        stage.tell(moved(State.FORCED_OPEN, breaker=name, trigger=Trigger.OPERATOR_TRIP), instance=instance)
    expect(observed).to_contain_text("2/3 applied, 1 pending", timeout=PATIENCE_MS)
    expect(observed).to_contain_text(INSTANCES[2])
    expect(page.get_by_role("heading", level=1)).to_contain_text("forced_open 2/3", timeout=PATIENCE_MS)
    picture(page, tmp_path, "tripped")
    second.get_by_label("Reason").fill("It refuses what is good, too.")
    second.get_by_role("button", name="Disable breaker").click()
    expect(second.get_by_role("alert")).to_contain_text(f"operator tripped {name}")
    # Time passes: the store says that the end has come, and the next look of the worker finds it.
    with closing(sqlite3.connect(stage.data / "db.sqlite3", timeout=10)) as store, store:
        ended = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
        store.execute("UPDATE control_override SET expires_at = ? WHERE operation = ?", (ended, name))
    expect(page.get_by_role("region", name="Desired")).to_contain_text("The rules decide", timeout=PATIENCE_MS)
    page.goto(f"{stage.server.url}/audit")
    entries = page.locator("main tbody tr", has_text=name)
    expect(entries.filter(has_text="tripped").first).to_contain_text(why)
    expect(entries.filter(has_text="ended").first).to_be_visible()
    picture(page, tmp_path, "audit")


def test_a_change_of_policy_is_tried_on_what_happened_and_each_change_explained(
    visit: Visit, stage: Stage, tmp_path: Path
) -> None:
    """Somebody halves the retries, and reads which calls would have ended otherwise, and how."""
    name = f"geo.lookup{next(_queues)}"
    run: dict[str, Any] = {"run": f"{name}-run"}
    stage.tell(RunStarted(name="route"), ago_s=9, **run)
    for attempt in range(1, 4):
        again = RetryScheduled(
            operation=name,
            attempt=attempt + 1,
            delay_s=0.5,
            delay_source=DelaySource.BACKOFF,
            category=Category.SERVER_ERROR,
            max_retries=3,
        )
        stage.tell(failed(Category.SERVER_ERROR, name, attempt=attempt, status_code=500), ago_s=9 - attempt, **run)
        stage.tell(again, ago_s=9 - attempt, **run)
    stage.tell(AttemptSucceeded(operation=name, attempt=4, breaker=name), ago_s=4, **run)
    stage.tell(RunFinished(status=RunStatus.SUCCEEDED, duration_s=6.0), ago_s=3, **run)
    page = visit("/policies/proposals/new", role=editor_of(stage))
    page.get_by_role("button", name="JSON").click()
    text = page.get_by_label("Document as JSON")
    document = json.loads(text.input_value())
    document["rules"].append({"id": name, "scope": {"operation": name}, "knobs": {"max_retries_background": 1}})
    text.fill(json.dumps(document))
    page.get_by_label("Title").fill(f"Fewer retries of {name}")
    page.get_by_label("Reason").fill("Each retry costs a second of somebody's time.")
    page.get_by_role("button", name="Save the proposal").click()
    page.get_by_role("button", name="Replay", exact=False).first.click()
    result = page.get_by_role("region", name="Result", exact=True)
    expect(result.get_by_role("table")).to_be_visible(timeout=2 * PATIENCE_MS)
    endings = page.get_by_role("table", name="Endings of affected calls").get_by_role("row")
    expect(endings.last).to_have_text(re.compile("answered.*failed.*1"))
    example = page.get_by_role("region", name="Examples, side by side").locator("details", has_text=name)
    example.locator("summary").click()
    expect(example.get_by_role("heading", name=re.compile("^Under"))).to_have_count(2)
    assert example.locator("ol").first.inner_text() != example.locator("ol").last.inner_text()
    picture(page, tmp_path, "replay")


def test_what_is_typed_into_a_policy_is_checked_while_it_is_typed(visit: Visit, stage: Stage, tmp_path: Path) -> None:
    """A fault stands at its field a moment after it was typed, and goes as soon as it is mended; nothing is pressed."""
    page = visit("/policies/proposals/new", role=editor_of(stage))
    field = page.locator("[id='capacity_events.least_failures']")
    field.fill("1")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.locator(f"[id='{field.get_attribute('name')}-error']")).to_contain_text("is from 2 to 10000")
    expect(field).to_be_focused()
    expect(field).to_have_value("1")
    picture(page, tmp_path, "typed")
    field.fill("6")
    expect(field).not_to_have_attribute("aria-invalid", "true")
    page.goto(f"{stage.server.url}/policies/proposals/new?mode=json")
    text = page.get_by_label("Document as JSON")
    whole = text.input_value()
    text.fill('{"rules": [}')
    expect(page.locator("#text-error")).to_contain_text("in line 1, column 12")
    text.fill(whole)
    expect(page.locator("#text-error")).to_have_count(0)
    expect(text).to_have_value(whole)


def editor_of(stage: Stage) -> str:
    """Somebody who may propose policies."""
    if "editor" not in stage.passwords:
        stage.passwords["editor"] = manage(stage.data, "account", "create", "editor", "--role", "editor")
    return "editor"


def test_a_queue_is_cleared_without_a_mouse(visit: Visit, queue: str, tmp_path: Path) -> None:
    page = visit(f"/escalations?queue={queue}")
    rows = page.locator("table[data-queue] tbody tr")
    expect(rows).to_have_count(QUESTIONS, timeout=PATIENCE_MS)
    page.keyboard.press("j")
    page.keyboard.press("x")
    for _ in range(QUESTIONS - 1):
        page.keyboard.press("j")
    page.keyboard.press("Shift+X")
    expect(page.get_by_text(f"{QUESTIONS} chosen")).to_be_visible()
    page.keyboard.press("a")
    expect(page.get_by_role("status", name="Notices")).to_contain_text("took", timeout=PATIENCE_MS)
    expect(rows.filter(has_text="operator")).to_have_count(QUESTIONS, timeout=PATIENCE_MS)
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("r")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    dialog.get_by_label("Reason").focus()
    page.keyboard.type("The editors have published it by hand.")
    page.keyboard.press("Tab")
    dialog.get_by_role("button", name="Resolve").focus()
    page.keyboard.press("Enter")
    expect(rows).to_have_count(QUESTIONS - 1, timeout=PATIENCE_MS)
    expect(page.get_by_role("link", name=re.compile(r"^Resolved [1-9]"))).to_be_visible()
    picture(page, tmp_path, "queue")


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
    expect(dialog.get_by_role("heading", name="Archive 2 causes")).to_be_visible()
    dialog.get_by_text("7 days").click()
    dialog.get_by_role("button", name="Archive").click()
    expect(page.get_by_role("status", name="Notices")).to_contain_text("2 causes: archived.", timeout=PATIENCE_MS)
    expect(rows).to_have_count(total - 2)


def test_a_shared_link_shows_the_same_rows_when_more_has_happened(visit: Visit, storm: Stage) -> None:
    page = visit("/failures?range=15m")
    page.wait_for_timeout(1_000)  # the link ends with this second
    page.reload()
    link = page.get_by_role("button", name="Copy link").get_attribute("data-copy-link")
    assert link is not None
    assert "from=" in link
    other = visit(link)
    before = other.locator("tbody[data-rows] tr").all_inner_texts()
    assert before
    storm.tell(failed(Category.TIMEOUT, "later", fingerprint="later"))
    expect(page.locator("tbody[data-rows] tr", has_text="later").first).to_be_visible(timeout=PATIENCE_MS)
    other.reload()
    names = [row.splitlines()[0] for row in other.locator("tbody[data-rows] tr").all_inner_texts()]
    assert names == [row.splitlines()[0] for row in before]


WHERE_IT_IS = """([x, y]) => {
  const seen = (window.seen = []);
  const look = () => {
    const row = document.elementFromPoint(x, y)?.closest("tr");
    const now = row ? `${row.dataset.key} at ${Math.round(row.getBoundingClientRect().top)}` : "no row";
    if (now !== seen.at(-1)) seen.push(now);
    requestAnimationFrame(look);
  };
  look();
}"""
"""Writes down, in every frame, which row is under a point of the screen and where it begins."""


def point_at(page: Page, row: Locator) -> None:
    """Put the pointer on a row, and from now on write down what it is on."""
    box = row.bounding_box()
    assert box is not None
    place = [box["x"] + 250, box["y"] + box["height"] / 2]
    page.mouse.move(*place)
    page.evaluate(WHERE_IT_IS, place)


def rush(stage: Stage, seconds: int = 5) -> None:
    """Twenty facts in each of some seconds: failures, questions, moves, and agents that were not there before."""
    states = cycle((State.OPEN, State.HALF_OPEN, State.CLOSED))
    for number in range(4 * seconds):
        name = f"rush-{number % 7}"
        stage.tell(
            moved(next(states), before=State.CLOSED, breaker=name, trigger=Trigger.FAILURE_RATE),
            failed(Category.TIMEOUT, name, fingerprint=name),
            failed(Category.OVERLOADED, name, provider=f"cloud-{number % 5}", model="large", status_code=529),
            Escalated(operation=name, queue=f"rush-{number % 3}", reason="policy_denied", message=f"May {number}?"),
            heartbeat(),
            instance=f"rush-{number % 9}",
            run=f"rush-{number}",
        )
        time.sleep(0.2)  # this is the load, not a wait


def test_what_somebody_is_at_stays_in_hand_through_a_rush(
    visit: Visit, stage: Stage, queue: str, tmp_path: Path
) -> None:
    page = visit("/escalations")
    rows = page.locator("table[data-queue] tbody tr")
    expect(rows.filter(has_text=queue)).to_have_count(QUESTIONS, timeout=PATIENCE_MS)
    before = rows.evaluate_all("rows => rows.map(row => row.dataset.key)")
    for number in (0, 2):
        rows.nth(number).get_by_role("checkbox").check(force=True)
    page.get_by_role("button", name="operator, operator: account").press("Enter")
    point_at(page, rows.nth(4))
    rush(stage)
    expect(page.locator("[data-pending-pill]")).to_contain_text("new", timeout=PATIENCE_MS)
    assert rows.evaluate_all("rows => rows.map(row => row.dataset.key)") == before
    assert len(page.evaluate("window.seen")) == 1, page.evaluate("window.seen")
    assert rows.locator("input:checked").evaluate_all("all => all.map(one => one.closest('tr').dataset.key)") == [
        before[0],
        before[2],
    ]
    expect(page.get_by_text("Shortcuts are on")).to_be_visible()
    picture(page, tmp_path, "rush")


def shed(page: Page, choice: str) -> None:
    """Somebody sheds load, or ends that; it is said above the breakers."""
    page.goto("/".join(page.url.split("/", 3)[:3]) + "/shed")
    page.get_by_label(choice).check(force=True)
    page.get_by_label("Reason").fill("The ledger needs what there is.")
    page.locator("#confirm").fill("dev")
    page.get_by_role("button", name="Do it").click()
    now = "Everything passes now" if choice == "Let everything pass" else "Load is being shed"
    expect(page.locator("form.act header")).to_contain_text(now)


@pytest.mark.parametrize("height", [320, 1400])
def test_rows_stay_under_the_pointer_when_a_notice_comes_and_goes_above_them(
    height: int, visit: Visit, stage: Stage, tmp_path: Path
) -> None:
    other = visit("/shed")
    if other.get_by_label("Let everything pass").count():  # what a try before this one left
        shed(other, "Let everything pass")
    page = visit("/breakers", viewport={"width": 1280, "height": height})
    row = page.locator("tbody[data-rows] tr").nth(1)
    row.get_by_role("link").focus()
    row.evaluate("row => (window.held = row)")
    point_at(page, row)
    said = page.get_by_text("Load is shed.")
    shed(other, "Shed only what is least important")
    expect(said).to_be_attached(timeout=PATIENCE_MS)
    picture(page, tmp_path, f"held-{height}")
    shed(other, "Let everything pass")
    expect(said).not_to_be_attached(timeout=PATIENCE_MS)
    assert len(page.evaluate("window.seen")) == 1, page.evaluate("window.seen")
    assert page.evaluate("window.held.isConnected && window.held.contains(document.activeElement)")


PARTS = {
    "a figure": ("/timelines?range=15m", "figure", "**/timelines/figure*"),
    "the page itself": ("/agents", "agents", "**/agents"),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_that_cannot_be_had_says_so_while_the_others_go_on(
    name: str, visit: Visit, stage: Stage, tmp_path: Path
) -> None:
    path, part, addresses = PARTS[name]
    page = visit(path)
    light = page.locator("button.live")
    expect(light).to_contain_text("Live")
    if name == "a figure":
        page.locator("#figure").scroll_into_view_if_needed()
        expect(page.locator("#figure .main-svg").first).to_be_visible(timeout=PATIENCE_MS)
    page.route(addresses, lambda route: route.fulfill(status=500, body="It is broken."))
    stage.tell(failed(Category.TIMEOUT, f"lost-{part}"))
    lost = page.locator(f"#{part}[data-stale], figure[data-stale]:has(#{part})")
    expect(lost).to_contain_text(re.compile(r"Not refreshed: as of \d\d:\d\d:\d\d"), timeout=PATIENCE_MS)
    expect(light).to_contain_text("Partly live")
    expect(page.locator("[data-stale]")).to_have_count(1)
    expect(page.locator("#live-banner")).to_be_hidden()
    picture(page, tmp_path, f"lost-{part}")
    page.unroute(addresses)
    stage.tell(failed(Category.TIMEOUT, f"found-{part}"))
    expect(page.locator("[data-stale], .stale")).to_have_count(0, timeout=PATIENCE_MS)
    expect(light).to_have_text(re.compile("^Live"))


PAPER = {
    "overview": "/",
    "timelines": "/timelines?range=15m",
    "escalation": "/escalations/1",
    "run": "/runs/run-1",
    "monthly report": "/report/monthly",
}


@pytest.mark.usefixtures("storm")
@pytest.mark.parametrize("name", PAPER)
def test_on_paper_is_what_one_reads_and_nothing_else(name: str, visit: Visit, tmp_path: Path) -> None:
    page = visit(PAPER[name], viewport={"width": 794, "height": 1123})  # A4 at 96 dots an inch
    if name == "timelines":
        page.locator("#figure").scroll_into_view_if_needed()
        expect(page.locator("#figure .main-svg").first).to_be_visible(timeout=PATIENCE_MS)
        assert page.locator("#figure .bars path").count() > 0
    page.emulate_media(media="print")
    for gone in (".nav", ".topbar", ".button", ".toasts", ".tabs"):
        assert page.locator(f"{gone}:visible").count() == 0, gone
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 794
    assert page.evaluate(
        "[...document.querySelectorAll('.table')].every(one => one.scrollWidth <= one.clientWidth + 1)"
    )
    assert page.pdf().startswith(b"%PDF-")
    picture(page, tmp_path, f"paper-{name}")


PATTERNS = """() => [...document.querySelectorAll("#figure .bars path")]
  .map((bar) => /url\\("?#([^")]+)/.exec(bar.style.fill)?.[1])
  .filter(Boolean)
  .map((id) => document.getElementById(id))
  .filter((one) => one?.tagName === "pattern" && one.querySelector("path, circle"))
  .map((one) => one.innerHTML)"""


def test_in_shades_of_grey_states_are_told_apart_by_their_patterns(visit: Visit, storm: Stage) -> None:
    for state, name in ((State.OPEN, "grey.open"), (State.HALF_OPEN, "grey.half"), (State.FORCED_OPEN, "grey.forced")):
        for instance in ("r-0", "r-1", "r-2"):
            storm.tell(moved(state, breaker=name), instance=instance, ago_s=2)
    still = visit("/timelines?range=15m", java_script_enabled=False)
    for name, pattern in (("grey.open", "open"), ("grey.half", "half_open"), ("grey.forced", "forced_open")):
        bar = still.locator("#figure .lane", has_text=name).locator(f"rect[fill='url(#p-{pattern})']")
        expect(bar.first).to_be_attached()
        assert still.locator(f"pattern#p-{pattern} .cut").count() == 1
    page = visit("/timelines?range=15m")
    expect(page.locator("#figure .main-svg").first).to_be_visible(timeout=PATIENCE_MS)
    page.wait_for_function(f"new Set(({PATTERNS})()).size >= 3", timeout=PATIENCE_MS)
    for name in ("grey.open", "grey.half", "grey.forced"):  # the overview tells the worst first
        for instance in ("r-0", "r-1", "r-2"):
            storm.tell(moved(State.CLOSED, breaker=name), instance=instance)


@pytest.mark.usefixtures("storm")
@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_figure_is_saved_as_a_picture(kind: str, visit: Visit, tmp_path: Path) -> None:
    page = visit("/timelines?range=15m")
    page.locator("#figure").scroll_into_view_if_needed()
    expect(page.locator("#figure .main-svg").first).to_be_visible(timeout=PATIENCE_MS)
    with page.expect_download() as started:
        page.get_by_role("button", name=kind.upper(), exact=True).click()
    started.value.save_as(tmp_path / f"figure.{kind}")
    content = (tmp_path / f"figure.{kind}").read_bytes()
    assert started.value.suggested_filename == f"figure.{kind}"
    if kind == "png":
        assert content.startswith(b"\x89PNG")
        assert len(content) > 10_000
    else:
        said = content.decode()
        assert "<title>Timelines · Last 15 minutes" in said
        assert "search_web" in said
        assert "token:" not in said

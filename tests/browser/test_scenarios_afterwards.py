"""The scenarios of people who read afterwards: on paper, in shades of grey, and what another policy would have done.

The others stand in `test_scenarios.py`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from recovery_ops.rules.enums import Category, DelaySource, RunStatus, State
from recovery_ops.rules.events import AttemptSucceeded, RetryScheduled, RunFinished, RunStarted
from tests.browser.journeys import PATIENCE_MS, Visit, editor_of, fresh, picture
from tests.browser.stage import Stage
from tests.support.stories import failed, moved

# -- 7: on paper, in shades of grey -----------------------------------------------------------------------------------
PATTERNS = """() => [...document.querySelectorAll("#figure .bars path")]
  .map((bar) => /url\\("?#([^")]+)/.exec(bar.style.fill)?.[1])
  .filter(Boolean)
  .map((id) => document.getElementById(id))
  .filter((one) => one?.tagName === "pattern" && one.querySelector("path, circle"))
  .map((one) => one.innerHTML)"""

FITS = """() => {
  const [figure, drawn] = ["#figure", "#figure .main-svg"].map((one) => document.querySelector(one));
  return drawn !== null && drawn.clientWidth <= figure.clientWidth; // while it is drawn anew there is none
}"""
DARKEST_PAPER = """() => Math.min(...["html", "body", "main", "main .panel", "#figure"].map((place) => {
  const one = document.querySelector(place);
  const [red, green, blue, alpha = 1] = getComputedStyle(one).backgroundColor.match(/[\\d.]+/g).map(Number);
  return alpha ? (red + green + blue) / 765 : 1;
}))"""


def test_scenario_7_a_print_of_timelines_is_readable_in_shades_of_grey(
    visit: Visit, stage: Stage, tmp_path: Path
) -> None:
    for state, name in ((State.OPEN, "grey.open"), (State.HALF_OPEN, "grey.half"), (State.FORCED_OPEN, "grey.forced")):
        for instance in ("r-0", "r-1", "r-2"):
            stage.tell(moved(state, breaker=name), instance=instance, ago_s=2)
    still = visit("/timelines?range=15m", java_script_enabled=False)
    for name, pattern in (("grey.open", "open"), ("grey.half", "half_open"), ("grey.forced", "forced_open")):
        bar = still.locator("#figure .lane", has_text=name).locator(f"rect[fill='url(#p-{pattern})']")
        expect(bar.first).to_be_attached()
        assert still.locator(f"pattern#p-{pattern} .cut").count() == 1
    page = visit("/timelines?range=15m")
    page.locator("#figure").hover()
    expect(page.locator("#figure .main-svg").first).to_be_visible(timeout=PATIENCE_MS)
    page.wait_for_function(f"new Set(({PATTERNS})()).size >= 3", timeout=PATIENCE_MS)
    page.get_by_role("button", name="Switch theme").click()
    page.set_viewport_size({"width": 794, "height": 1123})  # A4 at 96 dots an inch
    page.emulate_media(media="print")
    page.evaluate("document.documentElement.style.filter = 'grayscale(1)'")
    page.wait_for_function(FITS, timeout=PATIENCE_MS)
    assert page.evaluate(DARKEST_PAPER) > 0.9, "paper is white, whatever the theme"
    for name in ("grey.open", "grey.half", "grey.forced"):
        expect(page.locator("#figure")).to_contain_text(name)
    picture(page, tmp_path, "paper")
    for name in ("grey.open", "grey.half", "grey.forced"):  # the overview tells the worst first
        for instance in ("r-0", "r-1", "r-2"):
            stage.tell(moved(State.CLOSED, breaker=name), instance=instance)


# -- 8: a policy is tried before it lives -----------------------------------------------------------------------------
def test_scenario_8_a_policy_is_tried_on_what_happened_and_every_changed_outcome_is_explained(
    visit: Visit, stage: Stage, tmp_path: Path
) -> None:
    """Somebody halves the retries, and reads which calls would have ended otherwise, and how."""
    name = f"geo.lookup{next(fresh)}"
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
    document["rules"].append({"id": name, "scope": {"operation": name}, "settings": {"max_retries_background": 1}})
    text.fill(json.dumps(document))
    page.get_by_label("Title").fill(f"Fewer retries of {name}")
    page.get_by_label("Reason").fill("Each retry costs a second of somebody's time.")
    page.get_by_role("button", name="Save proposal").click()
    page.get_by_role("button", name="Replay", exact=False).first.click()
    result = page.get_by_role("region", name="Result", exact=True)
    expect(result.get_by_role("table")).to_be_visible(timeout=2 * PATIENCE_MS)
    endings = page.locator("[aria-labelledby=endings-title]").get_by_role("row")
    expect(endings.last).to_have_text(re.compile("answered.*failed.*1"))
    example = page.locator("[aria-labelledby=examples-title]").locator("details", has_text=name)
    example.locator("summary").click()
    expect(example.get_by_role("heading", name=re.compile("^Under"))).to_have_count(2)
    assert example.locator("ol").first.inner_text() != example.locator("ol").last.inner_text()
    examples = page.locator("[aria-labelledby=examples-title]").locator("summary").all_inner_texts()
    for ending in page.locator("[aria-labelledby=endings-title]").locator("tbody tr").all():
        old, new = ending.locator("td").nth(0).inner_text(), ending.locator("td").nth(1).inner_text()
        told = f"{old} → {new.partition(',')[0]}"
        assert any(told in one for one in examples), f"nothing explains {told}"
    picture(page, tmp_path, "replay")

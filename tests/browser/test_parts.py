"""The parts of a page, each for itself: which one is old and since when, and when all of them are. `parts.js` alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from playwright.sync_api import Browser, Page, expect

BODY = """
<main>
  <section class="panel" id="queue" data-refresh-url="/queue"><p>rows</p></section>
  <section class="panel" id="strip" data-refresh-url="/strip"><p>lanes</p></section>
  <figure id="around"><div class="js-plotly-plot" id="figure" data-figure-url="/figure"></div></figure>
</main>
"""
OPS = """
globalThis.recoveryOps = {
  now: () => window.at,
  clock: (ms) => `T+${ms / 1000}`,
  steady: (act) => { window.steadied += 1; act(); },
};
window.at = 1000;
window.steadied = 0;
"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of three parts that began at second 1, with the script and nothing else of ours."""
    with browser.new_context() as context:
        page = context.new_page()
        page.set_content(BODY)
        page.evaluate(OPS)
        page.evaluate((settings.BASE_DIR / "static" / "js" / "parts.js").read_text())
        yield page


def tell(page: Page, part: str, *, is_true: bool, at_s: int = 1) -> None:
    """Second by second, whether a part shows what is true."""
    page.evaluate(f"window.at = {at_s * 1000}; recoveryOps.parts.tell('{part}', {str(is_true).lower()})")


def asked(page: Page, question: str) -> Any:
    return page.evaluate(f"recoveryOps.parts.{question}()")


def test_what_cannot_be_refreshed_says_since_when_and_its_neighbour_does_not(page: Page) -> None:
    tell(page, "queue", is_true=True, at_s=20)
    tell(page, "strip", is_true=True, at_s=25)
    tell(page, "queue", is_true=False, at_s=40)
    expect(page.locator("#queue > .stale")).to_have_text("Not refreshed: as of T+20")
    expect(page.locator("#queue > .stale time")).to_have_attribute("datetime", "1970-01-01T00:00:20.000Z")
    expect(page.locator("#queue[data-stale]")).to_have_count(1)
    expect(page.locator("#strip .stale")).to_have_count(0)
    assert (asked(page, "areLost"), asked(page, "areAllLost"), asked(page, "oldestAt")) == (True, False, 20_000)


def test_what_never_was_refreshed_is_as_old_as_the_page(page: Page) -> None:
    tell(page, "strip", is_true=False, at_s=90)
    expect(page.locator("#strip > .stale")).to_have_text("Not refreshed: as of T+1")


def test_it_is_said_once_and_taken_back_when_it_is_true_again(page: Page) -> None:
    for second in (10, 20, 30):
        tell(page, "queue", is_true=False, at_s=second)
    expect(page.locator(".stale")).to_have_count(1)
    assert page.evaluate("window.steadied") == 1, "what changes nothing moves nothing"
    tell(page, "queue", is_true=True, at_s=40)
    expect(page.locator(".stale, [data-stale]")).to_have_count(0)
    assert asked(page, "areLost") is False
    tell(page, "queue", is_true=False, at_s=50)
    expect(page.locator("#queue > .stale")).to_have_text("Not refreshed: as of T+40")


def test_of_a_figure_it_is_said_around_the_drawing(page: Page) -> None:
    tell(page, "figure", is_true=False)
    expect(page.locator("#around > .stale")).to_have_count(1)
    expect(page.locator("#figure .stale")).to_have_count(0)


def test_all_are_lost_only_when_each_of_them_is(page: Page) -> None:
    for part in ("queue", "strip"):
        tell(page, part, is_true=False)
        assert asked(page, "areAllLost") is False
    tell(page, "figure", is_true=False)
    assert asked(page, "areAllLost") is True
    tell(page, "strip", is_true=True)
    assert (asked(page, "areAllLost"), asked(page, "areLost")) == (False, True)


def test_what_has_left_the_page_is_nobodys_concern(page: Page) -> None:
    tell(page, "queue", is_true=False)
    page.evaluate("document.getElementById('queue').remove()")
    assert asked(page, "areLost") is False
    tell(page, "queue", is_true=False)
    assert asked(page, "areLost") is False


def test_a_note_that_a_refresh_took_away_is_written_again(page: Page) -> None:
    tell(page, "queue", is_true=False)
    page.evaluate("document.querySelector('#queue > .stale').remove()")
    tell(page, "queue", is_true=False)
    expect(page.locator("#queue > .stale")).to_have_count(1)

"""The incident page and the issue page on paper: dated, named, without what only a screen can do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.stage import Stage

Visit = Callable[..., Page]


@pytest.fixture(scope="module")
def outage(stage: Stage) -> None:
    """An incident of a provider, which a task finds within seconds."""
    stage.suffer_outage()


@pytest.mark.usefixtures("outage")
@pytest.mark.parametrize("path", ["/capacity/1", "/failures/f00d"])
def test_page_on_paper_is_dated_and_plain(visit: Visit, path: str) -> None:
    page = visit("/")
    url = page.url.rstrip("/") + path
    printed = page.locator("[data-printed]")
    for _ in range(30):
        page.goto(url)
        if printed.count():
            break
        page.wait_for_timeout(1_000)
    expect(printed).to_be_hidden()
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 700, "height": 1000})
    expect(printed).to_be_visible()
    year = (printed.get_attribute("data-from") or "none")[:4]
    expect(printed).to_contain_text(year)
    expect(printed).to_contain_text(url)
    assert page.locator("main :is(button, [data-needs-script]):visible").count() == 0
    broken = "all => all.filter((one) => one.checkVisibility() && one.getClientRects().length > 1).length"
    assert page.locator("main time").evaluate_all(broken) == 0, "no time is broken over two lines"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

"""What two screens show of one thing is the same on both, while the demonstration's fleet reports."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser

from tests.browser.figures import Screens, settled_differences, span_of
from tests.browser.stage import Stage
from tests.support.processes import Server, eventually

ENVIRONMENT = "demo"
LEAST = (
    *("report opened, asked", "rejected calls", "degradations, answers"),
    *("failed attempts", "issues", "incidents", "degradations", "runs, troubled", "runs, all", "429 and 529"),
)
"""Figures of the range that are not zero, or nothing would be compared."""


@pytest.fixture(scope="module")
def screens(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Screens]:
    """An admin in front of the demonstration, half a minute after its start, and a range that ends then."""
    data = tmp_path_factory.mktemp("figures") / "data"
    with Server(data, has_demo=True) as server, browser.new_context(reduced_motion="reduce") as context:
        server.said("the first facts are in")
        name, password = server.sign_in
        stage = Stage(server, data, passwords={name: password})
        page = stage.sign_in(context, name)
        found = Screens(page, server.url, ENVIRONMENT, {})
        eventually(lambda: found.told("status")["breakers"]["total"] > 0, what="a breaker")
        now = datetime.now(UTC).replace(second=0, microsecond=0)  # calls are summed by the minute
        found.span = span_of(now - timedelta(minutes=45), now)
        yield found


def test_figures_agree_on_demonstration(screens: Screens) -> None:
    assert settled_differences(screens) == []
    assert {name: "0" for name in LEAST if "0" in screens.values[name].values()} == {}
    assert any(name.startswith("breaker ") for name in screens.values)

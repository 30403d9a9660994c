"""What tests in a browser share: one running console per module, and people who are signed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.stage import Stage
from tests.processes import Server


@pytest.fixture(scope="module")
def stage(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A console of this module's own, in which a small storm was reported. Without a browser there is none."""
    data = tmp_path_factory.mktemp("console") / "data"
    with Server(data) as server, Stage(server, data).prepare().beating() as stage:
        yield stage


@pytest.fixture
def visit(browser: Browser, stage: Stage) -> Iterator[Callable[..., Page]]:
    """Sign somebody in (`role`) and open an address; the rest goes to the browser's context."""
    contexts = []

    def open_page(path: str = "/", *, role: str = "operator", **context: Any) -> Page:
        contexts.append(browser.new_context(**context))
        page = stage.sign_in(contexts[-1], role)
        page.goto(stage.server.url + path)
        return page

    yield open_page
    for context in contexts:
        context.close()

"""An unknown failure arrives, a person names it in the browser, and the same failure of the same agent has a name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page

from tests.support.agents import manage_each
from tests.support.named_failures import a_failure_is_named
from tests.support.processes import Server


def test_a_name_that_was_proposed_and_released_reaches_the_agent_that_failed(
    page: Page, start_server: Callable[..., Server], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    server = start_server()
    key, password = manage_each(
        data,
        "key create --name flow --scope ingest,desired",
        "account create olga --role operator --generate",
    )
    a_failure_is_named(page, server, server, key, password, tmp_path)

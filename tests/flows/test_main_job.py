"""The main job: a real failure reaches the browser, and a click in the browser reaches real agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.support.agents import SqliteStore, agent, manage_each, provider
from tests.support.main_job import (
    AGENTS,
    Stage,
    sign_in,
    the_failure_appears_live,
    the_policy_changes_the_attempts,
    the_reset_lets_them_flow,
    the_trip_stops_the_calls,
)
from tests.support.processes import Server


@pytest.fixture
def stage(start_server: Callable[..., Server], tmp_path: Path) -> Iterator[Stage]:
    data = tmp_path / "data"
    with ExitStack() as stack:
        server = start_server()
        told = stack.enter_context(provider())
        key, password = manage_each(
            data,
            "key create --name flow --scope ingest,desired",
            "account create olga --role operator --generate",
        )
        for instance in AGENTS:
            stack.enter_context(agent(server, key, told, instance, tmp_path / instance))
        yield Stage(server, told, SqliteStore(data), ("olga", password))


def test_a_failure_reaches_the_browser_and_a_click_reaches_the_agents(page: Page, stage: Stage) -> None:
    sign_in(page, stage)
    the_failure_appears_live(page, stage)
    the_trip_stops_the_calls(page, stage)
    the_reset_lets_them_flow(page, stage)
    the_policy_changes_the_attempts(page, stage)

"""Every screen on made-up facts by the million: axe finds nothing, nothing sticks out, each keeps its budget.

`RECOVERY_OPS_TEST_SEEDED` names a data directory that `manage.py seed` has filled, as CI does with a million facts, or
that is put there once it is filled; where it is not said, these tests fill one with fewer.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from recovery_ops.bench import pages, served
from tests.browser.axe import faults_of_full, faults_on
from tests.browser.figures import Screens, settled_differences, span_of
from tests.browser.stage import Stage
from tests.support.agents import manage_each
from tests.support.pages_bench import over
from tests.support.processes import Server, eventually

FEW = pages.Scale(facts=40_000, agents=40, breakers=12, runs=500, escalations=400)
"""Within a day."""
FILLED_WITHIN_S = 600
LISTS = {
    "overview": "/",
    "overview of a month": "/?over=30d",
    "report of a month": "/report?weeks=26",
    "capacity": "/capacity?range=7d",
    "breakers": "/breakers",
    "named": "/named",
    "timelines": "/timelines?range=24h",
    "timelines as tables": "/timelines?range=1h&view=table",
    "escalations": "/escalations",
    "report": "/report",
    "failures": "/failures?range=24h",
    "unclassified": "/failures/unclassified",
    "degradations": "/degradations?range=24h",
    "amplification": "/amplification?range=24h",
    "runs": "/runs?range=7d",
    "policies": "/policies",
    "agents": "/agents",
    "intake": "/agents/intake",
    "audit": "/audit",
    "health": "/settings/health",
    "found": "/find?q=operation",
    "wallboard": "/wallboard",
}
OF_ONE = {
    "a breaker": "breakers",
    "an escalation": "escalations",
    "a failure": "failures",
    "a run": "runs",
}
"""Pages of the first row of a list."""


@dataclass(frozen=True)
class Crowd:
    """A console in which very much has happened, and an administrator in front of it."""

    stage: Stage
    page: Page


def there(filled: Path) -> Path:
    """The directory, once it is there. Files beside it tell that it will not be, and why."""
    said, failed = filled.with_name("said"), filled.with_name("failed")
    eventually(lambda: filled.exists() or failed.exists(), what=str(filled), timeout_s=FILLED_WITHIN_S)
    assert filled.exists(), said.read_text()
    return filled


@pytest.fixture(scope="module")
def crowd(chromium: str, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    """One server and one page for all screens."""
    data = tmp_path_factory.mktemp("seeded") / "data"
    if filled := os.environ.get("RECOVERY_OPS_TEST_SEEDED"):
        shutil.copytree(there(Path(filled)), data)
    else:
        words = (f"--{name}={getattr(FEW, name)}" for name in ("facts", "agents", "breakers", "runs", "escalations"))
        manage_each(data, f"seed --days 1 {' '.join(words)}")
    with Server(data) as server, browser.new_context(reduced_motion="reduce") as context:
        stage = Stage(server, data).open_doors()
        name, password = server.sign_in
        stage.passwords[name] = password
        yield Crowd(stage, stage.sign_in(context, name))


@pytest.mark.parametrize("name", LISTS)
def test_axe_finds_nothing_on_a_screen_that_is_full(name: str, crowd: Crowd) -> None:
    assert faults_on(crowd.page, crowd.stage.server.url, name, LISTS[name], faults_of_full) == []


@pytest.mark.parametrize(("name", "found_in"), OF_ONE.items())
def test_axe_finds_nothing_on_the_page_of_one_of_many(name: str, found_in: str, crowd: Crowd) -> None:
    origin, path = crowd.stage.server.url, LISTS[found_in].partition("?")[0]
    crowd.page.goto(origin + LISTS[found_in])
    first = crowd.page.locator(f'main th[scope=row] a[href^="{path}/"]').first
    assert faults_on(crowd.page, origin, name, str(first.get_attribute("href")), faults_of_full) == []


@pytest.mark.parametrize(("width", "height"), [(1920, 1080), (3840, 2160)])
def test_a_wallboard_is_seen_whole(width: int, height: int, crowd: Crowd) -> None:
    crowd.page.set_viewport_size({"width": width, "height": height})
    crowd.page.goto(f"{crowd.stage.server.url}/wallboard")
    root = "document.documentElement"
    assert crowd.page.evaluate(f"{root}.scrollHeight - {root}.clientHeight") <= 0
    assert crowd.page.evaluate(f"{root}.scrollWidth - {root}.clientWidth") <= 0
    shut = "one => one.scrollHeight > one.clientHeight + 1 && getComputedStyle(one).overflowY !== 'visible'"
    hidden = crowd.page.evaluate(f"[...document.querySelectorAll('main, main *')].filter({shut}).length")
    assert hidden == 0, "nobody scrolls a screen on a wall"


def test_every_page_keeps_its_budget_however_much_has_happened(crowd: Crowd) -> None:
    """Queries, bytes, elements and jumps, which do not hang on the machine; times are for `manage.py bench pages`."""
    server = served.Server(crowd.stage.server.url, crowd.stage.key, crowd.stage.server.process.pid, crowd.stage.data)
    with ThreadPoolExecutor(1) as aside:  # a browser of its own, whose loop cannot be this thread's
        reports = aside.submit(pages.measure_on, server, FEW, pages.PAGES, cpu_slower=1, is_hasty=True).result()
    kept = ("queries", "HTML", "first load", "layout shift", "elements", "largest figure")
    judged = [one for one in reports if one.name.removeprefix("pages: ").startswith(kept)]
    assert len(judged) == len(kept)
    assert [fault for one in judged for fault in over(one)] == []


def test_figures_agree_on_seeded_events(crowd: Crowd) -> None:
    end = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(hours=2)
    screens = Screens(crowd.page, crowd.stage.server.url, "dev", span_of(end - timedelta(minutes=30), end))
    assert settled_differences(screens) == []
    assert screens.values["failed attempts"]["issues"] != "0"
    assert screens.values["runs, all"]["list"] != "0"

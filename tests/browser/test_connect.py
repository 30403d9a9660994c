"""Connect an agent: one button fills a key into the snippets; each runs as pasted, and the page shows its event."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from recovery_ops.control.dashboard.snippets import NO_KEY
from tests.browser.stage import Stage
from tests.support.agents import manage_each
from tests.support.processes import ROOT, Server, clean_environment

PATIENCE_MS = 30_000


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    data = tmp_path_factory.mktemp("connect") / "data"
    with Server(data) as server:
        found = Stage(server, data)
        [found.passwords["admin"]] = manage_each(data, "account create root --role admin --generate")
        yield found


@pytest.fixture
def page(browser: Browser, stage: Stage) -> Iterator[Page]:
    """The page of an admin who has pressed the button."""
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{stage.server.url}/sign-in")
        page.get_by_label("Name").fill("root")
        page.get_by_label("Password").fill(stage.passwords["admin"])
        page.get_by_role("button", name="Sign in").click()
        page.goto(f"{stage.server.url}/connect")
        page.get_by_role("button", name="Create key").click()
        expect(page.locator("[data-secret]")).to_be_visible()
        yield page


COMMANDS = {
    "python": [sys.executable, "-c"],
    "plain-python": [sys.executable, "-I", "-c"],
    "javascript": ["node", "--input-type=module", "-e"],
    "curl": ["bash", "-c"],
    "environment": ["bash", "-c"],
}
"""What runs each snippet; the text of the snippet is the last word."""


@pytest.mark.parametrize("name", COMMANDS)
def test_pasted_snippet_turns_page_green(name: str, page: Page, tmp_path: Path) -> None:
    program, *words = COMMANDS[name]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    text = page.locator(f"[data-snippet={name}]").text_content() or ""
    assert NO_KEY not in text
    if name == "environment":
        text += f"{sys.executable} -m recovery_ops.runtime.self_test"
    expect(page.locator("#connect-status")).to_have_attribute("data-received", "no")
    env = clean_environment({"PYTHONPATH": str(ROOT), "RECOVERY_OPS_DIR": str(tmp_path)})
    done = subprocess.run(
        [program, *words, text], cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "errorMessage" not in done.stdout, "the event lacks nothing"
    expect(page.locator("#connect-status")).to_have_attribute("data-received", "yes", timeout=PATIENCE_MS)
    page.locator("#connect-status a").first.click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert "/runs/" in page.url or "service=my-agent" in page.url


def test_filled_snippets_fit_on_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    inside = "all => all.every(one => one.getBoundingClientRect().right <= innerWidth)"
    assert page.locator("#connect pre:visible").evaluate_all(inside)


def test_key_command_creates_a_key(browser: Browser, stage: Stage, page: Page, tmp_path: Path) -> None:
    page.goto(f"{stage.server.url}/connect")
    command = page.locator("[data-snippet=command]").text_content() or ""
    env = clean_environment({"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"})
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ro_")

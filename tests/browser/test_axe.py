"""Every screen for everybody, light and dark, in high contrast and in the system's own colours, wide and narrow, empty,
full, wrong and out of date: axe finds nothing, nothing sticks out, nothing is blocked and no script fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from recovery_ops.rules.enums import State
from tests.browser.axe import (
    EVERYTHING,
    LOST,
    WIDE,
    faults_of,
    faults_of_form,
    faults_of_template,
    faults_on,
    found_by_axe,
)
from tests.browser.screens import (
    ADMINS,
    EMPTY,
    FORMS,
    LOOKS_LIKE_ANOTHER,
    OFFICE_FORMS,
    REFUSED,
    REFUSED_FORMS,
    SCREENS,
    WRONG,
)
from tests.browser.stage import Stage
from tests.support.processes import Server
from tests.support.stories import counted, heartbeat, moved

STATIC = Path(__file__).resolve().parents[2] / "static"
SEND = """() => {
  const form = document.querySelector("main form[method=post]");
  const typed = "textarea, input:not([type=hidden], [type=radio], [type=checkbox])";
  for (const one of form.querySelectorAll(typed)) one.value = "";
  form.noValidate = true;
  form.submit();
}"""


@pytest.mark.default
def test_another_scheme_changes_nothing_but_colours() -> None:
    """By `light-dark()`, which takes colours and nothing else; so one look at each width tells the rest of both."""
    styles = re.sub(r"/\*.*?\*/", "", "".join(path.read_text() for path in STATIC.glob("*.css")), flags=re.DOTALL)
    assert "prefers-color-scheme" not in styles
    told = [body.strip() for body in re.findall(r"\[data-theme[=\]][^{}]*\{([^}]*)\}", styles)]
    assert told
    assert all(re.fullmatch(r"color-scheme: [a-z ]+;?", body) for body in told)


@pytest.mark.default
def test_what_looks_sees_what_is_wrong(page: Page) -> None:
    """And what a part alone is asked about, only there."""
    faults = "<img src=x><p style='color:#aaa'>pale</p>" + 2 * "<button style='width:9px;height:9px'>b</button>"
    lost = "<p class=stale style='color:#bbb'>old</p>"
    page.set_content(f"<html lang=en><title>x</title><main><h1>x</h1>{faults}{lost}</main>")
    found = [one.partition(":")[0] for one in found_by_axe(page, EVERYTHING)]
    assert found == ["color-contrast", "color-contrast", "image-alt", "target-size", "target-size"]
    [within] = found_by_axe(page, EVERYTHING, LOST)
    assert within.startswith("color-contrast: <p class")


@pytest.fixture(scope="module")
def desk(browser: Browser, stage: Stage) -> Iterator[Page]:
    """One page for all screens: signed in once, after an outage."""
    stage.suffer_outage()
    with browser.new_context(reduced_motion="reduce") as context:
        page = stage.sign_in(context)
        page.goto(f"{stage.server.url}/capacity")
        expect(page.locator("#capacity [data-key^=event-]").first).to_be_visible(
            timeout=60_000
        )  # the worker has looked
        yield page


@pytest.mark.default
def test_axe_finds_nothing_on_any_template(desk: Page, office: Page, stage: Stage, subtests: pytest.Subtests) -> None:
    """Each once, light and wide, then dark and narrow, with the bars around it on the overview alone.

    `--all` looks at every screen in everything that it can wear.
    """
    pages = {name: (desk, path) for name, path in SCREENS.items()} | {name: (office, ADMINS[name]) for name in ADMINS}
    for name, (page, path) in pages.items():
        if name not in LOOKS_LIKE_ANOTHER:
            look = faults_of_form if name == "overview" else faults_of_template
            with subtests.test(screen=name):
                assert faults_on(page, stage.server.url, name, path, look) == []


@pytest.mark.parametrize("name", [*SCREENS, *WRONG])
def test_axe_finds_nothing_on_any_screen(name: str, desk: Page, stage: Stage) -> None:
    assert faults_on(desk, stage.server.url, name, (SCREENS | WRONG)[name]) == []


@pytest.mark.parametrize("name", FORMS)
def test_axe_finds_nothing_on_a_form(name: str, desk: Page, stage: Stage) -> None:
    assert faults_on(desk, stage.server.url, name, FORMS[name], faults_of_form) == []
    assert is_there(desk, stage.server.url + FORMS[name])


@pytest.mark.parametrize("name", OFFICE_FORMS)
def test_axe_finds_nothing_on_a_form_of_an_administrator(name: str, office: Page, stage: Stage) -> None:
    path = OFFICE_FORMS[name].format(prefix=stage.prefix)
    assert faults_on(office, stage.server.url, name, path, faults_of_form) == []
    assert is_there(office, stage.server.url + path)


def is_there(page: Page, address: str) -> bool:
    """Whether that screen was looked at, and no error in its place."""
    return page.url == address and page.locator("main form, main .panel, .card").count() > 0


@pytest.mark.parametrize("name", [*REFUSED, *REFUSED_FORMS])
def test_axe_finds_nothing_on_a_form_that_was_refused(name: str, office: Page, stage: Stage) -> None:
    page = office
    page.set_viewport_size(WIDE)
    page.goto(stage.server.url + (REFUSED | REFUSED_FORMS)[name])
    with page.expect_navigation() as answered:
        page.evaluate(SEND)
    assert answered.value.status in (400, 422), "it says what is missing"
    expect(page.locator("main [aria-invalid=true], main [role=alert]").first).to_be_visible()
    look = faults_of if name in REFUSED else faults_of_form
    assert look(page, f"{name}, refused") == []


@pytest.mark.parametrize("name", ADMINS)
def test_axe_finds_nothing_on_any_screen_of_an_administrator(name: str, office: Page, stage: Stage) -> None:
    assert faults_on(office, stage.server.url, name, ADMINS[name]) == []


def test_axe_finds_nothing_where_somebody_may_not_go(browser: Browser, stage: Stage) -> None:
    with browser.new_context() as context:
        viewer = stage.sign_in(context, "viewer")
        assert faults_on(viewer, stage.server.url, "not allowed", "/breakers/search_web/trip") == []


@dataclass(frozen=True)
class Quiet:
    """A console to which hardly anything is reported; `faults` and `title` are of its page before anything was."""

    page: Page
    stage: Stage
    faults: list[str]
    title: str


@pytest.fixture(scope="module")
def quiet(browser: Browser, chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quiet]:
    """One server for both: the first page is looked at before its first fact comes."""
    data = tmp_path_factory.mktemp("quiet") / "data"
    with Server(data) as server, browser.new_context(reduced_motion="reduce") as context:
        stage = Stage(server, data).open_doors()
        page = stage.sign_in(context)
        faults = faults_on(page, server.url, "first run", "/")
        yield Quiet(page, stage, faults, page.get_by_role("heading", level=1).inner_text())


def test_axe_finds_nothing_on_the_first_page(quiet: Quiet) -> None:
    assert (quiet.faults, quiet.title) == ([], "Connect your first agent")


@pytest.mark.parametrize("name", EMPTY)
def test_axe_finds_nothing_where_there_is_nothing(name: str, quiet: Quiet) -> None:
    quiet.stage.tell(heartbeat(), moved(State.CLOSED), counted(3))
    assert faults_on(quiet.page, quiet.stage.server.url, name, EMPTY[name]) == []

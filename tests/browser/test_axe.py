"""Every screen for everybody, light and dark, in high contrast and in the system's own colours, wide and narrow, empty,
full, wrong and out of date: axe finds nothing, nothing sticks out, nothing is blocked and no script fails.

A screen is loaded once and changes its clothes in place: what a colour scheme cannot change is looked at once.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, ViewportSize, expect

from recovery_ops.rules.facts import SettingsInForce
from recovery_ops.rules.words import Category, Evidence, State
from tests.browser.stage import Stage
from tests.events.seeding import counted, failed, heartbeat, moved
from tests.processes import Server

STATIC = Path(__file__).resolve().parents[2] / "static"
SCREENS = {
    "overview": "/",
    "overview of a week": "/?over=7d",
    "monthly report": "/report/monthly",
    "capacity": "/capacity",
    "capacity event": "/capacity/1",
    "breakers": "/breakers",
    "breaker": "/breakers/search_web?range=15m",
    "breaker tables": "/breakers/search_web/tables",
    "other limits": "/breakers/search_web/simulate?failure_rate_threshold=0.2&minimum_number_of_calls=1",
    "trip": "/breakers/search_web/trip",
    "trip a pattern": "/breakers/search_*/trip",
    "breakers by name": "/named",
    "reset": "/breakers/search_web/reset",
    "resets": "/resets",
    "timelines": "/timelines?range=15m",
    "timelines as tables": "/timelines?range=15m&view=table",
    "escalations": "/escalations",
    "escalation": "/escalations/1",
    "approve": "/escalations/act/approve?number=1",
    "report": "/report",
    "failures": "/failures",
    "failure": "/failures/f00d",
    "triage": "/failures/act/archive?fingerprint=f00d",
    "escalate a cause": "/failures/act/escalate?fingerprint=f00d",
    "triage of several": "/failures/act/merge?fingerprint=f00d&fingerprint=unnamed-overloaded-model:large",
    "unclassified": "/failures/unclassified",
    "unclassified cause": "/failures/unclassified/badcafe",
    "runs": "/runs",
    "runs by rung and outcome": "/runs?view=flows",
    "run": "/runs/run-1",
    "policies": "/policies",
    "playbook": "/policies?tab=playbook",
    "steps": "/policies/playbook/timeout",
    "policy": "/policies/operations/search_web",
    "releases": "/policies/releases",
    "release": "/policies/releases/0",
    "explain": "/explain?operation=search_web",
    "agents": "/agents",
    "settings in force": "/agents/settings?service=research&instance=r-0",
    "intake": "/agents/intake",
    "audit": "/audit",
    "jobs": "/jobs",
    "export": "/exports/new?of=runs",
}
ADMINS = {
    "proposal": "/policies/proposals/1",
    "editor": "/policies/proposals/1/edit",
    "new proposal": "/policies/proposals/new",
    "replay": "/policies/replays/1",
    "rollout": "/policies/rollouts/1",
    "golden runs": "/policies/golden",
    "mark as golden": "/runs/run-1/golden",
    "feedback": "/feedback",
    "say what was bad": "/feedback/new?operation=search_web",
    "shed": "/shed",
    "many breakers": "/bulk?name=search_web&name=crm.update&verb=trip",
    "reset that goes on": "/resets/1",
    "degradations": "/degradations",
    "amplification": "/amplification",
    "settings": "/settings",
    "you": "/settings/you",
    "your email": "/settings/you/email",
    "shortcuts": "/settings/you/shortcuts",
    "keys": "/settings/keys",
    "new key": "/settings/keys/new",
    "access": "/settings/access",
    "new person": "/settings/access/new",
    "notifications": "/settings/notifications",
    "new channel to people": "/settings/notifications/channels/new/people",
    "data": "/settings/data",
    "masking": "/settings/data/masking",
    "health": "/settings/health",
    "steps to write": "/policies/playbook/timeout/edit",
    "saved views": "/views?screen=runs",
    "a view to save": "/views?screen=failures&query=range%3D1h",
    "find": "/find?q=search",
    "wallboard": "/wallboard",
    "annotate": "/timelines/annotate",
    "api": "/docs/api",
}
"""What only some people see, or only after somebody has done something."""
FORMS = {
    "run by operation": "/runs/run-1?tab=timeline",
    "run and its trace": "/runs/run-1?tab=trace",
    "run and what was said": "/runs/run-1?tab=messages",
    "run and its attributes": "/runs/run-1?tab=attributes",
    "run and what people did": "/runs/run-1?tab=audit",
    "ask about a run": "/runs/run-1/ask",
    "requests": "/requests",
    "merge events": "/capacity/arrange/merge?number=1",
    "split an event": "/capacity/arrange/split?number=1",
    "disable": "/breakers/search_web/disable",
    "snooze": "/escalations/act/snooze?number=1",
    "an entry of a timeline": "/escalations/act/entry?number=1",
    "assign a cause": "/failures/act/assign?fingerprint=f00d",
    "one's own sign-in": "/settings/you/sign-in",
    "one's own password": "/settings/you/password",
    "an app": "/settings/you/sign-in/app",
    "a security key": "/settings/you/sign-in/keys/add",
    "sign in again": "/sign-in/again",
}
OFFICE_FORMS = {
    "request": "/requests/1",
    "annotation": "/timelines/annotations/1",
    "golden run": "/policies/golden/1",
    "new channel": "/settings/notifications/channels/new/webhook",
    "channel": "/settings/notifications/channels/1",
    "test a channel": "/settings/notifications/channels/1/test",
    "new rule": "/settings/notifications/rules/new",
    "rule": "/settings/notifications/rules/1",
    "remove a rule": "/settings/notifications/rules/1/remove",
    "new chain": "/settings/notifications/chains/new",
    "chain": "/settings/notifications/chains/1",
    "log of messages": "/settings/notifications/log",
    "replace a key": "/settings/keys/{prefix}/replace",
    "revoke a key": "/settings/keys/{prefix}/revoke",
    "role of somebody": "/settings/access/3/role",
    "password of somebody": "/settings/access/3/reset",
}
"""Tabs and forms whose parts are those of the screens above: looked at light and wide, and dark and narrow."""
WRONG = {
    "no such breaker": "/breakers/nothing",
    "no such escalation": "/escalations/999",
    "no such reset": "/resets/999",
    "no breaker of a kind": "/breakers?show=disabled",
    "no failure matches": "/failures?operation=moon",
    "no run matches": "/runs?show=failed",
    "a range that cannot be": "/timelines?from=tomorrow&to=never",
    "a month that cannot be": "/report/monthly?month=moon",
    "a question that cannot be": "/escalations/act/approve?number=999",
    "nothing found": "/find?q=zzzzzz",
    "nothing explained": "/explain?operation=",
    "weeks that cannot be": "/report?weeks=moon",
    **{
        f"{name}, of a range that cannot be": f"{path}?from=tomorrow&to=never"
        for name, path in {
            "overview": "/",
            "capacity": "/capacity",
            "breakers": "/breakers",
            "breaker": "/breakers/search_web",
            "breaker tables": "/breakers/search_web/tables",
            "failures": "/failures",
            "runs": "/runs",
            "degradations": "/degradations",
            "amplification": "/amplification",
        }.items()
    },
}
REFUSED = {
    name: (SCREENS | ADMINS)[name]
    for name in (
        *("trip", "reset", "approve", "new proposal", "mark as golden", "say what was bad", "shed"),
        *("many breakers", "new key", "new person", "new channel to people"),
    )
}
REFUSED_FORMS = (
    {"ask about a run": FORMS["ask about a run"]}
    | {
        "annotate": ADMINS["annotate"],
    }
    | {name: OFFICE_FORMS[name] for name in ("new rule", "new chain", "new channel")}
)
"""Forms that are sent as they are first seen: their answer says at each field what is missing."""
EMPTY = {
    name: SCREENS[name]
    for name in (
        *("overview", "overview of a week", "monthly report", "capacity", "breakers", "timelines", "escalations"),
        *("report", "failures", "unclassified", "runs", "policies", "releases", "agents", "intake", "audit"),
        "resets",
    )
} | {name: ADMINS[name] for name in ("degradations", "amplification", "feedback", "saved views", "find", "wallboard")}
WITH_CHARTS = {"breaker", "timelines", "timelines as tables"}
WIDE: ViewportSize = {"width": 1280, "height": 900}
NARROW: ViewportSize = {"width": 400, "height": 844}
NARROWEST: ViewportSize = {"width": 320, "height": 700}
"""What a page has to bear without scrolling sideways (WCAG 1.4.10)."""
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
EVERYTHING = {"resultTypes": ["violations", "incomplete"], "runOnly": TAGS, "rules": {"target-size": {"enabled": True}}}
COLOURS = {"resultTypes": ["violations"], "runOnly": {"type": "rule", "values": ["color-contrast"]}}
"""What another colour scheme can change: `test_another_scheme_changes_nothing_but_colours`."""
TRIAGED = {
    ("color-contrast", "bgGradient"): "a table's own edge shade; the inks on each ground are computed in test_tokens",
    (
        "color-contrast",
        "elmPartiallyObscured",
    ): "the label of a lane, over which its drawing begins: an ink on a ground",
    ("color-contrast", "imgNode"): "words in a drawing: inks on grounds, computed in test_tokens",
    ("color-contrast", "bgOverlap"): "words of a scale over its own plot: inks on grounds, computed in test_tokens",
    ("color-contrast", "shortTextContent"): "a digit or two in the ink of its neighbours",
    ("color-contrast", "nonBmp"): "a glyph beside a word, or with one in its label",
}
"""What axe cannot tell, by rule and by why, and how it is known anyway. All else that it cannot tell is a fault."""

STICKING_OUT = """() => {
  const found = [];
  const edge = document.documentElement.clientWidth + 1;
  for (const one of document.querySelectorAll("body *")) {
    const style = getComputedStyle(one), box = one.getBoundingClientRect();
    if (style.visibility === "hidden" || !box.width || !box.height || style.position === "absolute") continue;
    let up = one.parentElement;
    while (up && !/auto|scroll/.test(getComputedStyle(up).overflowX)) up = up.parentElement;
    if (!up && box.right > edge) found.push(`${one.tagName} ${one.className}: ${one.textContent.trim().slice(0, 40)}`);
  }
  const wide = [...document.querySelectorAll(".table")].filter((one) => one.scrollWidth > one.clientWidth + 1);
  const shut = wide.filter((one) => one.tabIndex !== 0 && !one.querySelector("a, button, input"));
  return [...new Set(found), ...shut.map((one) => `no keyboard scrolls ${one.textContent.trim().slice(0, 40)}`)];
}"""

UNSEEN = """() => [...document.querySelectorAll("button, .button, .chip, input, select, textarea, [role=img], .mark")]
  .filter((one) => one.checkVisibility({ checkVisibilityCSS: true }) && one.getClientRects().length)
  .filter((one) => {
    const style = getComputedStyle(one);
    if (one.matches("svg, .mark, [role=img]")) return style.forcedColorAdjust !== "none" && !one.closest("a, button");
    const isBorderless = style.borderTopStyle === "none" || !parseFloat(style.borderTopWidth);
    return isBorderless && !one.textContent.trim() && !one.querySelector("svg") && !one.matches("input");
  })
  .map((one) => one.outerHTML.slice(0, 120))"""
"""In forced colours a mark keeps its own, and what is pressed has an edge, a word or a drawing."""

SPACED = """() => {
  const sheet = new CSSStyleSheet();
  const apart = "line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important";
  sheet.replaceSync(`* { ${apart} }
    p { margin-block-end: 2em !important }`);
  document.adoptedStyleSheets.push(sheet);
}"""
"""As far as a reader may pull the letters apart (WCAG 1.4.12)."""
CUT = """() => [...document.querySelectorAll("body *")]
  .filter((one) => one.checkVisibility({ checkVisibilityCSS: true }))
  .filter((one) => !one.closest("svg, .visually-hidden, .plotly-host"))
  .filter((one) => {
    const style = getComputedStyle(one);
    const isShut = (way) => ["hidden", "clip"].includes(way);
    // What is shortened on purpose leads to the whole of it, and a field scrolls by itself.
    if (style.textOverflow === "ellipsis" || style.webkitLineClamp !== "none" || one.matches("input")) return false;
    if (style.position === "absolute" || one.clientWidth < 2) return false;
    return (isShut(style.overflowX) && one.scrollWidth > one.clientWidth + 1)
      || (isShut(style.overflowY) && one.scrollHeight > one.clientHeight + 1);
  })
  .map((one) => `${one.tagName} ${one.className}: ${one.textContent.trim().slice(0, 40)}`)"""
"""Words that an edge hides, so that nobody can read them."""

SEND = """() => {
  const form = document.querySelector("main form[method=post]");
  const typed = "textarea, input:not([type=hidden], [type=radio], [type=checkbox])";
  for (const one of form.querySelectorAll(typed)) one.value = "";
  form.noValidate = true;
  form.submit();
}"""


@functools.cache
def axe_source() -> str:
    """The script of axe, from its package."""
    return (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()


def found_by_axe(page: Page, options: dict[str, Any]) -> list[str]:
    """What axe finds on a page, as `rule: element`."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe_source())
    answer = page.evaluate("options => axe.run(document, options)", options)
    found = [f"{rule['id']}: {node['target']}" for rule in answer["violations"] for node in rule["nodes"]]
    if "incomplete" not in options["resultTypes"]:
        return found
    for rule in answer["incomplete"]:
        for node in rule["nodes"]:
            data = [one["data"] for one in node["any"] + node["all"] + node["none"]]
            whys = {str(one.get("messageKey")) if isinstance(one, dict) else "" for one in data}
            rest = sorted(why for why in whys if (rule["id"], why) not in TRIAGED)
            found += [f"untold ({why}), {rule['id']}: {node['target']}" for why in rest]
    return found


def settled(page: Page, name: str) -> None:
    """Wait until the parts that come later are there."""
    if name in WITH_CHARTS:
        page.locator(".plotly-host").first.hover()
        expect(page.locator(".plotly-host .main-svg").first).to_be_visible(timeout=60_000)


LOSE = """() => {
  const ops = window.recoveryOps;
  if (!ops?.parts) return true; // a page of an error has no script, and cannot lose anything
  const parts = [...document.querySelectorAll("main [data-refresh-url], .js-plotly-plot[data-figure-url]")];
  for (const { id } of parts) ops.parts.tell(id, false);
  if (!parts.length) ops.say("This did not work.");
  return parts.every(({ id }) => document.getElementById(id).closest("figure, [data-stale]").querySelector(".stale"));
}"""
"""What a page looks like whose parts cannot be had any more; one that does not change by itself has a notice."""
TO_THE_TOP = "scrollTo(0, 0)"
"""What lies under the bar that stays above is smaller to axe than it is."""
CONTRAST = (
    "said => said ? document.documentElement.dataset.contrast = said : delete document.documentElement.dataset.contrast"
)


def faults_of(page: Page, name: str) -> list[str]:
    """Everything that is wrong with one screen, wide and narrow, each light and dark, in high contrast, in forced
    colours, and when its parts are lost; every rule at each width.
    """
    faults = []
    for size, word, schemes in ((WIDE, "wide", ("light", "dark")), (NARROW, "narrow", ("dark", "light"))):
        page.set_viewport_size(size)
        page.evaluate(TO_THE_TOP)
        for scheme, options in zip(schemes, (EVERYTHING, COLOURS), strict=True):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # one of the two words
            faults += [f"{name}, {word}, {scheme}: {one}" for one in found_by_axe(page, options)]
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # one of the two words
        page.evaluate(CONTRAST, "more")
        faults += [f"{name}, high contrast, {scheme}: {one}" for one in found_by_axe(page, COLOURS)]
        page.evaluate(CONTRAST, "")
    page.emulate_media(forced_colors="active")
    faults += [f"{name}, forced colours: {one}" for one in found_by_axe(page, COLOURS)]
    faults += [f"{name}, forced colours, not to be seen: {one}" for one in page.evaluate(UNSEEN)]
    page.emulate_media(forced_colors="none")
    assert page.evaluate(LOSE)
    faults += [f"{name}, lost, narrow: {one}" for one in found_by_axe(page, EVERYTHING)]
    page.set_viewport_size(WIDE)
    page.emulate_media(color_scheme="dark")
    faults += [f"{name}, lost, wide, dark: {one}" for one in found_by_axe(page, COLOURS)]
    for size in (NARROW, NARROWEST):
        page.set_viewport_size(size)
        faults += [f"{name}, {size['width']} px, sticks out: {one}" for one in page.evaluate(STICKING_OUT)]
    page.set_viewport_size(NARROW)
    page.evaluate(SPACED)
    faults += [f"{name}, letters apart: {one}" for one in (*page.evaluate(STICKING_OUT), *page.evaluate(CUT))]
    return faults


def faults_of_form(page: Page, name: str) -> list[str]:
    """What is wrong with a screen that is made of the parts of others."""
    faults = []
    for size, scheme in ((WIDE, "light"), (NARROW, "dark")):
        page.set_viewport_size(size)
        page.evaluate(TO_THE_TOP)
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # one of the two words
        faults += [f"{name}, {scheme}: {one}" for one in found_by_axe(page, EVERYTHING)]
    page.set_viewport_size(NARROWEST)
    return faults + [f"{name}, sticks out: {one}" for one in page.evaluate(STICKING_OUT)]


def faults_on(
    page: Page, origin: str, name: str, path: str, look: Callable[[Page, str], list[str]] = faults_of
) -> list[str]:
    """The faults of the screen at an address, and what the browser says of it: blocked, missing, or broken."""
    page.set_viewport_size(WIDE)
    with hearing(page) as said:
        answer = page.goto(origin + path)
        settled(page, name)
        faults = look(page, name)
    # Of an answer like this every browser tells.
    told = f"status of {answer.status}" if answer is not None and answer.status in (400, 403, 404) else None
    return faults + [f"{name} says: {one}" for one in said if told is None or told not in one]


@contextmanager
def hearing(page: Page) -> Iterator[list[str]]:
    """What the browser tells while this lasts."""
    said: list[str] = []

    def told(message: ConsoleMessage) -> None:
        said.append(message.text)

    def broke(error: Error) -> None:
        said.append(str(error))

    page.on("console", told)
    page.on("pageerror", broke)
    try:
        yield said
    finally:
        page.remove_listener("console", told)
        page.remove_listener("pageerror", broke)


def outage(stage: Stage) -> None:
    """Enough failures of one backend that the console calls it an outage, and one that nobody can name."""
    unknown = failed(Category.UNKNOWN, "crm.update", evidence=Evidence.NONE, fingerprint="badcafe", message="is busy")
    stage.tell(unknown, ago_s=8)
    overloaded = failed(Category.OVERLOADED, "model:large", provider="helios", model="large", status_code=529)
    for instance in ("r-0", "r-1"):
        stage.tell(*[overloaded] * 5, instance=instance, ago_s=5)
    knobs = {"max_retries": 1, "jitter": 0.25, "override": "none"}
    stage.tell(SettingsInForce(operation="search_web", revision=0, settings=knobs), instance="r-0", ago_s=1)


def test_another_scheme_changes_nothing_but_colours() -> None:
    """By `light-dark()`, which takes colours and nothing else; so one look at each width tells the rest of both."""
    styles = re.sub(r"/\*.*?\*/", "", "".join(path.read_text() for path in STATIC.glob("*.css")), flags=re.DOTALL)
    assert "prefers-color-scheme" not in styles
    told = [body.strip() for body in re.findall(r"\[data-theme[=\]][^{}]*\{([^}]*)\}", styles)]
    assert told
    assert all(re.fullmatch(r"color-scheme: [a-z ]+;?", body) for body in told)


@pytest.fixture(scope="module")
def desk(browser: Browser, stage: Stage) -> Iterator[Page]:
    """One page for all screens: signed in once, after an outage."""
    outage(stage)
    with browser.new_context(reduced_motion="reduce") as context:
        page = stage.sign_in(context)
        page.goto(f"{stage.server.url}/capacity")
        expect(page.locator("#capacity [data-key^=event-]").first).to_be_visible(
            timeout=60_000
        )  # the worker has looked
        yield page


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

"""What is wrong with a screen: by axe, in each colour scheme, at each width, with its letters pulled apart, out of
date, and what the browser says of it.

A screen is loaded once and changes its clothes in place: what a colour scheme cannot change is looked at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import axe_playwright_python
from playwright.sync_api import ConsoleMessage, Error, Page, ViewportSize, expect

WITH_CHARTS = {"breaker", "timelines", "timelines as tables"}
WIDE: ViewportSize = {"width": 1280, "height": 900}
NARROW: ViewportSize = {"width": 400, "height": 844}
NARROWEST: ViewportSize = {"width": 320, "height": 700}
"""What a page has to bear without scrolling sideways (WCAG 1.4.10)."""
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
EVERYTHING = {"resultTypes": ["violations", "incomplete"], "runOnly": TAGS, "rules": {"target-size": {"enabled": True}}}
BY_LOOK = {
    "resultTypes": ["violations", "incomplete"],
    "runOnly": {"type": "rule", "values": ["color-contrast", "target-size", "scrollable-region-focusable"]},
}
"""What depends on the width and the colour scheme: the other rules read names, roles and their order."""
COLOURS = {"resultTypes": ["violations"], "runOnly": {"type": "rule", "values": ["color-contrast"]}}
"""What another colour scheme can change: `test_another_scheme_changes_nothing_but_colours`."""
TRIAGED = {
    ("color-contrast", "bgGradient"): "a table's own edge shade; the inks on each ground are computed in test_tokens",
    (
        "color-contrast",
        "elmPartiallyObscured",
    ): "the label of a lane, over which its drawing begins: an ink on a ground",
    (
        "color-contrast",
        "elmPartiallyObscuring",
    ): "the same label where it is held before its drawing on a narrow screen: it brings its own ground",
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

SETTLES_MS = 2_000
_LOOKS_EACH_MS = 100

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


LOOK = """async ({ options, within }) => {
  const context = within ? { include: [...document.querySelectorAll(within)] } : document;
  if (within && !context.include.length) return [];
  // The way to an element by selectors is as dear to find as what is wrong with it: only what is wrong is told.
  const answer = await axe.run(context, { ...options, selectors: false, elementRef: true });
  const told = (rule, node, whys) => [rule.id, node.element?.outerHTML.slice(0, 160) ?? node.html.slice(0, 160), whys];
  const whysOf = (node) =>
    [...node.any, ...node.all, ...node.none].map(({ data }) => (Object(data) === data ? String(data.messageKey) : ""));
  return [
    ...answer.violations.flatMap((rule) => rule.nodes.map((node) => told(rule, node, null))),
    ...(options.resultTypes.includes("incomplete") ? answer.incomplete : []).flatMap((rule) =>
      rule.nodes.map((node) => told(rule, node, whysOf(node)))),
  ];
}"""


@functools.cache
def axe_source() -> str:
    """The script of axe, from its package."""
    return (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()


def found_by_axe(page: Page, options: dict[str, Any], within: str = "") -> list[str]:
    """What axe finds on a page, or in what a selector names on it, as `rule: element`."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe_source())
    found = []
    for rule, element, whys in page.evaluate(LOOK, {"options": options, "within": within}):
        if whys is None:
            found.append(f"{rule}: {element}")
        else:
            rest = sorted({why for why in whys if (rule, why) not in TRIAGED})
            found += [f"untold ({why}), {rule}: {element}" for why in rest]
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
LOST = ".stale, .notice"
"""What says so; the rest of the page stays as it was looked at before."""
SHORTEN = "() => document.querySelectorAll('tbody > tr:nth-child(n + 31)').forEach((row) => row.remove())"
"""A screen with the first rows of its tables; those after them are made of the same."""
TO_THE_TOP = "scrollTo(0, 0)"
"""What lies under the bar that stays above is smaller to axe than it is."""
CONTRAST = (
    "said => said ? document.documentElement.dataset.contrast = said : delete document.documentElement.dataset.contrast"
)


def sticking_out(page: Page) -> list[str]:
    """What is wider than its page. A chart is drawn to a new width a moment after that is there."""
    found: list[str] = page.evaluate(STICKING_OUT)
    for _ in range(SETTLES_MS // _LOOKS_EACH_MS):  # `wait_for_function` would be what the page's policy forbids
        if not found:
            break
        page.wait_for_timeout(_LOOKS_EACH_MS)
        found = page.evaluate(STICKING_OUT)
    return found


def faults_of(page: Page, name: str) -> list[str]:
    """Everything that is wrong with one screen, wide and narrow, each light and dark, in high contrast, in forced
    colours, and when its parts are lost; every rule at each width.

    The inks and grounds of high contrast are computed in `test_tokens` for both schemes; here it is seen in the light
    one that they reach the page. In forced colours they are the reader's own.
    """
    faults = _faults_in_each_scheme(page, name)
    page.evaluate(CONTRAST, "more")
    faults += [f"{name}, high contrast: {one}" for one in found_by_axe(page, COLOURS)]
    page.evaluate(CONTRAST, "")
    page.emulate_media(forced_colors="active")
    faults += [f"{name}, forced colours, not to be seen: {one}" for one in page.evaluate(UNSEEN)]
    page.emulate_media(forced_colors="none")
    assert page.evaluate(LOSE)
    faults += [f"{name}, lost, narrow, light: {one}" for one in found_by_axe(page, EVERYTHING, LOST)]
    page.set_viewport_size(WIDE)
    page.emulate_media(color_scheme="dark")
    faults += [f"{name}, lost, wide, dark: {one}" for one in found_by_axe(page, EVERYTHING, LOST)]
    return faults + _faults_in_little_room(page, name)


def faults_of_full(page: Page, name: str) -> list[str]:
    """What much of it can make wrong with a screen that `faults_of` is asked about when there is little: wide and
    narrow, each light and dark. High contrast, forced colours and what is lost are of the parts, however many.

    All of it has to fit; axe, which looks at each word, is shown some rows of each table.
    """
    page.set_viewport_size(NARROWEST)
    faults = [f"{name}, all of it, sticks out: {one}" for one in sticking_out(page)]
    page.evaluate(SHORTEN)
    return faults + _faults_in_each_scheme(page, name) + _faults_in_little_room(page, name)


def _faults_in_each_scheme(page: Page, name: str) -> list[str]:
    faults = []
    for size, word, schemes in ((WIDE, "wide", ("light", "dark")), (NARROW, "narrow", ("dark", "light"))):
        page.set_viewport_size(size)
        page.evaluate(TO_THE_TOP)
        for scheme, options in zip(schemes, (EVERYTHING, COLOURS), strict=True):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # one of the two words
            faults += [f"{name}, {word}, {scheme}: {one}" for one in found_by_axe(page, options)]
    return faults


def _faults_in_little_room(page: Page, name: str) -> list[str]:
    faults = []
    for size in (NARROW, NARROWEST):
        page.set_viewport_size(size)
        faults += [f"{name}, {size['width']} px, sticks out: {one}" for one in sticking_out(page)]
    page.set_viewport_size(NARROW)
    page.evaluate(SPACED)
    return faults + [f"{name}, letters apart: {one}" for one in (*sticking_out(page), *page.evaluate(CUT))]


def faults_of_form(page: Page, name: str) -> list[str]:
    """What is wrong with a screen that is made of the parts of others."""
    faults = []
    for size, scheme in ((WIDE, "light"), (NARROW, "dark")):
        page.set_viewport_size(size)
        page.evaluate(TO_THE_TOP)
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # one of the two words
        faults += [f"{name}, {scheme}: {one}" for one in found_by_axe(page, EVERYTHING)]
    page.set_viewport_size(NARROWEST)
    return faults + [f"{name}, sticks out: {one}" for one in sticking_out(page)]


def faults_of_template(page: Page, name: str) -> list[str]:
    """What is wrong with a screen: by every rule wide and light, by what the look changes narrow and dark.

    The bars around it are the same on all pages: the second look is at its own part.
    """
    page.set_viewport_size(WIDE)
    page.evaluate(TO_THE_TOP)
    page.emulate_media(color_scheme="light")
    faults = [f"{name}, light: {one}" for one in found_by_axe(page, EVERYTHING)]
    page.set_viewport_size(NARROW)
    page.evaluate(TO_THE_TOP)
    page.emulate_media(color_scheme="dark")
    faults += [f"{name}, dark: {one}" for one in found_by_axe(page, BY_LOOK, "main")]
    page.set_viewport_size(NARROWEST)
    return faults + [f"{name}, sticks out: {one}" for one in sticking_out(page)]


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

"""What journeys in a browser share: pictures of where they end, a storm, a queue, a pointer that is watched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from playwright.sync_api import Locator, Page

from tests.browser.stage import Stage
from tests.support.agents import manage

PATIENCE_MS = 30_000
fresh = count(1)
"""Numbers for names that no other test has, nor a try before this one."""

Visit = Callable[..., Page]


def picture(page: Page, folder: Path, name: str) -> None:
    """Keep what it looks like; pytest's `--basetemp` says where."""
    page.screenshot(path=folder / f"{name}.png", full_page=True)


def editor_of(stage: Stage) -> str:
    """Somebody who may propose policies."""
    if "editor" not in stage.passwords:
        stage.passwords["editor"] = manage(stage.data, "account", "create", "editor", "--role", "editor")
    return "editor"


WHERE_IT_IS = """([x, y]) => {
  const seen = (window.seen = []);
  const look = () => {
    const row = document.elementFromPoint(x, y)?.closest("tr");
    const now = row ? `${row.dataset.key} at ${Math.round(row.getBoundingClientRect().top)}` : "no row";
    if (now !== seen.at(-1)) seen.push(now);
    requestAnimationFrame(look);
  };
  look();
}"""
"""Writes down, in every frame, which row is under a point of the screen and where it begins."""


def point_at(page: Page, row: Locator) -> None:
    """Put the pointer on a row, and from now on write down what it is on."""
    box = row.bounding_box()
    assert box is not None
    place = [box["x"] + 250, box["y"] + box["height"] / 2]
    page.mouse.move(*place)
    page.evaluate(WHERE_IT_IS, place)


KEY_S, LETTER_S = 0.6, 0.25
"""What a practised person needs for a key that they choose, and for a letter of a sentence."""


@dataclass
class Hands:
    """Somebody without a mouse, and how long they would need for what they pressed."""

    page: Page
    took_s: float = 0.0

    def press(self, *keys: str) -> None:
        self.page.wait_for_load_state()  # before that no key is heard
        for key in keys:
            self.page.keyboard.press(key)
            self.took_s += KEY_S

    def type(self, text: str) -> None:
        self.page.keyboard.type(text)
        self.took_s += LETTER_S * len(text)

    def go_to(self, wanted: Locator) -> None:
        """Tab to it."""
        for _ in range(60):
            if wanted.evaluate("one => one === document.activeElement"):
                return
            self.press("Tab")
        raise AssertionError(f"no key reaches {wanted}")

    def choose(self, count: int) -> None:
        """The first so many rows, from a page that was just opened or refreshed."""
        self.press("j", "x", *["j"] * (count - 1), "Shift+X")

"""The colours: text that can be read, states that can be told apart, also by those who see fewer colours."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

TOKENS = Path(__file__).parent.parent / "static" / "tokens.css"
SCHEMES = ("light", "dark", "light, more contrast", "dark, more contrast")
TEXTS = ("ink", "ink-2", "ink-3")
GROUNDS = ("page", "panel", "raised", "sunken", "hover")
STATES = ("closed", "half-open", "open", "forced-open", "unknown")
SERIES = ("series-1", "series-2", "series-3", "series-4", "unknown")
LEAST_TEXT, LEAST_GRAPHIC, LEAST_DISTANCE = 4.5, 3.0, 20.0

SEEN: dict[str, tuple[tuple[float, float, float], ...]] = {
    "all colours": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "no green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "no blue": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
"""What of linear red, green and blue is seen (Machado, Oliveira and Fernandes 2009, at full severity)."""

Three = tuple[float, float, float]


def tokens() -> dict[str, dict[str, str]]:
    """The colours of each scheme by name, as `#RRGGBB`; more contrast changes some of them."""
    usual, _, more = TOKENS.read_text().partition("prefers-contrast")
    plain = re.compile(r"--([\w-]+): light-dark\((#[0-9A-Fa-f]{6}), (#[0-9A-Fa-f]{6})\)")
    found = [(name, *pair) for name, *pair in plain.findall(usual)]
    changed = found + [(name, *pair) for name, *pair in plain.findall(more)]
    assert len(changed) > len(found) > len(STATES), "the tokens are written otherwise than these tests read them"
    parts = [(found, 1), (found, 2), (changed, 1), (changed, 2)]
    return {scheme: {row[0]: row[place] for row in rows} for scheme, (rows, place) in zip(SCHEMES, parts, strict=True)}


COLOURS = tokens()


def linear(colour: str) -> Three:
    r, g, b = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return tuple(one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in (r, g, b))  # type: ignore[return-value]  # three in, three out


def luminance(colour: str) -> float:
    r, g, b = linear(colour)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def lab(rgb: Three) -> Three:
    """CIELAB under D65 of linear red, green and blue."""
    r, g, b = (min(1.0, max(0.0, one)) for one in rgb)
    x = (0.4124564 * r + 0.3575761 * g + 0.1804375 * b) / 0.95047
    y = 0.2126729 * r + 0.7151522 * g + 0.0721750 * b
    z = (0.0193339 * r + 0.1191920 * g + 0.9503041 * b) / 1.08883
    fx, fy, fz = (t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def seen_as(colour: str, eyes: str) -> Three:
    rgb = linear(colour)
    r, g, b = (sum(weight * one for weight, one in zip(row, rgb, strict=True)) for row in SEEN[eyes])
    return lab((r, g, b))


def distance(one: Three, other: Three) -> float:
    """CIEDE2000."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean_c = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    g = 0.5 * (1 - math.sqrt(mean_c**7 / (mean_c**7 + 25**7)))
    c1, c2 = math.hypot(a1 * (1 + g), b1), math.hypot(a2 * (1 + g), b2)
    h1, h2 = (math.degrees(math.atan2(b, a * (1 + g))) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = 0.0 if c1 * c2 == 0 else (h2 - h1 + 180) % 360 - 180
    dh = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(turn / 2))
    mean_l, mean_cp = (l1 + l2) / 2, (c1 + c2) / 2
    mean_h = h1 + h2 if c1 * c2 == 0 else (h1 + turn / 2) % 360
    t = (
        1
        - 0.17 * math.cos(math.radians(mean_h - 30))
        + 0.24 * math.cos(math.radians(2 * mean_h))
        + 0.32 * math.cos(math.radians(3 * mean_h + 6))
        - 0.20 * math.cos(math.radians(4 * mean_h - 63))
    )
    sl = 1 + 0.015 * (mean_l - 50) ** 2 / math.sqrt(20 + (mean_l - 50) ** 2)
    sc, sh = 1 + 0.045 * mean_cp, 1 + 0.015 * mean_cp * t
    bend = 60 * math.exp(-(((mean_h - 275) / 25) ** 2))
    rt = -2 * math.sqrt(mean_cp**7 / (mean_cp**7 + 25**7)) * math.sin(math.radians(bend))
    dl, dc = (l2 - l1) / sl, (c2 - c1) / sc
    return math.sqrt(dl**2 + dc**2 + (dh / sh) ** 2 + rt * dc * dh / sh)


def test_the_measure_of_distance_is_that_of_its_authors() -> None:
    assert distance((50, 2.6772, -79.7751), (50, 0, -82.7485)) == pytest.approx(2.0425, abs=1e-4)
    assert distance((50, 2.5, 0), (73, 25, -18)) == pytest.approx(27.1492, abs=1e-4)
    assert distance((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514)) == pytest.approx(0.9082, abs=1e-4)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_can_be_read_on_every_ground(scheme: str) -> None:
    colours = COLOURS[scheme]
    pairs = [(text, ground) for text in TEXTS for ground in GROUNDS] + [("on-ink", "ink"), ("on-ink", "ink-2")]
    weak = {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in pairs}
    assert {pair: found for pair, found in weak.items() if found < LEAST_TEXT} == {}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_fills_and_edges_of_controls_stand_out(scheme: str) -> None:
    colours = COLOURS[scheme]
    pairs = [(name, ground) for name in (*STATES, *SERIES, "control") for ground in ("page", "panel")]
    weak = {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in pairs}
    assert {pair: found for pair, found in weak.items() if found < LEAST_GRAPHIC} == {}


@pytest.mark.parametrize("together", [STATES, SERIES], ids=["states", "series"])
@pytest.mark.parametrize("eyes", SEEN)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_states_and_series_can_be_told_apart(scheme: str, eyes: str, together: Sequence[str]) -> None:
    colours = COLOURS[scheme]
    near = {
        (one, other): distance(seen_as(colours[one], eyes), seen_as(colours[other], eyes))
        for one, other in combinations(together, 2)
    }
    assert {pair: found for pair, found in near.items() if found < LEAST_DISTANCE} == {}

"""The map of the house: every place that it names is there, and every room of the house is on it."""

from __future__ import annotations

import re

from tests.support.processes import ROOT

MAP = (ROOT / "docs/architecture.md").read_text()
PLACES = sorted(set(re.findall(r"`((?:recovery_ops|events|tests|docs|static|templates)(?:/[\w.]+)*)`", MAP)))
ROOMS = sorted(
    str(one.parent.relative_to(ROOT))
    for house in ("recovery_ops", "events")
    for one in ROOT.joinpath(house).glob("*/__init__.py")
    if one.parent.name not in ("migrations", "management", "locks")
)


def test_named_places_exist() -> None:
    assert [place for place in PLACES if not (ROOT / place).exists()] == []


def test_every_package_is_named() -> None:
    assert [room for room in ROOMS if room not in MAP] == []

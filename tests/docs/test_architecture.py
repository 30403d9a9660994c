"""The map of the house: every place that it names is there, and every room of the house is on it."""

from __future__ import annotations

import re

import pytest

from tests.support.processes import ROOT

MAP = (ROOT / "docs/architecture.md").read_text()
PLACES = sorted(set(re.findall(r"`((?:recovery_ops|events|tests|docs|static|templates)(?:/[\w.]+)*)`", MAP)))
ROOMS = sorted(
    str(one.parent.relative_to(ROOT))
    for house in ("recovery_ops", "events")
    for one in ROOT.joinpath(house).glob("*/__init__.py")
    if one.parent.name not in ("migrations", "management", "locks")
)


@pytest.mark.parametrize("place", PLACES)
def test_a_place_that_it_names_is_there(place: str) -> None:
    assert (ROOT / place).exists()


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_of_the_house_is_on_it(room: str) -> None:
    assert room in MAP


@pytest.mark.parametrize("link", re.findall(r"\]\(([\w./-]+)\)", MAP))
def test_a_link_leads_somewhere(link: str) -> None:
    assert (ROOT / "docs" / link).exists()

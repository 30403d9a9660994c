"""Any bytes at all, and good bytes with a few changed: nothing but what the targets allow comes of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.seeds import SEEDS
from tests.fuzz.targets import TARGETS, WORDS


@st.composite
def damaged(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """A good example in which a few places were overwritten, cut out or doubled."""
    data = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        width = draw(st.integers(0, 8))
        piece = draw(st.binary(max_size=8) | st.sampled_from([f'"{word}":'.encode() for word in WORDS]))
        data[at : at + width] = piece if draw(st.booleans()) else bytes(data[at : at + width]) * 2
    return bytes(data)


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_nothing_but_what_is_allowed_comes_of_any_bytes(name: str) -> None:
    target = TARGETS[name]

    @settings(max_examples=150, deadline=None)
    @given(st.binary(max_size=200) | damaged(list(SEEDS[name])))
    def thrown(data: bytes) -> None:
        target(data)

    thrown()


@pytest.mark.parametrize("name", sorted(SEEDS))
def test_the_seeds_are_good(name: str) -> None:
    for seed in SEEDS[name]:
        TARGETS[name](seed)

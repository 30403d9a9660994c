"""Any bytes at all, and good bytes with a few changed: nothing but what the targets allow comes of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events.derived import derive_from_spans
from events.otlp.sent import Encoding
from events.otlp.spans import read_spans
from recovery_ops.control.desired_state.opamp import messages
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

    @settings(deadline=None)
    @given(st.binary(max_size=200) | damaged(list(SEEDS[name])))
    def thrown(data: bytes) -> None:
        target(data)

    thrown()


@pytest.mark.parametrize("name", sorted(SEEDS))
def test_the_seeds_are_good(name: str) -> None:
    for seed in SEEDS[name]:
        TARGETS[name](seed)


def test_the_seeds_of_spans_and_of_agents_are_read() -> None:
    """A seed that is refused at the first byte leads a fuzzer nowhere."""
    for seed in SEEDS["traces"]:
        encoding = Encoding.PROTOBUF if seed[0] == 0 else Encoding.JSON
        [batch] = derive_from_spans(read_spans(seed[1:], encoding)).batches
        assert batch.records
    first, second = (messages.parse(seed) for seed in SEEDS["opamp"])
    assert (first.description, second.status) == ({"service.name": "research"}, messages.Status(b"hash", 2, ""))


def test_a_name_that_is_no_text_is_no_message_of_an_agent() -> None:
    broken = SEEDS["opamp"][0].replace(b"service.name", b"service.\x90ame")
    assert broken != SEEDS["opamp"][0]
    with pytest.raises(messages.Malformed):
        messages.parse(broken)

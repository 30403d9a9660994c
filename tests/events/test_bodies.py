"""Inflating within bounds, and a room that is always given back."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.otlp.bodies import BodyRefused, Room, inflate


def inflated(body: bytes, coding: str = "gzip", *, most_bytes: int = 10**7, room: int = 10**9) -> bytes:
    with Room(room).share() as share:
        return inflate(body, coding, share, most_bytes=most_bytes)


@given(st.lists(st.binary(max_size=50) | st.integers(0, 200_000).map(bytes), min_size=1, max_size=5))
def test_members_of_any_size_come_out_whole(parts: list[bytes]) -> None:
    assert inflated(b"".join(gzip.compress(part) for part in parts)) == b"".join(parts)
    assert inflated(zlib.compress(b"".join(parts)), "deflate") == b"".join(parts)


def test_zeros_behind_gzip_are_the_padding_of_whoever_writes_in_blocks() -> None:
    for zeros in (1, 511, 200_000):
        assert inflated(gzip.compress(b"a") + gzip.compress(b"b") + bytes(zeros)) == b"ab"
        for body, coding in ((gzip.compress(b"a") + bytes(zeros) + b"x", "gzip"), (bytes(zeros), "gzip")):
            with pytest.raises(BodyRefused):
                inflated(body, coding)


@given(st.binary(max_size=300), st.sampled_from(["gzip", "deflate"]))
def test_random_bytes_are_refused_or_inflated(body: bytes, coding: str) -> None:
    try:
        inflated(body, coding)
    except BodyRefused as refused:
        assert refused.status == 400  # noqa: PT017  (most are refused, but not all)


@pytest.mark.parametrize("size", [999, 1000, 1001, 5_000_000])
def test_the_bound_is_exact(size: int) -> None:
    if size <= 1000:
        assert len(inflated(gzip.compress(bytes(size)), most_bytes=1000)) == size
        return
    with pytest.raises(BodyRefused) as refused:
        inflated(gzip.compress(bytes(size)), most_bytes=1000)
    assert refused.value.status == 413


def test_a_share_is_given_back_and_then_closed() -> None:
    room = Room(100)
    with room.share() as share:
        share.take(60)
        with pytest.raises(BodyRefused), room.share() as other:
            other.take(50)
        assert room.held_bytes == 60
    assert room.held_bytes == 0
    with pytest.raises(BodyRefused):
        share.take(1)  # a thread that still inflates for a request that was given up
    assert room.held_bytes == 0

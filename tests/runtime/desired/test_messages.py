from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.runtime.config.server_sent_events import Message, Messages, TooLong

LIMIT = 1000


def read(*chunks: bytes) -> list[Message]:
    messages = Messages(limit_bytes=LIMIT)
    return [message for chunk in chunks for message in messages.feed(chunk)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"data: x\n\n", [Message("message", "x", "")]),
        (b"data:x\n\n", [Message("message", "x", "")]),
        (b"data:  x\n\n", [Message("message", " x", "")]),
        (b"id: 7\nevent: desired\ndata: {}\n\n", [Message("desired", "{}", "7")]),
        (b"data: a\ndata: b\n\n", [Message("message", "a\nb", "")]),
        (b"data: a\r\n\r\ndata: b\r\r", [Message("message", "a", ""), Message("message", "b", "")]),
        (b"\xef\xbb\xbfdata: x\n\n", [Message("message", "x", "")]),
        (b"id: 7\ndata: a\n\ndata: b\n\n", [Message("message", "a", "7"), Message("message", "b", "7")]),
        (b"id: 7\ndata: a\n\nid\ndata: b\n\n", [Message("message", "a", "7"), Message("message", "b", "")]),
        (b"id: a\0b\ndata: x\n\n", [Message("message", "x", "")]),
        (b"data\n\n", [Message("message", "", "")]),
        (b"retry: 10\nunknown: x\ndata: x\n\n", [Message("message", "x", "")]),
        (b"data: \xff\n\n", [Message("message", "\ufffd", "")]),
        (b": heartbeat\n\n", []),
        (b"event: only\n\n", []),
        (b"data: not whole\n", []),
        (b"\n\n\n", []),
        (b"", []),
    ],
)
def test_events_are_read_as_the_standard_has_it(content: bytes, expected: list[Message]) -> None:
    assert read(content) == expected


STREAM = (
    b'\xef\xbb\xbf: hi\r\nid: 12\r\nevent: desired\r\ndata: {"a":\rdata: "\xe2\x98\x83"}\r\n\r\n:\n\ndata: z\n\ndata'
)


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_where_the_bytes_are_cut_makes_no_difference(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[start:end] for start, end in pairwise(places)]
    assert read(*chunks) == [Message("desired", '{"a":\n"☃"}', "12"), Message("message", "z", "12")]


@given(st.lists(st.binary(max_size=60), max_size=20))
def test_garbage_is_read_without_complaint(chunks: list[bytes]) -> None:
    for message in read(*chunks):
        assert isinstance(message.data, str)


@pytest.mark.parametrize("chunk", [b"data: " + b"x" * 99, b"data: " + b"x" * 92 + b"\n", b"x" * 100])
def test_an_event_without_an_end_is_given_up(chunk: bytes) -> None:
    with pytest.raises(TooLong):
        read(*[chunk] * 30)


def test_many_short_events_are_no_long_one() -> None:
    assert len(read(*[b"data: " + b"x" * 90 + b"\n\n"] * 50)) == 50

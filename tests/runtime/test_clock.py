from __future__ import annotations

import threading
import time
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.runtime.process.clock import Clock, UuidSource, uuid7

LATEST_NS = 2**48 * 1_000_000 - 1


@given(st.lists(st.integers(0, LATEST_NS), min_size=1, max_size=50))
def test_identifiers_only_rise_whatever_the_clock_does(times: list[int]) -> None:
    source = UuidSource()
    made = [source(at_ns) for at_ns in times]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


@given(st.integers(0, LATEST_NS))
def test_an_identifier_carries_its_time_and_says_what_it_is(at_ns: int) -> None:
    made = UUID(UuidSource()(at_ns))
    assert made.int >> 80 == at_ns // 1_000_000
    assert (made.version, made.variant) == (7, RFC_4122)


@pytest.mark.parametrize("bits", [lambda count: 0, lambda count: (1 << count) - 1], ids=["all zero", "all one"])
def test_order_survives_the_worst_chance(bits: object) -> None:
    assert callable(bits)
    source = UuidSource(bits)
    made = [source(5_000_000_000) for _ in range(100)]
    assert made == sorted(set(made))


def test_the_text_is_canonical() -> None:
    made = uuid7()
    assert made == str(UUID(made))


def test_threads_never_get_the_same_one() -> None:
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.extend([uuid7() for _ in range(500)])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == len(made) == 4000


def test_the_clock_is_the_machines() -> None:
    clock = Clock()
    assert clock.now() <= time.monotonic()
    assert abs(clock.wall() - time.time()) < 5
    assert abs(clock.wall_ns() - time.time_ns()) < 5_000_000_000

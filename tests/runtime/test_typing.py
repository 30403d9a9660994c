"""What a strict reader of types knows of guards: arguments and results, of functions, methods, tasks and fallbacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.type_checkers import CHECKERS, faults_of

pytestmark = pytest.mark.default

SAMPLE = """
from collections.abc import Callable
from datetime import timedelta
from typing import Any, assert_type

from recovery_ops.runtime import Degraded, Fallback, Guarded, Outcome, Recovery

recovery = Recovery("sample", url="", default_source="main_agent")


@recovery.guard
def bare(query: str) -> list[str]:
    return [query]


@recovery.guard("plain", read_only=True, attempt_timeout=timedelta(seconds=3))
def plain(query: str, most: int = 3) -> int:
    return most


@recovery.guard("later", kind="model")
async def later(query: str) -> int:
    return 1


@recovery.guard("optional", optional=True)
def optional(query: str) -> int:
    return 1


def cached(query: str) -> str:
    return query


@recovery.guard("backed", fallback=cached)
def backed(query: str) -> int:
    return 1


@recovery.guard("warned", fallback=[Fallback(cached, warning="old")])
async def warned(query: str) -> int:
    return 1


@recovery.guard("optional_later", optional=True)
async def optional_later(query: str) -> int:
    return 1


@recovery.guard("both", optional=True, fallback=cached)
def both(query: str) -> int:
    return 1


async def cached_later(query: str) -> str:
    return query


@recovery.guard("chained", fallback=[cached_later])
async def chained(query: str) -> int:
    return 1


class Store:
    @recovery.guard
    def bare(self, query: str) -> int:
        return 1

    @staticmethod
    @recovery.guard("static")
    def static(query: str) -> int:
        return 1

    @recovery.guard("find_or_not", optional=True)
    def find_or_not(self, query: str) -> int:
        return 1

    @recovery.guard("find")
    def find(self, query: str) -> int:
        return 1

    @recovery.guard("find_later")
    async def find_later(self, query: str) -> int:
        return 1


def untyped(*args: Any) -> Any:
    return 1


def takes(function: Callable[[str], int]) -> Guarded[[str], int]:
    return recovery.guard("taken")(function)


async def use(store: Store) -> None:
    assert_type(await optional_later("x"), int | Degraded)
    assert_type(await optional_later.outcome("x"), Outcome[int | Degraded])
    assert_type(await chained("x"), int | str)
    either: int | str | Degraded = both("x")
    assert_type(store.bare("x"), int)
    assert_type(Store.static("x"), int)
    assert_type(store.find_or_not("x"), int | Degraded)
    assert_type(store.find_or_not.outcome("x"), Outcome[int | Degraded])
    assert_type(Store.find(store, "x"), int)
    assert_type(takes(recovery.guard(len)).outcome("x"), Outcome[int])
    assert_type(await recovery.call(cached_later, "x"), str)
    async for attempt in recovery.attempts("block", timeout=timedelta(seconds=3)):
        async with attempt:
            assert_type(attempt.number, int)
    async with recovery.guard("block") as guarded_block:
        assert_type(guarded_block.number, int)
    print(either)
    assert_type(bare("x"), list[str])
    assert_type(plain("x", most=4), int)
    assert_type(plain.outcome("x"), Outcome[int])
    assert_type(await later("x"), int)
    assert_type(await later.outcome("x"), Outcome[int])
    assert_type(optional("x"), int | Degraded)
    assert_type(backed("x"), int | str)
    assert_type(await warned("x"), int | str)
    assert_type(store.find("x"), int)
    assert_type(store.find.outcome("x"), Outcome[int])
    assert_type(await store.find_later("x"), int)
    assert_type(await store.find_later.outcome("x"), Outcome[int])
    assert_type(recovery.call(cached, "x"), str)
    found: int = recovery.guard("untyped")(untyped)("x")
    value: int = recovery.guard("untyped")(untyped).outcome("x").value
    print(found, value)
    for attempt in recovery.attempts("block", read_only=True):
        with attempt:
            assert_type(attempt.number, int)
    with recovery.guard("block") as block:
        assert_type(block.number, int)


plain(3)  # wrong: an argument
store_result: str = Store().find("x")  # wrong: a result
recovery.guard("q", retries=3)  # wrong: an option
recovery.guard("q", kind="modle")  # wrong: a kind
store_method: int = Store().find(3)  # wrong: an argument of a method
degraded: int = optional("x")  # wrong: it may be left out
recovery.attempts("q", fallback=cached)  # wrong: a block has no fallback
"""


@pytest.mark.parametrize("checker", CHECKERS)
def test_guards_keep_types_for_checker(checker: str, tmp_path: Path) -> None:
    faults = faults_of(checker, SAMPLE, tmp_path)
    wrong = {number for number, line in enumerate(SAMPLE.splitlines(), start=1) if "# wrong" in line}
    assert set(faults) == wrong, faults

"""Whatever a tool returns, the model gets text: bounded, visible, without secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.tools.result_text import NOTHING, plain_json, shown

CANARY = "sk-canary0123456789abcdef"


class Colour(Enum):
    RED = "red"


@dataclass
class Page:
    url: str
    size: int


class Loud:
    def __str__(self) -> str:
        raise RuntimeError("not printable")


class Lying(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        raise KeyError(key)

    def __iter__(self) -> Any:
        raise OSError("gone")

    def __len__(self) -> int:
        return 3


class Modelled:
    def model_dump(self, mode: str) -> dict[str, object]:
        return {"mode": mode}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, NOTHING),
        ("as it is\nin two lines", "as it is\nin two lines"),
        ("", ""),
        (b"bytes", "bytes"),
        (b"\xff\xfe", "(2 bytes that are no text)"),
        (7, "7"),
        (True, "true"),
        (1.5, "1.5"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        ({"b": 1, 2: [None]}, '{"b": 1, "2": [null]}'),
        ((1, 2), "[1, 2]"),
        (Colour.RED, "red"),
        (Page("x", 3), '{"url": "x", "size": 3}'),
        (Modelled(), '{"mode": "json"}'),
        (date(2026, 1, 2), "2026-01-02"),
        (Decimal("1.10"), "1.10"),
        (PurePosixPath("/tmp"), "/tmp"),
        ({"ü": "é"}, '{"ü": "é"}'),
        (object(), "(a object that cannot be shown as text)"),
        (Loud(), "(a Loud that cannot be shown as text)"),
        (Lying(), "(a Lying that cannot be shown as text)"),
        ([Loud()], '["(a Loud that cannot be shown as text)"]'),
    ],
)
def test_every_value_has_a_text(value: object, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    "value",
    [
        f"the key is {CANARY}",
        {"note": f"Authorization: Bearer {CANARY}"},
        {"password": "hunter2-canary0123456789abcdef"},
        {"deep": [{"api_key": "canary0123456789abcdef"}]},
        [f"https://ana:{CANARY}@example.org/"],
        Page(CANARY, 1),
        CANARY.encode(),
        {CANARY: 1},
    ],
)
def test_no_secret_is_shown(value: object) -> None:
    assert "canary0123456789" not in shown(value)


def test_a_tool_may_say_that_its_output_must_arrive_unchanged() -> None:
    assert shown({"key": CANARY}, is_masked=False) == json.dumps({"key": CANARY})


def test_invisible_characters_are_gone() -> None:
    assert shown({"a": "x\u202ey\x07z"}) == '{"a": "xyz"}'
    assert shown("x\u202ey\x07z\ttab\n") == "xyz\ttab\n"


def test_what_cannot_be_encoded_is_replaced_even_where_nothing_is_masked() -> None:
    assert shown("\ud800", is_masked=False) == "?"


def test_what_has_no_end_is_cut() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert shown(endless).endswith("]" * 32)
    assert "cut: 3000000 characters in all" in shown("x" * 3_000_000)[-60:]
    assert len(json.loads(shown(list(range(200_000))))) <= 100_001
    assert shown(10**400) == "(a number too large to show)"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4) | st.tuples(inner, inner),
    max_leaves=12,
)


@given(values)
def test_anything_becomes_text_that_can_be_sent(value: object) -> None:
    text = shown(value)
    text.encode()
    if not isinstance(value, str | bytes | None):
        json.dumps(plain_json(value), allow_nan=False)

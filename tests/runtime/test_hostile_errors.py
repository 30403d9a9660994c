"""Objects that do their worst when they are read: nothing raises, nothing leaks, nothing takes long."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import fields
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import Category
from recovery_ops.runtime.failures.signals import Response, classify, signal_of
from tests.support.masking import SECRETS
from tests.support.signals import McpError, OpenAiStatusError, RpcError, carrying, caused, library

C = Category


class Raising(Exception):
    """Everything about it raises, and not only ordinary exceptions."""

    def __str__(self) -> str:
        raise SystemExit("from __str__")

    def __repr__(self) -> str:
        return "Raising()"  # Hypothesis prints its examples

    @property
    def status_code(self) -> int:
        raise GeneratorExit

    @property
    def response(self) -> object:
        raise RuntimeError("lazy")

    @property
    def kind(self) -> str:
        raise MemoryError


class Hostile(Mapping[str, object]):
    def __getitem__(self, key: str) -> object:
        raise RuntimeError("no")

    def __iter__(self) -> Iterator[str]:
        raise ZeroDivisionError

    def __len__(self) -> int:
        return 10**9


class Lazy:
    """A response whose body would have to be fetched."""

    status_code = 500

    @property
    def text(self) -> str:
        raise AssertionError("this would have caused I/O")

    content = body = data = text


class HugeHeaders(Mapping[str, str]):
    def __getitem__(self, key: str) -> str:
        return "x"

    def __iter__(self) -> Iterator[str]:
        return (f"x-ratelimit-{number}" for number in range(10**12))

    def __len__(self) -> int:
        return 10**12


def test_an_error_that_raises_when_it_is_read() -> None:
    failure = classify(Raising())
    assert (failure.category, failure.message) == (C.UNKNOWN, "")
    assert failure.exception_type == "tests.runtime.test_hostile_errors.Raising"


def test_a_body_is_never_fetched() -> None:
    error = carrying(library("app.Odd"), "boom", response=Lazy())
    assert (classify(error).category, classify(error).message) == (C.SERVER_ERROR, "boom")


@pytest.mark.parametrize(
    "error",
    [
        carrying(library("app.Odd"), response=Hostile(), body=Hostile(), headers=Hostile(), details=Hostile()),
        carrying(library("app.Odd"), headers=HugeHeaders()),
        carrying(library("app.Odd"), body={"error": {"message": Hostile(), "details": Hostile(), "code": Raising}}),
        carrying(library("app.Odd"), args=(Raising(),)),
        carrying(library("app.Odd"), body=b"[" * 60_000, status_code="many", code=HTTPStatus),
        library("app.Odd", __mro_entries__=None, __slots__=("body", "code"))(),
        Exception({"nested": [[[[["deep"] * 100] * 100] * 100] * 100] * 3}),
        Exception(*range(100_000)),
    ],
)
def test_hostile_parts_are_left_out(error: BaseException) -> None:
    failure = classify(error)
    assert failure.category in (C.UNKNOWN, C.SERVER_ERROR)
    assert len(failure.message) <= 1024


def test_what_was_read_before_a_part_that_raises_is_kept() -> None:
    class Late(Exception):
        status_code = HTTPStatus.FORBIDDEN
        headers = Hostile()

    assert classify(Late()).category is C.PERMISSION


def test_a_huge_text_or_body_costs_next_to_nothing() -> None:
    huge = "x" * 30_000_000
    for error in (
        Exception(huge),
        carrying(library("app.Odd"), body=huge.encode(), message=huge),
        Exception(1, huge),
    ):
        assert len(signal_of(error).message) <= 4096
    assert len(signal_of(Response(500, {}, huge)).message) <= 4096


def test_causes_that_run_in_a_circle_or_on_and_on() -> None:
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert len(signal_of(first).types) == 2
    last: BaseException = TimeoutError()
    for _ in range(50):
        last = caused(RuntimeError("x"), last)
    assert len(signal_of(last).types) == 8


ATTRIBUTES = [
    "kind",
    "status_code",
    "status",
    "code",
    "response",
    "body",
    "headers",
    "details",
    "error",
    "type",
    "message",
]
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40) | st.binary(max_size=40)
ODD = st.sampled_from([Raising(), Hostile(), Lazy(), HTTPStatus.FORBIDDEN, Raising, len, Category.AUTH])
NAMES = st.sampled_from(ATTRIBUTES)
VALUES = st.recursive(
    PLAIN | ODD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)
CLASSES = st.sampled_from([Exception, ValueError, OSError, Raising, RpcError, OpenAiStatusError, McpError, KeyError])


@given(
    cls=CLASSES,
    args=st.lists(VALUES, max_size=3),
    attributes=st.dictionaries(NAMES, VALUES, max_size=5),
)
def test_any_exception_has_a_failure(
    cls: type[BaseException], args: list[object], attributes: dict[str, object]
) -> None:
    error = library("app.Any", cls)(*args)
    for name, value in attributes.items():
        error.__dict__[name] = value
    failure = classify(error)
    assert isinstance(failure, Failure)
    assert len(failure.message.encode()) <= 1024
    assert failure.fingerprint


@given(VALUES)
def test_any_object_has_a_failure(value: object) -> None:
    assert isinstance(classify(value), Failure)


@given(
    secret=st.sampled_from(sorted(SECRETS)),
    place=st.sampled_from(["text", "message", "body", "nested", "stderr", "id", "code"]),
)
def test_no_secret_survives_in_any_field(secret: str, place: str) -> None:
    text = SECRETS[secret]
    body = {
        "error": {"message": text, "code": text, "type": text, "details": {"error_code": text}},
        "request_id": text,
    }
    errors: dict[str, object] = {
        "text": RuntimeError(text),
        "message": carrying(library("app.Odd"), message=text),
        "body": Response(500, {"x-request-id": text}, body),
        "nested": carrying(library("app.Odd"), body={"error": {"message": json.dumps(body)}}),
        "stderr": subprocess.CalledProcessError(1, ["run", text], stderr=text.encode()),
        "id": carrying(library("app.Odd"), request_id=text),
        "code": carrying(library("app.Odd"), code=text, type=text, kind=text),
    }
    failure = classify(errors[place])
    for part in fields(failure):
        assert secret not in str(getattr(failure, part.name))

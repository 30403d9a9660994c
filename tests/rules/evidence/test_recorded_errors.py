"""Bodies that vendors really sent, with what each of them must be taken for – and near misses that must not match."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.runtime.failures.signals import Response, classify

NOW = 1_800_000_000.0
"""2027-01-15 08:00:00 UTC, which the recordings' clocks are set to."""

RECORDINGS = sorted((Path(__file__).parents[2] / "payloads" / "errors").glob("*.json"))


def told(failure: Failure, name: str) -> object:
    if name.endswith("_tokens"):
        return getattr(failure.overflow, name) if failure.overflow else None
    value = getattr(failure, name)
    return value.value if name in ("category", "evidence") else value


def check(recording: dict[str, Any], failure: Failure) -> None:
    expected = recording["expect"]
    assert {name: told(failure, name) for name in expected} == pytest.approx(expected)
    if "input_tokens" not in expected:
        assert failure.overflow is None
    assert failure.status_code == recording["status"]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_recorded_response(path: Path) -> None:
    recording = json.loads(path.read_text())
    raw = json.dumps(recording["body"]).encode()
    check(recording, classify(Response(recording["status"], recording["headers"], raw), now=NOW))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_the_same_on_an_exception_of_the_vendors_client(path: Path) -> None:
    recording = json.loads(path.read_text())

    class ApiError(Exception):
        status_code = recording["status"]
        headers = {name.title(): value for name, value in recording["headers"].items()}
        body = recording["body"]

    message = f"Error code: {recording['status']} - {recording['body']}"
    check(recording, classify(ApiError(message), now=NOW))


def test_there_are_recordings_of_every_vendor_whose_overflow_is_read() -> None:
    vendors = {path.stem.split("-")[0] for path in RECORDINGS}
    assert {"anthropic", "openai", "gemini", "mistral", "vllm", "bedrock"} <= vendors


def test_the_wait_is_never_negative_and_never_guessed() -> None:
    waits = [
        classify(Response(429, {"retry-after": text}), now=NOW).retry_after_s for text in ("-1", "nan", "inf", "soon")
    ]
    assert waits == [None] * 4

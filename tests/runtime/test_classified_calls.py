"""How guarded calls treat errors by their category: keys used, waits asked for, certificates, the model's own text."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import BreakerStateChanged, FailureClassified
from recovery_ops.runtime import RecoveryExhausted, classify
from recovery_ops.runtime.testing import Lab
from tests.support.signals import McpError, carrying, caused, library

SAFE: dict[str, Any] = {"source": "main_agent", "idempotent": True}


@pytest.fixture
def lab() -> Lab:
    return Lab(reraise=False)


def calls_of(lab: Lab, error: Exception, **said: Any) -> int:
    """How many times a guarded call is made when it always raises this."""
    script = lab.script(error)
    with pytest.raises((RecoveryExhausted, type(error))):
        lab.recovery.guard("book", **SAFE | said)(script)()
    return script.calls


def conflict(message: str) -> Exception:
    error = Exception(message)
    error.status_code = 409  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("message", "calls"),
    [
        ("idempotency_key already processed", 1),
        ("Idempotency-Key has already been used", 1),
        ("Idempotency-Key was used with different parameters by a request in progress", 1),
        ("The idempotency token is in use by a concurrent request", 4),
        ("This idempotency key is currently being processed", 4),
        ("A request with this idempotency key is already in progress", 4),
        ("A request is in progress", 4),
        ("the row has changed", 4),
        ("Idempotency-Key is required", 4),
    ],
)
def test_used_key_is_never_retried(lab: Lab, message: str, calls: int) -> None:
    assert calls_of(lab, conflict(message)) == calls


def answered(body: bytes) -> Exception:
    """As httpx raises it: the sentence stands in the body alone."""
    response = SimpleNamespace(status_code=409, headers={}, _content=body)
    error = library("httpx.HTTPStatusError")("Client error '409 Conflict' for url 'x'")
    error.__dict__["response"] = response
    assert isinstance(error, Exception)
    return error


@pytest.mark.parametrize(
    "error",
    [
        answered(b"idempotency_key already processed"),
        answered(b'{"error": "Idempotency-Key has already been used"}'),
        answered(b'{"detail": {"message": "idempotency_key already processed"}}'),
        answered(b'{"code": "IDEMPOTENCY_KEY_REUSED"}'),
        answered(b'{"errors": [{"code": "IDEMPOTENCY_KEY_REUSED", "detail": "Different request parameters"}]}'),
        carrying(library("app.Odd"), "idempotency_key already processed", kind="409_conflict"),
        carrying(library("app.Odd"), "409: Idempotency-Key has already been used"),
    ],
)
def test_used_key_is_found_wherever_it_stands(lab: Lab, error: Exception) -> None:
    assert calls_of(lab, error) == 1
    assert [fact.category for fact in lab.events_of(FailureClassified)] == [Category.IDEMPOTENCY_CONFLICT]


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (SimpleNamespace(kind="5xx"), Category.SERVER_ERROR),
        ({"kind": "412_precondition"}, Category.STALE_EVIDENCE),
        ({"kind": "schema_validation"}, Category.SCHEMA_MISMATCH),
        (SimpleNamespace(kind="vegetable"), Category.UNKNOWN),
    ],
)
def test_kind_of_error_attribute_is_structure(error: object, category: Category) -> None:
    assert classify(carrying(library("app.Odd"), "x", error=error)).category is category


@pytest.mark.parametrize(
    ("message", "calls"),
    [
        ("Request too large for model `x` on tokens per minute (TPM): Limit 12000, Requested 13500", 1),
        ("This request is larger than the limit of 12000 tokens per minute", 1),
        ("Rate limit reached: slow down", 4),
    ],
)
def test_request_above_limit_is_not_retried(lab: Lab, message: str, calls: int) -> None:
    error = Exception(message)
    error.__dict__.update(status_code=413, body={"error": {"message": message, "code": "rate_limit_exceeded"}})
    assert calls_of(lab, error) == calls


def test_used_key_is_not_dispatched_again(lab: Lab) -> None:
    script = lab.script("ok")
    lab.recovery.dispatch_failure(
        conflict("idempotency_key already processed"), operation="book", retry=script, idempotent=True, foreground=True
    )
    assert script.calls == 0


class Limited(Exception):
    status_code = 429

    def __init__(self, message: str = "slow down", **said: object) -> None:
        super().__init__(message)
        self.__dict__.update(said)


@pytest.mark.parametrize(
    ("error", "wait_s"),
    [
        (Limited(retry_after=30), 30.0),
        (Limited(retry_after="7"), 7.0),
        (Limited(retry_after=timedelta(seconds=9)), 9.0),
        (Limited("Please retry after 45 seconds"), 45.0),
        (Limited(retry_after=-1), 0.5),
        (Limited(retry_after=float("nan")), 0.5),
        (Limited(retry_after=True), 0.5),
    ],
)
def test_wait_of_exception_is_kept(lab: Lab, error: Exception, wait_s: float) -> None:
    script = lab.script(error, "ok")
    with lab.recovery.run(source="main_agent", timeout=3600):
        lab.recovery.guard("book", **SAFE, attempt_timeout=600)(script)()
    assert sum(lab.waits) == wait_s


@pytest.mark.parametrize("digits", ["9" * 20, "9" * 400])
def test_wait_beyond_deadline_ends_retrying(lab: Lab, digits: str) -> None:
    assert calls_of(lab, Limited(headers={"retry-after": digits})) == 1
    assert lab.waits == []


REFUSED = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: expired")


@pytest.mark.parametrize(
    "error",
    [
        REFUSED,
        caused(library("httpx.ConnectError")(str(REFUSED)), REFUSED),
        caused(library("openai.APIConnectionError")("Connection error."), REFUSED),
        RuntimeError("x509: certificate signed by unknown authority"),
    ],
)
def test_certificate_error_is_never_retried(lab: Lab, error: Exception) -> None:
    assert calls_of(lab, error) == 1
    [fact] = lab.events_of(FailureClassified)
    assert (fact.category, fact.retryable) == (Category.NETWORK, False)


def test_other_handshake_error_is_retried(lab: Lab) -> None:
    assert calls_of(lab, ssl.SSLEOFError(8, "EOF occurred in violation of protocol")) == 4


def read_json(text: str) -> Callable[[], object]:
    return lambda: json.loads(text)


@pytest.mark.parametrize(("kind", "category"), [("model", "model_output"), ("tool", "schema_mismatch")])
def test_unparsed_text_depends_on_kind(lab: Lab, kind: Literal["model", "tool"], category: str) -> None:
    ask = lab.recovery.guard("ask", kind=kind, source="main_agent")(read_json("{nonsense"))
    for _ in range(6):
        with pytest.raises(Exception):  # noqa: B017, PT011  # ours, or the parser's own
            ask()
    facts = lab.events_of(FailureClassified)
    assert {fact.category.value for fact in facts} == {category}
    assert bool(lab.events_of(BreakerStateChanged)) is (category == "schema_mismatch")


def test_exit_code_is_told_as_failed_command() -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        subprocess.run([sys.executable, "-c", "raise SystemExit(3)"], check=True, capture_output=True)
    failure = classify(caught.value)
    assert (failure.category, failure.exit_code) == (Category.RESOURCE, 3)
    assert failure.user_message != classify(MemoryError()).user_message
    assert "exit 3" in failure.user_message


@pytest.mark.parametrize(
    ("code", "message", "category"),
    [
        (32600, "Session terminated", Category.NETWORK),
        (-32600, "Session not found", Category.NETWORK),
        (-32000, "Connection closed", Category.NETWORK),
        (-32001, "Session not found", Category.NETWORK),
        (408, "Timed out while waiting for response to ClientRequest. Waited 30.0 seconds.", Category.TIMEOUT),
        (-32001, "Request timed out", Category.TIMEOUT),
        (-32602, "Invalid params", Category.INVALID_REQUEST),
        (-32603, "Session not found in the table of users", Category.SERVER_ERROR),
    ],
)
def test_mcp_session_error_has_category(code: int, message: str, category: Category) -> None:
    error = carrying(McpError, message, error=SimpleNamespace(code=code, message=message))
    assert classify(error).category is category

"""Retries that a client made inside one attempt: what an error says of them, in the failure, its event and the log."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from recovery_ops.rules.events import FailureClassified
from recovery_ops.runtime import classify
from recovery_ops.runtime.calls import log_lines
from recovery_ops.runtime.failures.inner_retries import MOST
from recovery_ops.runtime.process.log_messages import TroubleLog
from recovery_ops.runtime.testing import Lab


class Failed(Exception):
    def __init__(self, **carried: Any) -> None:
        super().__init__("broken")
        self.__dict__.update(carried)


def of_package(package: str, name: str, error: Exception) -> Exception:
    """The error as if a package had raised it: the runtime knows packages by the names of types alone."""
    kind = type(name, (type(error),), {"__module__": package})
    found: Exception = kind()
    found.__dict__.update(error.__dict__)
    return found


def sdk(count: str) -> Exception:
    return Failed(status_code=503, request=SimpleNamespace(headers={"X-Stainless-Retry-Count": count}))


def boto(attempts: object) -> Exception:
    metadata = {"HTTPStatusCode": 503, "RetryAttempts": attempts}
    return Failed(response={"Error": {"Code": "ServiceUnavailable"}, "ResponseMetadata": metadata})


def below(outer: Exception, inner: Exception) -> Exception:
    outer.__cause__ = inner
    return outer


SAID = {
    "client of OpenAI or Anthropic": (sdk("2"), 2),
    "first request of such a client": (sdk("0"), 0),
    "botocore": (boto(4), 4),
    "LiteLLM": (of_package("litellm.exceptions", "RateLimitError", Failed(num_retries=3)), 3),
    "somebody else's num_retries": (Failed(num_retries=3), 0),
    "tenacity": (
        of_package("tenacity", "RetryError", Failed(last_attempt=SimpleNamespace(attempt_number=5))),
        4,
    ),
    "requests": (Failed(response=SimpleNamespace(raw=SimpleNamespace(retries=SimpleNamespace(history=(1, 2))))), 2),
    "two layers": (below(sdk("1"), boto(4)), 5),
    "nothing": (TimeoutError(), 0),
    "no number": (sdk("many"), 0),
    "negative": (boto(-1), 0),
    "a truth": (boto(True), 0),
    "more than believable": (boto(10**9), MOST),
    "request without headers": (Failed(request=object()), 0),
}


@pytest.mark.parametrize("case", SAID)
def test_error_says_inner_retries(case: str) -> None:
    error, expected = SAID[case]
    assert classify(error).inner_retries == expected


def test_failure_event_carries_inner_retries() -> None:
    lab = Lab()
    ask = lab.recovery.guard("ask", idempotent=True)(lab.script(sdk("2"), sdk("0"), "answer"))
    assert ask() == "answer"
    told = [event.inner_retries for event in lab.events_of(FailureClassified)]
    assert told == [2, None]


def test_inner_retries_are_logged_once_each_operation(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_lines, "_notices", TroubleLog(log_lines.LOGGER))
    lab = Lab()
    for name in ("ask", "look"):
        guarded = lab.recovery.guard(name, idempotent=True, max_retries=3)(lab.script(sdk("2"), sdk("2"), "answer"))
        guarded()
    warned = [line.args for line in caplog.records if line.levelno == logging.WARNING and "by itself" in str(line.msg)]
    assert warned == [("ask", 2), ("look", 2)]

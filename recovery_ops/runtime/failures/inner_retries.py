"""Retries that a client made by itself inside one attempt, as far as its error says so.

Two layers that retry multiply: a guard of three attempts around a client of three is nine requests. Few errors say how
often their client tried: those of the OpenAI and Anthropic packages (a header of the request that failed), botocore
(its metadata), LiteLLM's router, tenacity, and answers of urllib3 below requests. None of these packages is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recovery_ops.runtime.failures.safe_inspection import get, pairs

MOST = 1000
"""More than this nobody believes."""
_SDK_HEADER = "x-stainless-retry-count"
"""OpenAI's and Anthropic's packages set it on each request: 0 on the first."""


def inner_retries(found: Mapping[str, object], names: tuple[str, ...]) -> int:
    """How many retries one exception says of, by its attributes and the names of its types; 0 where it says none."""
    package = names[0].partition(".")[0] if names else ""
    if package == "litellm":
        return _count(found.get("num_retries"))
    if "tenacity.RetryError" in names:
        return max(0, _count(get(found.get("last_attempt"), "attempt_number")) - 1)
    response = found.get("response")
    if isinstance(response, Mapping):
        metadata = response.get("ResponseMetadata")
        return _count(metadata.get("RetryAttempts")) if isinstance(metadata, Mapping) else 0
    return max(_of_request(found.get("request")), _of_urllib3(response))


def _of_request(request: object) -> int:
    headers = get(request, "headers")
    if headers is None:
        return 0
    return next((_count(value) for name, value in pairs(headers) if name == _SDK_HEADER), 0)


def _of_urllib3(response: object) -> int:
    """Of an answer of requests, whose urllib3 keeps a history of what it tried before."""
    history: Any = get(get(get(response, "raw"), "retries"), "history")
    return min(len(history), MOST) if isinstance(history, tuple) else 0


def _count(value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 4:
        value = int(value)
    return min(value, MOST) if type(value) is int and value > 0 else 0

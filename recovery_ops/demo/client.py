"""How the demonstration's agents talk to the provider: plain HTTP, with errors as a careful developer writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import urllib3

from recovery_ops.runtime import attempt

TIMEOUT_S = 2.0


class ProviderError(Exception):
    """The provider answered with a status that is no success."""

    def __init__(self, status_code: int, headers: Mapping[str, str], body: Any) -> None:
        self.status_code = status_code
        self.headers = dict(headers)
        self.body = body
        super().__init__(f"helios answered {status_code}")


class UnexpectedAnswer(Exception):
    """The provider answered with a state that its documentation does not know."""


class Client:
    """A pool of connections to the provider; thread-safe."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool = urllib3.PoolManager(maxsize=4, retries=False)

    def post(self, service: str, **what: Any) -> Any:
        """The parsed answer.

        Raises ProviderError for a status from 400, urllib3's errors for a connection that fails, ValueError for an
        answer that is not JSON, UnexpectedAnswer for one that says something nobody knows. The runtime's remaining time
        and idempotency key travel with the request.
        """
        now = attempt()
        headers = {"content-type": "application/json"}
        if now.idempotency_key:
            headers["idempotency-key"] = now.idempotency_key
        if now.max_tokens:
            what["max_tokens"] = now.max_tokens
        timeout_s = min(TIMEOUT_S, now.remaining_s) if now.remaining_s else TIMEOUT_S
        answer = self._pool.request(
            "POST", f"{self._url}/{service}", body=json.dumps(what), headers=headers, timeout=max(0.1, timeout_s)
        )
        if answer.status >= 400:
            raise ProviderError(answer.status, answer.headers, _parsed(answer.data))
        parsed = json.loads(answer.data)
        if "state" in parsed:
            raise UnexpectedAnswer(f"helios is in state {parsed['state']}")
        return parsed


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None

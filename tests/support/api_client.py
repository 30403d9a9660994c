"""A program that uses the API with a key."""

from __future__ import annotations

import json
from typing import Any

from django.test import Client

from events import keys


class Program:
    """A client with a key."""

    def __init__(self, *scopes: str, environment: str = "dev") -> None:
        self.key, token = keys.create_key("deployer", list(scopes) or ["read", "act"], environment)
        self._client = Client(headers={"authorization": f"Bearer {token}"})

    def get(self, path: str, **params: str) -> tuple[int, Any]:
        return _read(self._client.get(f"/api/v1/{path}", params))

    def raw(self, path: str, **headers: str) -> Any:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._client.get(f"/api/v1/{path}", headers=named)

    def post(self, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        return self._send("POST", path, body, headers)

    def patch(self, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        return self._send("PATCH", path, body, headers)

    def _send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> tuple[int, Any]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return _read(self._client.generic(method, f"/api/v1/{path}", _json(body), "application/json", headers=named))


def _json(body: Any) -> str:
    return body if isinstance(body, str) else json.dumps(body)


def _read(answer: Any) -> tuple[int, Any]:
    is_problem = answer.status_code >= 400
    assert answer["Content-Type"] == ("application/problem+json" if is_problem else "application/json")
    assert answer["Cache-Control"] == "no-store"
    return answer.status_code, answer.json()

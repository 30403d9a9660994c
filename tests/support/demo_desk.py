"""The demonstration's people."""

from __future__ import annotations

import json
from typing import Any

from django.test import Client

from events import keys
from recovery_ops.control.demo_fleet import OPERATOR_NAME, OPERATOR_SCOPES
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import Escalated
from tests.support.stories import Story


class ApiDesk:
    """The console's API in this process; what was refused is remembered."""

    def __init__(self) -> None:
        keys.forget_keys()
        _, token = keys.create_key(OPERATOR_NAME, OPERATOR_SCOPES, "dev")
        self._client = Client(headers={"authorization": f"Bearer {token}"})
        self.refused: list[str] = []

    def get(self, path: str, **query: str) -> dict[str, Any]:
        answer = self._client.get(f"/api/v1/{path}", query)
        assert answer.status_code == 200, answer.content
        found: dict[str, Any] = answer.json()
        return found

    def post(self, path: str, **body: Any) -> bool:
        answer = self._client.post(f"/api/v1/{path}", json.dumps(body), "application/json")
        said = answer.json()
        is_refused = answer.status_code >= 300 or any("problem" in one for one in said.get("results", []))
        if is_refused:
            self.refused.append(f"{path}: {said}")
        return not is_refused


def ask(story: Story, queue: str, category: Category, operation: str, *, at: float = 20, **more: Any) -> None:
    given: dict[str, Any] = {"reason": category.value, "message": f"{operation} asks"} | more
    told = Escalated(operation=operation, category=category, queue=queue, **given)
    story.tell(told, at=at, service="support-agent", instance="support-agent-01", run=f"run-{operation}")

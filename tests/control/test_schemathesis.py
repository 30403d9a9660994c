"""Schemathesis asks every operation of the described API for what its schema allows: nothing breaks, all is as told."""

from __future__ import annotations

from typing import Any

import pytest
import requests
import schemathesis
from django.test import Client
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from events import keys
from recovery_ops.control.api import urls as api_urls
from recovery_ops.control.api.openapi import openapi
from tests.control.today import today_fleet

pytestmark = pytest.mark.django_db

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 3
"""Of each operation, always the same ones: what is found once is found again."""
SCHEMA = schemathesis.openapi.from_dict(openapi(api_urls.urlpatterns))
_NOT_TOLD = ("Content-Length", "Content-Type", "Accept-Encoding")
FOUND = list(SCHEMA.get_all_operations())
OPERATIONS = {one.ok().label: one.ok() for one in FOUND if isinstance(one, Ok)}
assert len(OPERATIONS) == len(FOUND), "an operation that cannot be read would not be asked"


def answered(case: Any, headers: dict[str, str]) -> Response:
    """What Django answers, in this thread and its transaction, in the form that Schemathesis checks."""
    request = requests.Request(**case.as_transport_kwargs(base_url="http://localhost", headers=headers)).prepare()
    body = request.body.encode() if isinstance(request.body, str) else request.body or b""
    told = {name: str(value) for name, value in request.headers.items() if name not in _NOT_TOLD}
    content_type = str(request.headers.get("Content-Type", "application/octet-stream"))
    found = Client(headers=told).generic(str(request.method), request.path_url, body, content_type=content_type)
    return Response(
        status_code=found.status_code,
        headers={name.lower(): [value] for name, value in found.headers.items()},
        content=found.content,
        request=request,
        elapsed=0.0,
        verify=False,
    )


def ask(operation: Any, headers: dict[str, str]) -> set[int]:
    """Put examples to one operation; the statuses that were answered. Fails on what its description does not say."""
    statuses = set()

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def examples(case: Any) -> None:
        response = answered(case, headers)
        statuses.add(response.status_code)
        case.validate_response(response, checks=CHECKS)

    examples()
    return statuses


@pytest.mark.parametrize("label", OPERATIONS)
def test_an_operation_answers_as_it_is_described(label: str) -> None:
    today_fleet()
    keys.forget_keys()
    token = keys.create_key("schemathesis", ["read", "act", "settings"], "dev")[1]
    operation = OPERATIONS[label]
    asked = ask(operation, {"Authorization": f"Bearer {token}"})
    assert not asked & {401, 405}
    unknown = ask(operation, {})
    is_open = operation.definition.raw.get("security") == []
    assert unknown <= ({200, 304, 400} if is_open else {401})

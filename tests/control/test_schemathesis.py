"""Schemathesis asks every operation of the described API for what its schema allows, and for what it does not: nothing
breaks, all is as told.

Each operation gets the cases of the coverage phase (every parameter and field left out, at its bounds and beyond them,
of another type, with other methods), and random examples. RECOVERY_OPS_SCHEMATHESIS_CASES and _EXAMPLES say how many
of each at most: a night may take more than a change.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import requests
import schemathesis
from django.test import Client
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.core.transport import Response
from schemathesis.generation.drivers import CoverageGenerator
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.generation.overrides import Override
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from events import keys
from recovery_ops.control import api_urls
from recovery_ops.control.api_docs.openapi import openapi
from tests.support.fleet import today_fleet

pytestmark = [pytest.mark.django_db, pytest.mark.full]

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = int(os.environ.get("RECOVERY_OPS_SCHEMATHESIS_EXAMPLES", "2"))
"""Of each operation, always the same ones: what is found once is found again."""
CASES = int(os.environ.get("RECOVERY_OPS_SCHEMATHESIS_CASES", "10"))
"""Of the coverage phase, spread over all that it has."""
_MOST_CASES = 20 * CASES
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


def covered(operation: Any) -> Iterator[Any]:
    """The cases of the coverage phase, at most CASES, evenly spread: those of one field follow each other."""
    generation = SCHEMA.config.generation_for(operation=operation, phase="coverage")
    generator = CoverageGenerator(
        operation=operation,
        generation_modes=generation.modes,
        generation_config=generation,
        auth_storage=None,
        override=Override(),
        feedback=FeedbackSources(),
        hooks=None,
    )
    found = list(islice(generator, _MOST_CASES))
    steps = max(1, -(-len(found) // CASES))
    yield from found[::steps]


def bearer(*scopes: str) -> dict[str, str]:
    """The header of a program with a key of these scopes."""
    return {"Authorization": f"Bearer {keys.create_key('schemathesis', list(scopes), 'dev')[1]}"}


def ask(operation: Any, headers: dict[str, str], most: int = EXAMPLES) -> set[int]:
    """Put examples to one operation; the statuses that were answered. Fails on what its description does not say."""
    statuses = set()

    @settings(
        max_examples=most,
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
    token = keys.create_key("schemathesis", ["read", "act", "settings", "admin"], "dev")[1]
    operation = OPERATIONS[label]
    asked = ask(operation, {"Authorization": f"Bearer {token}"})
    assert not asked & {401, 405}
    for case in covered(operation):
        response = answered(case, {"Authorization": f"Bearer {token}"})
        case.validate_response(response, checks=CHECKS)
        assert response.status_code < 500
    unknown = ask(operation, {})
    is_open = operation.definition.raw.get("security") == []
    assert unknown <= ({200, 304, 400} if is_open else {401})


@pytest.mark.parametrize("label", OPERATIONS)
def test_a_key_of_the_wrong_scope_is_turned_away(label: str) -> None:
    keys.forget_keys()
    operation = OPERATIONS[label]
    is_open = operation.definition.raw.get("security") == []
    asked = ask(operation, bearer("ingest", "desired"), most=1)
    assert asked <= ({200, 304, 400} if is_open else {403})


OF_AGENTS = {
    "openapi": "3.1.0",
    "info": {"title": "What agents ask", "version": "1"},
    "paths": {
        "/api/v1/desired": {
            "get": {
                "parameters": [
                    {"name": name, "in": "query", "schema": {"type": "string"}}
                    for name in ("service", "instance", "group", "schema_version")
                ]
                + [{"name": "If-None-Match", "in": "header", "schema": {"type": "string", "pattern": "^[!-~]*$"}}],
                "responses": {str(status): {"description": "x"} for status in (200, 304, 400, 401, 403, 429, 503)},
            }
        },
    },
}
FOUND_OF_AGENTS = schemathesis.openapi.from_dict(OF_AGENTS).get_all_operations()
AGENTS = {one.ok().label: one.ok() for one in FOUND_OF_AGENTS if isinstance(one, Ok)}


@pytest.mark.parametrize("label", AGENTS)
def test_what_agents_ask_is_answered_as_it_is_described(label: str) -> None:
    today_fleet()
    keys.forget_keys()
    assert 401 not in ask(AGENTS[label], bearer("desired"))
    assert ask(AGENTS[label], {}, most=1) == {401}
    assert ask(AGENTS[label], bearer("read"), most=1) == {403}

"""What is answered when nothing else can be: programs under /api/ get a document, never a page."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from tests.support.pages import signed_in

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("method", ["get", "post", "delete"])
@pytest.mark.parametrize("path", ["/api", "/api/", "/api/v2/breakers", "/api/nothing"])
def test_an_address_under_api_that_leads_nowhere_is_a_problem(method: str, path: str) -> None:
    answer = getattr(Client(), method)(path)
    assert (answer.status_code, answer["Content-Type"]) == (404, "application/problem+json")
    assert (answer.json()["status"], answer.json()["code"]) == (404, "not_found")
    assert answer["Cache-Control"] == "no-store"


def test_other_addresses_are_still_pages() -> None:
    answer = signed_in().get("/apiary")
    assert answer.status_code == 404
    assert answer["Content-Type"].startswith("text/html")


@pytest.mark.parametrize("method", ["post", "put", "delete"])
def test_a_method_that_is_none_is_a_problem(method: str) -> None:
    answer = getattr(Client(), method)("/api/v1/desired")
    assert (answer.status_code, answer["Content-Type"], answer["Allow"]) == (405, "application/problem+json", "GET")


@pytest.mark.parametrize(("error", "status", "code"), [(OperationalError, 503, "away"), (ValueError, 500, "internal")])
def test_a_fault_before_any_view_is_a_problem(
    error: type[Exception], status: int, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise error("boom")

    client = Client(raise_request_exception=False)
    monkeypatch.setattr("recovery_ops.control.desired_state.api.authenticate", fail)
    monkeypatch.setattr("recovery_ops.control.desired_state.api.OperationalError", ZeroDivisionError)
    answer = client.get("/api/v1/desired")
    assert (answer.status_code, answer["Content-Type"], answer.json()["code"]) == (
        status,
        "application/problem+json",
        code,
    )
    assert "boom" not in answer.content.decode()
    assert ("Retry-After" in answer.headers) == (status == 503)


def test_a_host_that_is_not_ours_is_a_problem() -> None:
    answer = Client().get("/api/v1/status", headers={"host": "evil.example"})
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")

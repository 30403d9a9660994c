"""The API, the audit verbs, exports and the desired document differ from the frozen ones only as docs/glossary.md says.

`FREEZE_CONTRACTS=1` writes the golden files anew; that was done once, before names began to change.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from recovery_ops.control import api_urls
from recovery_ops.control.api_docs.openapi import openapi
from recovery_ops.control.core.actions import ACTIONS
from recovery_ops.control.core.models.bases import EVERYWHERE
from recovery_ops.control.exports.catalogue import LISTS
from recovery_ops.rules.roles import Role
from tests.control.contracts.names import freeze, golden, renamed, translated
from tests.control.every_route import Try, everything
from tests.support.foreign_objects import world
from tests.support.isolated import rolled_back
from tests.support.pages import signed_in
from tests.support.retries import there

__all__ = ["everything", "world"]  # the fixtures

IS_FREEZING = bool(os.environ.get("FREEZE_CONTRACTS"))
_ROUTE_PART = re.compile(r"<(?:\w+:)?(\w+)>")
_MADE_UP = re.compile(r"\d{4}-\d\d-\d\dT|[0-9a-f]{8}-[0-9a-f]{4}-|^\d+$")


def compare(name: str, now: Any, then: Any) -> None:
    if IS_FREEZING:
        freeze(name, now)
        return
    assert now == then


def old_address(path: str) -> str:
    """An address of the frozen API, as it is called now."""
    return renamed().get("url", {}).get(path, path)


OPTIONAL_NOW = ("reason",)
"""Fields that each operation needed when they were frozen. What `core.reasons` asks for depends on the change."""


def operations() -> dict[str, dict[str, list[str]]]:
    """What each operation takes: names of parameters and of fields, those that are needed with a `*`."""
    found: dict[str, dict[str, list[str]]] = {}
    for path, methods in openapi(api_urls.urlpatterns)["paths"].items():
        for method, operation in methods.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            needed = {*body.get("required", ())}
            fields = [_relaxed(f"{name}{'*' * (name in needed)}") for name in body.get("properties", {})]
            parameters = [one["name"] for one in operation["parameters"] if one["in"] != "path"]
            found[f"{method.upper()} {path}"] = {
                "parameters": sorted(parameters),
                "fields": sorted(fields),
                "statuses": sorted(operation["responses"]),
            }
    return found


def renamed_operations(then: dict[str, dict[str, list[str]]]) -> dict[str, dict[str, list[str]]]:
    fields = renamed().get("field", {})
    found = {}
    for name, operation in then.items():
        method, _, path = name.partition(" ")
        if not old_address(path):
            continue
        taken = [
            f"{fields.get(one.rstrip('*'), one.rstrip('*'))}{'*' * one.endswith('*')}" for one in operation["fields"]
        ]
        asked = [fields.get(one, one) for one in operation["parameters"]]
        found[f"{method} {old_address(path)}"] = {
            "parameters": sorted(one for one in asked if one),
            "fields": sorted(_relaxed(one) for one in taken if one.rstrip("*")),
            "statuses": operation["statuses"],
        }
    return found


def _relaxed(name: str) -> str:
    return name.rstrip("*") if name.rstrip("*") in OPTIONAL_NOW else name


def test_api_operations_are_the_frozen_ones() -> None:
    now = operations()
    then = renamed_operations(golden("operations")) if not IS_FREEZING else {}
    added = {name: now[name] for name in now if f"+{name.partition(' ')[2]}" in renamed().get("url", {})}
    fields = renamed().get("field", {})
    for name, operation in now.items():
        frozen = (then | added).get(name, operation)
        for of in ("fields", "parameters"):
            operation[of] = [one for one in operation[of] if one in frozen[of] or f"+{one}" not in fields]
    compare("operations", now, then | added)


def test_audit_verbs_are_the_frozen_ones() -> None:
    compare(
        "audit_verbs",
        sorted(ACTIONS),
        sorted(translated("verb", {*golden("audit_verbs")} if not IS_FREEZING else set())),
    )


def test_export_columns_are_the_frozen_ones() -> None:
    now = {name: list(one.columns) for name, one in LISTS.items()}
    then = golden("export_columns") if not IS_FREEZING else {}
    table = renamed().get("column", {})
    compare(
        "export_columns",
        now,
        {name: [new for one in given if (new := table.get(one, one))] for name, given in then.items()},
    )


def keys_of(answer: Any, before: str = "") -> Iterator[str]:
    """The path of every key of an answer; names that are data (ids, moments) are one name."""
    if isinstance(answer, dict):
        for name, value in answer.items():
            here = f"{before}.{'*' if not name or _MADE_UP.search(name) else name}".lstrip(".")
            yield here
            yield from keys_of(value, here)
    elif isinstance(answer, list):
        for one in answer:
            yield from keys_of(one, f"{before}[]")


def answer_keys(tries: list[Try]) -> dict[str, list[str]]:
    """The keys of every successful answer of the API in the world of the tests, by operation and choice."""
    client = signed_in(Role.ADMIN, "zed", EVERYWHERE)
    found: dict[str, list[str]] = {}
    for one in tries:
        if not one.is_api:
            continue
        place = f"{one.path}?environment=dev"
        with rolled_back():
            given = {name: value for name, value in one.body.items() if name != "reason"}
            answer = (
                client.get(one.path, given | {"environment": "dev"})
                if one.method == "get"
                else getattr(client, one.method)(place, dict(one.body), "application/json")
            )
        if answer.status_code < 300 and answer.get("Content-Type", "").startswith("application/json"):
            found[one.told] = sorted({*keys_of(answer.json())})
    return found


@pytest.mark.django_db
@pytest.mark.usefixtures("now")
def test_keys_of_api_answers_are_the_frozen_ones(everything: list[Try], subtests: pytest.Subtests) -> None:
    there("r-0", "r-1", at=0.5)
    now = answer_keys(everything)
    if IS_FREEZING:
        freeze("answer_keys", now)
        return
    table = renamed().get("field", {})
    then = {}
    for told, keys in golden("answer_keys").items():
        method, _, rest = told.partition(" ")
        path, _, choice = rest.partition(" ")
        if old_address(_ROUTE_PART.sub(r"{\1}", path)) == "":
            continue
        name = f"{method} {old_address(path)}{f' {choice}' if choice else ''}"
        then[name] = sorted({_renamed_key(key, table) for key in keys} - {""})
    for name in sorted({*now, *then} - added_operations(now)):
        with subtests.test(operation=name):
            assert [key for key in now.get(name, ()) if key in then.get(name, ()) or not is_added(key)] == then.get(
                name
            )


def added_operations(told: Iterable[str]) -> set[str]:
    """Operations, with their choice, of addresses that the table names as additions."""
    paths = {name: _ROUTE_PART.sub(r"{\1}", name.split(" ")[1]) for name in told}
    return {name for name, path in paths.items() if f"+{path}" in renamed().get("url", {})}


def is_added(key: str) -> bool:
    """Whether the table names a part of this key as an addition."""
    return any(f"+{part.rstrip('[]')}" in renamed().get("field", {}) for part in key.split("."))


def _renamed_key(key: str, table: Any) -> str:
    parts = [f"{table.get(part.rstrip('[]'), part.rstrip('[]'))}{'[]' * part.count('[]')}" for part in key.split(".")]
    return "" if any(not part.rstrip("[]") for part in parts) else ".".join(parts)

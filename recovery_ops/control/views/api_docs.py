"""The API for people to read: every address and what it takes, from the document that programs read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse

from events.pages import render_page
from recovery_ops.control.api import urls as api_urls
from recovery_ops.control.api.openapi import openapi


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A parameter, or a field of a body."""

    name: str
    where: str
    kind: str
    about: str
    is_needed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one address."""

    id: str
    method: str
    path: str
    summary: str
    fields: tuple[Field, ...]
    is_open: bool


def docs(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The page; its groups are the first words of the addresses."""
    document = openapi(api_urls.urlpatterns)
    groups: dict[str, list[Operation]] = {}
    for path, methods in document["paths"].items():
        for method, said in methods.items():
            groups.setdefault(said["tags"][0], []).append(_operation(path, method, said))
    context = {"groups": sorted(groups.items()), "title": document["info"]["description"]}
    return render_page(request, "control/api_docs", context)


def _operation(path: str, method: str, said: Mapping[str, Any]) -> Operation:
    fields = [
        Field(
            name=one["name"],
            where=one["in"],
            kind=_kind(one["schema"]),
            about=one.get("description", ""),
            is_needed=one["required"],
        )
        for one in said["parameters"]
    ]
    body = said.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    fields += [
        Field(
            name=name,
            where="body",
            kind=_kind(schema),
            about=schema.get("description", ""),
            is_needed=name in body["required"],
        )
        for name, schema in body.get("properties", {}).items()
    ]
    return Operation(
        id=said["operationId"],
        method=method.upper(),
        path=path,
        summary=said["summary"],
        fields=tuple(fields),
        is_open=said.get("security") == [],
    )


def _kind(schema: Mapping[str, Any]) -> str:
    """A type in a word or two."""
    if "$ref" in schema:
        return "policy document"
    kind = str(schema.get("format") or schema.get("type") or "any")
    bounds = [f"{word} {schema[name]:g}" for name, word in (("minimum", "from"), ("maximum", "to")) if name in schema]
    return " ".join([kind, *bounds])

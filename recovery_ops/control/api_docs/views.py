"""The API for people to read: every address and what it takes, from the document that programs read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse

from events.pages.rendering import render_page
from recovery_ops.control import api_urls
from recovery_ops.control.api_docs.openapi import openapi


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
    title: str
    summary: str
    fields: tuple[Field, ...]
    is_open: bool
    example: str


def docs(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The page; its groups are the first words of the addresses."""
    document = openapi(api_urls.urlpatterns)
    asked = request.GET.get("in", "")
    language = asked if asked in _EXAMPLES else next(iter(_EXAMPLES))
    server = request.build_absolute_uri("/").rstrip("/")
    groups: dict[str, list[Operation]] = {}
    for path, methods in document["paths"].items():
        for method, said in methods.items():
            groups.setdefault(said["tags"][0], []).append(_operation(path, method, said, language, server))
    context = {
        "groups": sorted(groups.items()),
        "title": document["info"]["description"],
        "languages": list(_EXAMPLES),
        "language": language,
    }
    return render_page(request, "core/api_docs", context)


def _operation(path: str, method: str, said: Mapping[str, Any], language: str, server: str) -> Operation:
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
        title=said["summary"],
        summary=said["description"],
        fields=tuple(fields),
        is_open=said.get("security") == [],
        example=_EXAMPLES[language](method.upper(), server + path, _body_of(fields), said.get("security") == []),
    )


def _body_of(fields: Sequence[Field]) -> dict[str, str]:
    """What a body has to hold, each with its kind in its place."""
    return {
        one.name: f"<{one.kind}>" for one in fields if one.where == "body" and (one.is_needed or one.name == "reason")
    }


def _curl(method: str, url: str, body: Mapping[str, str], is_open: bool) -> str:
    parts = ["curl" if method == "GET" else f"curl -X {method}"]
    parts += [] if is_open else ['-H "Authorization: Bearer $RECOVERY_OPS_KEY"']
    parts += [f"-H 'Content-Type: application/json' -d '{json.dumps(body)}'"] if body else []
    return " \\\n  ".join([*parts, f"'{url}'"])


def _python(method: str, url: str, body: Mapping[str, str], is_open: bool) -> str:
    headers = {} if is_open else {"headers": 'headers={"Authorization": f"Bearer {os.environ[\'RECOVERY_OPS_KEY\']}"}'}
    given = [f'"{url}"', *headers.values(), *([f"json={json.dumps(body)}"] if body else [])]
    imports = "import httpx" if is_open else "import os\n\nimport httpx"
    asked = ",\n    ".join([*given, "timeout=10"])
    return f"{imports}\n\nanswer = httpx.{method.lower()}(\n    {asked},\n)\nanswer.raise_for_status()"


_EXAMPLES: Mapping[str, Callable[[str, str, Mapping[str, str], bool], str]] = {"curl": _curl, "Python": _python}
"""Languages in which each request is written out."""


def _kind(schema: Mapping[str, Any]) -> str:
    """A type in a word or two."""
    if "$ref" in schema:
        return "policy document"
    kind = str(schema.get("format") or schema.get("type") or "any")
    bounds = [f"{word} {schema[name]:g}" for name, word in (("minimum", "from"), ("maximum", "to")) if name in schema]
    return " ".join([kind, *bounds])

"""What a piece of work is called: the tool, else the model, else the far end, else the span's name without its ids."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from events.derived.readings import TEXT_CHARS, Attributes, start_of, text_of
from events.derived.spellings import KINDS_OF_WORK, PROVIDERS
from recovery_ops.wire import otel_names as foreign

NAME_CHARS = 100
_CHANGES = re.compile(
    r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|\b(?=\w*\d)[0-9a-fA-F]{8,}\b|[\w.+-]+@[\w-]+\.[\w.]+|\b\d+\b"
)
"""Ids, addresses and numbers: what would make an operation of its own out of each call."""


_PORT = re.compile(r":\d{1,5}\Z")


class Identity(NamedTuple):
    """Which operation it was, and what is known of it."""

    operation: str
    provider: str
    model: str
    tool: str
    region: str = ""


def identity_of(given: Attributes, span_name: str) -> Identity:
    """The identity of a span or a record, from its attributes and its name."""
    provider, (model, _) = provider_of(given), models_of(given)
    tool, region = tool_of(given), start_of(given, foreign.REGION)
    name = (tool or model or _far_end(given) or bounded(span_name))[:NAME_CHARS]
    return Identity(name, provider, model, tool, region)


def provider_of(given: Attributes) -> str:
    """The provider under one name, however the instrumentation spells it."""
    said = start_of(given, foreign.PROVIDER)
    lower = said.lower()
    # The Vercel AI SDK adds the kind of its model: `openai.chat`, `google.vertex.chat`.
    return PROVIDERS.get(lower) or PROVIDERS.get(lower.rpartition(".")[0]) or said


def models_of(given: Attributes) -> tuple[str, str]:
    """The model that was asked for, and the one that answered, as far as they are known."""
    asked, answered = start_of(given, foreign.REQUEST_MODEL), start_of(given, foreign.RESPONSE_MODEL)
    parameters = given.get(foreign.REQUEST_PARAMETERS)
    if type(parameters) is str and (named := _model_in(parameters[:TEXT_CHARS])):
        return named, answered or start_of(given, (foreign.ANSWERING_MODEL,))
    return asked, answered


@lru_cache(maxsize=256)
def _model_in(parameters: str) -> str:
    try:
        found = json.loads(parameters)
    except (ValueError, RecursionError):
        return ""
    named = found.get("model") or found.get("model_name") if isinstance(found, dict) else None
    return named if isinstance(named, str) else ""


def tool_of(given: Attributes) -> str:
    """The tool that was called; empty for a call of something else."""
    named = start_of(given, foreign.TOOL)
    return named or (start_of(given, foreign.ENTITY) if kind_of(given) == "execute_tool" else "")


def kind_of(given: Attributes) -> str:
    """The kind of work as OpenTelemetry says it; empty where nothing tells it."""
    kind = start_of(given, foreign.KIND_OF_WORK)
    return kind or next(
        (
            found
            for name in foreign.OTHER_KINDS
            if type(said := given.get(name)) is str and (found := KINDS_OF_WORK.get(said[:NAME_CHARS].lower()))
        ),
        "",
    )


def run_of(given: Attributes) -> str:
    """The run that a span or a record names; empty where it names none."""
    return start_of(given, foreign.CONVERSATION)


def _far_end(given: Attributes) -> str:
    """`GET api.example.com`: bounded, as an address with ids in it is not."""
    method = start_of(given, foreign.HTTP_METHOD)
    server = start_of(given, foreign.SERVER) or _host_of(start_of(given, foreign.HTTP_URL))
    return f"{method} {_PORT.sub('', server)}" if method and server else ""


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def bounded(name: str) -> str:
    """A name without what changes from call to call."""
    return _CHANGES.sub("*", name[:1000]).strip()[:NAME_CHARS]


def is_operation(given: Attributes) -> bool:
    """Whether it is a call of a model or a tool, not something made of such calls."""
    kind = kind_of(given)
    if kind in foreign.CONTAINERS:
        return False
    return bool(kind or text_of(given, foreign.TOOL) or models_of(given)[0])

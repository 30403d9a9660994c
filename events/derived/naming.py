"""What a piece of work is called: the tool, else the model, else the far end, else the span's name without its ids."""

from __future__ import annotations

import re
from typing import NamedTuple

from events.derived.readings import Attributes, start_of, text_of
from recovery_ops.wire import foreign

NAME_CHARS = 100
_CHANGES = re.compile(
    r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|\b(?=\w*\d)[0-9a-fA-F]{8,}\b|[\w.+-]+@[\w-]+\.[\w.]+|\b\d+\b"
)
"""Ids, addresses and numbers: what would make an operation of its own out of each call."""


class Identity(NamedTuple):
    """Which operation it was, and what is known of it."""

    operation: str
    provider: str
    model: str
    tool: str
    region: str = ""


def identity_of(given: Attributes, span_name: str) -> Identity:
    """The identity of a span or a record, from its attributes and its name."""
    provider, model = start_of(given, foreign.PROVIDER), start_of(given, foreign.REQUEST_MODEL)
    tool, region = start_of(given, foreign.TOOL), start_of(given, foreign.REGION)
    name = (tool or model or _far_end(given) or bounded(span_name))[:NAME_CHARS]
    return Identity(name, provider, model, tool, region)


def _far_end(given: Attributes) -> str:
    """`GET api.example.com`: bounded, as an address with ids in it is not."""
    method, server = start_of(given, foreign.HTTP_METHOD), start_of(given, foreign.SERVER)
    return f"{method} {server}" if method and server else ""


def bounded(name: str) -> str:
    """A name without what changes from call to call."""
    return _CHANGES.sub("*", name[:1000]).strip()[:NAME_CHARS]


def is_operation(given: Attributes) -> bool:
    """Whether it is a call of a model or a tool, not something made of such calls."""
    kind = text_of(given, foreign.KIND_OF_WORK)
    if kind in foreign.CONTAINERS:
        return False
    return bool(kind or text_of(given, foreign.TOOL) or text_of(given, foreign.REQUEST_MODEL))

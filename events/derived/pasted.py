"""An error that a person pastes: an HTTP answer, a JSON body, a log record of OTLP, a traceback, or a sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from events.derived.evidence import signal_of
from events.otlp.json_requests import plain_map
from recovery_ops.rules.classification.classify import Signal
from recovery_ops.rules.events import FailureClassified
from recovery_ops.wire import names
from recovery_ops.wire import otel_names as foreign

PASTED_CHARS = 20_000
_STATUS_LINE = re.compile(r"\AHTTP/\d(?:\.\d)? (\d{3})\b[^\n]*(?:\n|\Z)")
_HEADER = re.compile(r"\A([A-Za-z0-9-]{1,64}):[ \t]*(.{0,200})\Z")
_RAISED = re.compile(r"\A((?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}): ?(.*)\Z", re.DOTALL)
_MESSAGE = names.attribute_of(FailureClassified, "message")
_TRACEBACK = "Traceback (most recent call last):"


class ReadAs(StrEnum):
    """As what a text was read; the values are what people and programs are told."""

    ANSWER = "an HTTP answer"
    BODY = "a JSON body"
    RECORD = "a log record of OpenTelemetry"
    EXCEPTION = "an exception"
    MESSAGE = "a message"


def signal_in(text: str, *, status: int | None = None) -> tuple[Signal, ReadAs]:
    """The error, and as what it was read. `status` is the HTTP status where it does not stand in the text."""
    said = text[:PASTED_CHARS].replace("\r\n", "\n").strip()
    given: dict[str, object] = {} if status is None else {foreign.HTTP_STATUS[0]: status}
    if (answer := _STATUS_LINE.match(said)) is not None:
        headers, body = _parted(said[answer.end() :])
        given |= {foreign.HTTP_STATUS[0]: int(answer[1])} | headers
        return signal_of(given, body, _object_in(body)), ReadAs.ANSWER
    document = _object_in(said)
    if document is not None:
        record = _record_in(document)
        if record is None:
            return signal_of(given, "", document), ReadAs.BODY
        attributes = plain_map(record.get("attributes"))
        told = attributes.get(_MESSAGE) or _text_of_body(record.get("body"))
        return signal_of(given | attributes, told if isinstance(told, str) else ""), ReadAs.RECORD
    last = said.rpartition("\n")[2] if _TRACEBACK in said else said
    if (raised := _RAISED.match(last)) is not None and _is_error(raised[1]):
        given |= {foreign.EXCEPTION_TYPE: raised[1], foreign.EXCEPTION_MESSAGE: raised[2]}
        return signal_of(given, raised[2]), ReadAs.EXCEPTION
    return signal_of(given, said), ReadAs.MESSAGE


def _is_error(name: str) -> bool:
    return name.endswith(("Error", "Exception", "Timeout", "Warning", "Refused", "Interrupt"))


def _parted(rest: str) -> tuple[dict[str, object], str]:
    """Headers, under the names that instrumentation gives them, and what stands behind them."""
    head, _, body = rest.partition("\n\n")
    pairs = [found for line in head.split("\n") if (found := _HEADER.match(line.strip()))]
    return {foreign.HTTP_HEADER_PREFIX + one[1].lower(): one[2].strip() for one in pairs}, body.strip()


def _object_in(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        # Half a pair is no character, and nothing that it stands in could be shown.
        found = json.loads(json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _record_in(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The log record, or the first one of what an exporter sends; None where it is none."""
    part: Any = document
    for name in ("resourceLogs", "scopeLogs", "logRecords"):
        within = part.get(name)
        if isinstance(within, list) and within and isinstance(within[0], dict):
            part = within[0]
    attributes = part.get("attributes")
    is_record = isinstance(attributes, list) and all(
        isinstance(one, dict) and isinstance(one.get("key"), str) for one in attributes
    )
    return part if is_record else None


def _text_of_body(body: object) -> object:
    return body.get("stringValue") if isinstance(body, Mapping) else ""

"""Examples of every event in shell, Python and JavaScript for the catalogue; pasted in order, they run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from enum import StrEnum
from typing import Any, get_type_hints

from recovery_ops.rules.enums import Category, Evidence, State, Trigger
from recovery_ops.rules.events import Event, Record
from recovery_ops.wire import names
from recovery_ops.wire.events import encode

_VALUES: Mapping[str, object] = {
    "account": "day:2026-11-21",
    "action": "park",
    "attempt": 2,
    "attempts": 3,
    "breaker": "search_web",
    "budget": "errors",
    "calls": 20,
    "category": Category.RATE_LIMITED,
    "config_hash": "9f2b1c",
    "consecutive": 3,
    "error_type": "TimeoutError",
    "evidence": Evidence.HTTP_STATUS,
    "fallback": "cached_results",
    "from_model": "claude-opus-4-5",
    "guard": "tool_failures",
    "hook": "on_retry",
    "kind": "fallback",
    "measure": "cost_usd",
    "message": "Error code: 429 - rate limit reached",
    "previous_state": State.CLOSED,
    "queue": "on-call",
    "reason": "failures",
    "revision": 1,
    "settings": {"retry.max_attempts": 3},
    "state": State.OPEN,
    "status_code": 429,
    "step": "search",
    "successes": 18,
    "to_model": "claude-haiku-4-5",
    "tool": "search_web",
    "trigger": Trigger.FAILURE_RATE,
    "wait_s": 30.5,
    "workflow": "report",
}
"""Of required attributes, and of some that an example has, too; of others by their type."""
_SHOWN = frozenset({"status_code", "message", "breaker", "wait_s"})
_BY_TYPE: Mapping[type, object] = {bool: True, int: 5, float: 12.5, str: "example"}
_OPERATION, _RUN = "search_web", "run-1"
_SCOPE = "by hand"
_LEFT_OUT = frozenset({names.UID, names.SEQUENCE_NUMBER, names.POLICY_VERSION})
_RESOURCE = {"service.name": "my-agent", "service.instance.id": "my-agent-1"}

PYTHON = f"""import os
import time
import uuid

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource

exporter = OTLPLogExporter(
    endpoint=os.environ["RECOVERY_OPS_URL"] + "/v1/logs",
    headers={{"Authorization": "Bearer " + os.environ["RECOVERY_OPS_KEY"]}},
)
provider = LoggerProvider(resource=Resource({json.dumps(_RESOURCE)}))
provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
logger = provider.get_logger("{_SCOPE}")


def emit(name, severity, attributes):
    now = time.time_ns()
    attributes = {{"log.record.uid": str(uuid.uuid4()), **attributes}}
    severity = SeverityNumber(severity)
    logger.emit(LogRecord(timestamp=now, event_name=name, severity_number=severity, attributes=attributes))"""
JAVASCRIPT = f"""import {{ randomUUID }} from "node:crypto";

const {{ RECOVERY_OPS_URL, RECOVERY_OPS_KEY }} = process.env;
const pairs = (given) => Object.entries(given).map(([key, value]) => ({{ key, value: valueOf(value) }}));
const valueOf = (value) =>
  typeof value === "boolean" ? {{ boolValue: value }}
  : Number.isInteger(value) ? {{ intValue: String(value) }}
  : typeof value === "number" ? {{ doubleValue: value }}
  : typeof value === "object" ? {{ kvlistValue: {{ values: pairs(value) }} }}
  : {{ stringValue: value }};

async function emit(eventName, severityNumber, attributes) {{
  const timeUnixNano = String(BigInt(Date.now()) * 1000000n);
  const all = pairs({{ "log.record.uid": randomUUID(), ...attributes }});
  const logRecords = [{{ timeUnixNano, eventName, severityNumber, attributes: all }}];
  const resource = {{ attributes: pairs({json.dumps(_RESOURCE)}) }};
  const scopeLogs = [{{ scope: {{ name: "{_SCOPE}" }}, logRecords }}];
  const response = await fetch(RECOVERY_OPS_URL + "/v1/logs", {{
    method: "POST",
    headers: {{ "Content-Type": "application/json", Authorization: "Bearer " + RECOVERY_OPS_KEY }},
    body: JSON.stringify({{ resourceLogs: [{{ resource, scopeLogs }}] }}),
  }});
  if (!response.ok) throw new Error(await response.text());
}}"""


def _shell() -> str:
    """The function of the examples for curl."""
    resource = json.dumps({"attributes": _pairs(_RESOURCE)})
    return f"""emit() {{
  curl -sS --fail-with-body "$RECOVERY_OPS_URL/v1/logs" \\
    -H "Authorization: Bearer $RECOVERY_OPS_KEY" -H "Content-Type: application/json" -d @- <<END
{{"resourceLogs": [{{
  "resource": {resource},
  "scopeLogs": [{{"scope": {{"name": "{_SCOPE}"}}, "logRecords": [{{
    "timeUnixNano": "$(date +%s)000000000", "eventName": "$1", "severityNumber": $2, "attributes": [$3]
  }}]}}]
}}]}}
END
}}"""


def setup() -> Iterator[str]:
    """What stands before the examples of a page, as Markdown."""
    yield "Set `RECOVERY_OPS_URL` and `RECOVERY_OPS_KEY` (a key with the permission `ingest`). Every example calls a"
    yield "function `emit`. In a shell, with curl:"
    yield ""
    yield from _block("sh", _shell())
    yield ""
    yield "In Python, with the OpenTelemetry SDK"
    yield "(`pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http`):"
    yield ""
    yield from _block("python", PYTHON)
    yield ""
    yield "In JavaScript, with Node.js only:"
    yield ""
    yield from _block("js", JAVASCRIPT)
    yield ""
    yield "A record that is sent twice with the same `log.record.uid` is stored once. A record without it is identified"
    yield "by its content and time."


def examples(kind: type[Event]) -> Iterator[str]:
    """One event in the three languages, as Markdown."""
    event = encode(Record(event=example(kind), uid="", sequence_number=0, at_ns=0, run=_RUN))
    said = {key: value for key, value in event.attributes.items() if key not in _LEFT_OUT}
    name, severity = event.event_name, event.severity
    yield from _block("sh", _curl(name, severity, said))
    yield ""
    body = "".join(f"        {json.dumps(key)}: {_python(value)},\n" for key, value in said.items())
    yield from _block("python", f'emit(\n    "{name}",\n    {severity},\n    {{\n{body}    }},\n)')
    yield ""
    yield from _block("js", f'await emit("{name}", {severity}, {json.dumps(said, indent=2)});')


def example(kind: type[Event]) -> Event:
    """An event of this kind with what is required, and a little more."""
    hints, said = get_type_hints(kind), dict[str, Any]()
    for one in fields(kind):
        is_required = one.default is MISSING and one.default_factory is MISSING
        if is_required or one.name in _SHOWN:
            said[one.name] = _VALUES[one.name] if one.name in _VALUES else _of_type(hints[one.name])
    if "operation" in hints:
        said["operation"] = _OPERATION
    return kind(**said)


def _of_type(annotation: Any) -> object:
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return next(iter(annotation))
    return _BY_TYPE[annotation]


def _python(value: object) -> str:
    return str(value) if isinstance(value, bool) else json.dumps(value)


def _curl(name: str, severity: int, said: Mapping[str, object]) -> str:
    listed = ",\n  ".join(json.dumps({"key": key, "value": _otlp(value)}) for key, value in said.items())
    return f"emit {name} {severity} '\n  {listed}'"


def _pairs(given: Mapping[str, object]) -> list[dict[str, object]]:
    return [{"key": key, "value": _otlp(value)} for key, value in given.items()]


def _otlp(value: object) -> dict[str, object]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case Mapping():
            return {"kvlistValue": {"values": _pairs(value)}}
    return {"stringValue": value}


def _block(language: str, text: str) -> Iterator[str]:
    yield f"```{language}"
    yield text
    yield "```"

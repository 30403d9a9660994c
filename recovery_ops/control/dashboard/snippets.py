"""Snippets that send a first event to this server, with its address and a key filled in."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SERVICE = "my-agent"
"""The name of the agent in all snippets."""
OPERATION = "search_web"
NO_KEY = "YOUR_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """Code or shell commands to paste. `id` is part of the page's address."""

    id: str
    title: str
    detail: str
    text: str


def snippets_for(*, origin: str, key: str, checkout: Path | None) -> list[Snippet]:
    """All snippets. `origin` is the server's address; `checkout` holds the source, None where that is unknown."""
    key = key or NO_KEY
    install = f"python3 -m pip install {shlex.quote(str(checkout or 'PATH_OF_A_CHECKOUT'))}"
    return [
        Snippet(
            id="python",
            title="Python, with the runtime",
            detail=f"On this machine, install the runtime first: {install}",
            text=_python_runtime(origin, key),
        ),
        Snippet(
            id="plain-python",
            title="Python, without the runtime",
            detail="The standard library is enough. It sends one failure.",
            text=_python(origin, key),
        ),
        Snippet(
            id="javascript",
            title="JavaScript",
            detail="Node.js 18 or newer: save it as first-event.mjs and run it. It sends one failure.",
            text=_javascript(origin, key),
        ),
        Snippet(id="curl", title="curl", detail="It sends one failure.", text=_curl(origin, key)),
        Snippet(
            id="environment",
            title="Environment variables",
            detail="For the runtime, and for every OpenTelemetry SDK.",
            text=_environment(origin, key),
        ),
    ]


def key_command(environment: str, *, checkout: Path, data: Path) -> str:
    """The command that creates a key on the server's machine."""
    options = f"--name {SERVICE} --scope ingest,desired --environment {shlex.quote(environment)}"
    manage = shlex.quote(str(checkout / "manage.py"))
    return f"python3 {manage} key create {options} --data {shlex.quote(str(data))}"


def _python_runtime(origin: str, key: str) -> str:
    return f"""\
from recovery_ops.runtime import Recovery

recovery = Recovery("{SERVICE}", url="{origin}", key="{key}")


@recovery.guard(read_only=True)
def {OPERATION}(query: str) -> str:
    return f"results for {{query}}"


with recovery.run("first run"):
    print({OPERATION}("circuit breaker"))
recovery.close()
"""


def _python(origin: str, key: str) -> str:
    return f'''\
import json
import time
import urllib.request

event = json.loads("""
{_body()}
""")
event["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]["timeUnixNano"] = str(time.time_ns())
headers = {{"Authorization": "Bearer {key}", "Content-Type": "application/json"}}
request = urllib.request.Request("{origin}/v1/logs", json.dumps(event).encode(), headers)
print(urllib.request.urlopen(request).status)
'''


def _javascript(origin: str, key: str) -> str:
    return f"""\
const event = {_body()};
event.resourceLogs[0].scopeLogs[0].logRecords[0].timeUnixNano = `${{Date.now()}}000000`;
const response = await fetch("{origin}/v1/logs", {{
  method: "POST",
  headers: {{ Authorization: "Bearer {key}", "Content-Type": "application/json" }},
  body: JSON.stringify(event),
}});
console.log(response.status);
"""


def _curl(origin: str, key: str) -> str:
    body = _body().replace(
        '"eventName"', '"timeUnixNano": "\'$(date +%s)\'000000000", "eventName"'
    )  # the shell ends the quotes and fills in the time
    return f"""\
curl --fail-with-body {origin}/v1/logs \\
  -H "Authorization: Bearer {key}" -H "Content-Type: application/json" \\
  -d '{body}'
"""


def _environment(origin: str, key: str) -> str:
    return f"""\
export RECOVERY_OPS_URL={origin}
export RECOVERY_OPS_KEY={key}
export OTEL_SERVICE_NAME={SERVICE}
export OTEL_EXPORTER_OTLP_ENDPOINT={origin}
export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
export OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20{key}
"""


def _body() -> str:
    """One failed call as an OTLP request in JSON, without its time."""
    record = {
        "eventName": "recovery.failure_classified",
        "attributes": [
            _attribute("recovery.operation.name", OPERATION),
            _attribute("recovery.failure.category", "overloaded"),
            _attribute("recovery.failure.evidence", "http_status"),
            _attribute("recovery.failure.retryable", True),
            _attribute("recovery.attempt.number", 1),
            _attribute("http.response.status_code", 529),
        ],
    }
    resource = {"attributes": [_attribute("service.name", SERVICE), _attribute("service.instance.id", f"{SERVICE}-1")]}
    return _lines({"resourceLogs": [{"resource": resource, "scopeLogs": [{"logRecords": [record]}]}]})


def _attribute(name: str, value: str | int | bool) -> dict[str, Any]:
    """One attribute in OTLP's JSON, where whole numbers are strings."""
    if isinstance(value, bool):
        return {"key": name, "value": {"boolValue": value}}
    return {"key": name, "value": {"stringValue": value} if isinstance(value, str) else {"intValue": str(value)}}


def _lines(body: dict[str, Any]) -> str:
    """JSON with one attribute a line."""
    return json.dumps(body).replace('{"key"', '\n  {"key"').replace('"scopeLogs"', '\n  "scopeLogs"')

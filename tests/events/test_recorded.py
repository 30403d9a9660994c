"""What real instrumentations and coding agents sent of a failing provider, as recorded, and what is derived from it.

`packages` of a recording are the versions that sent it, `raised` is what the caller saw. The provider answered as the
name of the case says: 429, 503 or 529, broken JSON, nothing in time, or well. Ids, paths and users are replaced.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from events.models import Fact
from events.otlp import reading
from events.otlp.sent import Encoding, Signal
from tests.support.otlp import RESOURCE, attributes
from tests.support.spans import NOW_US
from tests.support.traces import store

FOLDER = Path(__file__).parents[1] / "payloads/recorded"
RECORDINGS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
CASES = [(name, case) for name, recording in RECORDINGS.items() for case in recording["cases"]]
END_NS = 10**12
"""When the last record of each case ended."""
PARTS = {"scopeSpans": (Signal.TRACES, "resourceSpans"), "scopeLogs": (Signal.LOGS, "resourceLogs")}
CATEGORIES = {
    "429": "rate_limited",
    "503": "overloaded",
    "529": "overloaded",
    "json": "schema_mismatch",
    "timeout": "timeout",
}
OTHERS = {("litellm", "json"): "server_error", ("codex", "json"): "network", ("codex", "529"): "server_error"}
"""LiteLLM makes a 500 of an answer that it cannot read, Codex a lost stream; Codex logs of a 503 the number alone."""
BACKENDS = {
    "claude-code": ("anthropic", "claude-sonnet-4-5"),
    "codex": ("openai", "gpt-5-codex"),
    "gemini-cli": ("gcp.gemini", "gemini-2.5-flash"),
}
RUNS = {"claude-code", "codex", "gemini-cli", "langgraph", "pydantic-ai"}
"""What names a session, a conversation or a thread."""

pytestmark = pytest.mark.django_db


def moved(part: Any) -> Any:
    """The same, as if it had ended a second ago."""
    if isinstance(part, list):
        return [moved(one) for one in part]
    if not isinstance(part, dict):
        return part
    now_ns = (NOW_US - 1_000_000) * 1000
    return {
        key: str(int(value) - END_NS + now_ns) if key.endswith("UnixNano") and int(value) else moved(value)
        for key, value in part.items()
    }


def deliver(case: dict[str, Any]) -> None:
    for part, (signal, top) in PARTS.items():
        if part in case:
            document = {top: [{"resource": {"attributes": attributes(RESOURCE)}, part: moved(case[part])}]}
            body = json.dumps(document).encode()
            read = reading.read_request(signal, Encoding.JSON, body, environment="dev", received_us=NOW_US)
            assert not read.refused
            store(read)


def attempts_of(case: dict[str, Any]) -> int:
    """How many attempts failed: one, or as many as a coding agent logged."""
    records = [record for scope in case.get("scopeLogs", ()) for record in scope["logRecords"]]
    said = [{one["key"]: one["value"] for one in record["attributes"]} for record in records]
    failed = [one for one in said if "error.message" in one or "error" in one or "error_message" in one]
    ends = sum(one["event.name"] == {"stringValue": "api_retries_exhausted"} for one in failed if "event.name" in one)
    return len(failed) - ends if "scopeSpans" not in case and failed else 1


@pytest.mark.parametrize(("name", "case"), CASES)
def test_recorded_failure_is_what_happened(name: str, case: str) -> None:
    recorded = RECORDINGS[name]["cases"][case]
    deliver(recorded)
    found = Fact.objects.filter(event="failure_classified")
    expected = OTHERS.get((name, case), CATEGORIES.get(case))
    assert [one.category for one in found] == [expected] * (attempts_of(recorded) if expected else 0)
    assert {(one.provider, one.model) for one in found} <= {BACKENDS.get(name, ("openai", "gpt-4o-mini"))}
    assert all(one.operation == one.model and bool(one.run) == (name in RUNS) for one in found)
    if name not in BACKENDS:
        assert Fact.objects.filter(event="calls_counted").count() == 1
    assert not Fact.objects.exclude(event__in=["failure_classified", "calls_counted", "exhausted", "log"]).exists()

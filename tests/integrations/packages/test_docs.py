"""Every example of docs/guide/integrations.md, run as it stands."""

from __future__ import annotations

import re
from typing import Any

import pytest

from recovery_ops.runtime import ToolRegistry
from recovery_ops.runtime.testing import Lab
from tests.integrations.packages.vendors import anthropic_message, openai_chat, openai_response, said
from tests.support.http_server import serving
from tests.support.processes import ROOT

PAGE = (ROOT / "docs" / "guide" / "integrations.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
ROUTES = {
    "/v1/messages": said(200, anthropic_message()),
    "/v1/chat/completions": said(200, openai_chat()),
    "/v1/responses": said(200, openai_response()),
}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: re.findall(r"integrations\.(\w+)", text)[0])
def test_an_example_runs(example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    lab = Lab()
    with serving(otherwise=said(200, {}), routes=ROUTES) as server:
        names: dict[str, Any] = {
            "recovery": lab.recovery,
            "registry": ToolRegistry(lab.recovery),
            "url": server.url,
            "__name__": "example",
        }
        exec(compile(example, "docs/guide/integrations.md", "exec", dont_inherit=True), names)
        for name in ("plain", "client"):
            if hasattr(names.get(name), "close"):
                names[name].close()
    assert lab.recovery.operations or "litellm" in example or "pydantic_ai" in example


def test_every_integration_has_an_example() -> None:
    folder = ROOT / "recovery_ops" / "runtime" / "integrations"
    shared = {"__init__", "http_calls", "http_transports", "packages", "failure_reports"}
    shared |= {"client_keys", "mcp_sessions", "model_calls", "model_streams", "request_bounds"}
    there = {path.stem for path in folder.glob("*.py")} - shared - {"tool_bridge", "observed_calls", "httpx2"}
    assert there == {name for text in EXAMPLES for name in re.findall(r"integrations\.(\w+) import", text)}

"""Both sides of each pair in docs/guide/migrating.md: the other library's snippet and ours make the same calls."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from recovery_ops.runtime.testing import Lab
from tests.docs.worlds import migrating
from tests.integrations.packages.vendors import openai_chat, said
from tests.support.guide import snippets
from tests.support.http_server import Request, serving
from tests.support.processes import ROOT

PAGE = (ROOT / "docs" / "guide" / "migrating.md").read_text()
SECTIONS = {text.partition("\n")[0]: text for text in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]}


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    monkeypatch.setattr("time.sleep", lambda seconds: None)


@pytest.mark.parametrize("library", SECTIONS)
def test_both_sides_make_the_same_calls(library: str, tmp_path: Path) -> None:
    there, here = (snippets(SECTIONS[library], language) for language in ("py", "python"))
    assert there
    assert here
    assert calls_of(there, tmp_path) == calls_of(here, tmp_path)


def calls_of(codes: list[str], folder: Path) -> list[str]:
    """Run the snippets in a world of their own; the calls that it received, in order."""
    lab = Lab(directory=folder / "state")
    world = migrating(lab, folder)
    received: list[str] = world["received"]

    def answering(connection: socket.socket, request: Request) -> bool:
        """A provider whose large model is down."""
        model = json.loads(request.body)["model"]
        received.append(model)
        reply = said(500, {}) if model == "large" else said(200, openai_chat(content=f"hello from {model}"))
        return reply(connection, request)

    with serving(otherwise=answering) as server:
        names: dict[str, Any] = {"recovery": lab.recovery, "url": server.url, "__name__": "migrating", **world}
        for code in codes:
            exec(compile(code, "docs/guide/migrating.md", "exec", dont_inherit=True), names)
    return received

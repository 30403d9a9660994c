"""What an import of the runtime loads, and what it leaves for whoever needs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import recovery_ops.runtime
from tests.support.processes import ROOT, clean_environment

HEAVY = {
    *("opentelemetry", "google", "urllib3", "http.client", "email", "ssl", "sqlite3", "asyncio", "multiprocessing"),
    *("tempfile", "decimal", "jsonschema", "trio", "anyio", "httpx", "requests", "pytest"),
    *("django", "celery", "rest_framework", "plotly", "psycopg", "uvicorn", "events", "recovery_ops.control"),
}
ROOMS = {
    f"recovery_ops.runtime.{room}"
    for room in ("tools", "playbook", "workflows", "partial_results", "integrations", "human_input")
}


def loaded_by(code: str) -> set[str]:
    """The modules of a fresh interpreter after this."""
    words = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"]
    environment = clean_environment({"PYTHONPATH": str(ROOT)})
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.split())


def test_an_import_loads_nothing_heavy_and_enters_no_room_that_is_not_asked_for() -> None:
    assert loaded_by("import recovery_ops.runtime") & (HEAVY | ROOMS) == set()


def test_guarding_threads_without_a_server_loads_nothing_either() -> None:
    code = """
from recovery_ops.runtime import Recovery
recovery = Recovery("x", url="", is_background_work_wanted=False)
with recovery.run(source="main_agent"):
    recovery.guard("search", kind="tool")(abs)(-1)
"""
    assert loaded_by(code) & (HEAVY | ROOMS) == set()


def test_a_name_brings_its_room() -> None:
    loaded = loaded_by("from recovery_ops.runtime import ToolRegistry")
    assert "recovery_ops.runtime.tools.registry" in loaded
    assert "recovery_ops.runtime.workflows" not in loaded


@pytest.mark.parametrize("name", recovery_ops.runtime.__all__)
def test_each_public_name_is_there(name: str) -> None:
    assert getattr(recovery_ops.runtime, name) is not None
    assert name in dir(recovery_ops.runtime)


def test_no_other_name_is() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Guess'"):
        recovery_ops.runtime.Guess  # noqa: B018  # asking is the test

"""The examples of docs/events.md: pasted one after the other into each language, they store every event."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from events import keys
from events.ingest.commits import writer
from events.models import Fact, Tally
from recovery_ops.wire import names
from recovery_ops.wire.catalogue import NEED_HEARTBEATS, SILENCE_S
from tests.support.guide import snippets
from tests.support.otlp_server import served
from tests.support.processes import ROOT, clean_environment

COMMANDS = {
    "sh": ["bash", "-euo", "pipefail"],
    "python": [sys.executable],
    "js": ["node", "--input-type=module"],
}
PAGE = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
EVENTS = sorted(one.name for one in names.EVENTS.values())


@pytest.fixture
def token(transactional_db: None) -> Iterator[str]:
    keys.forget_keys()
    yield keys.create_key("examples", ["ingest"], "dev")[1]
    writer.close(timeout_s=10)
    keys.forget_keys()


@pytest.mark.parametrize("language", COMMANDS)
def test_pasted_examples_store_every_event(language: str, token: str, tmp_path: Path) -> None:
    program, *words = COMMANDS[language]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    with served() as url:
        env = clean_environment({"RECOVERY_OPS_URL": url, "RECOVERY_OPS_KEY": token})
        text = "\n".join(snippets(PAGE, language))
        command = [program, *words]
        done = subprocess.run(
            command, input=text, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60
        )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert sorted(Fact.objects.values_list("event", flat=True)) == EVENTS
    assert set(Fact.objects.values_list("agent__instance", flat=True)) == {"my-agent-1"}
    assert not Tally.objects.exists()  # nothing was remarked


def test_silence_is_that_of_the_server() -> None:
    assert SILENCE_S == settings.UNREACHABLE_AFTER_S
    for kind in NEED_HEARTBEATS:
        section = PAGE.split(f"## `{names.EVENTS[kind].full_name}`")[1].split("\n## ")[0]
        assert "Needs [heartbeats](#heartbeats)" in section

"""The step of CI that asks about known weaknesses: it fails on one, and says where nobody could be asked.

The program that it asks is played here, and answers as pip-audit does.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import ROOT, clean_environment

PLAYED = """#!{python}
import json, sys, urllib.request
words = sys.argv[1:]
said = dict(zip(words, words[1:]))
knows = {knows!r}
found = []
if "--osv-url" in said:  # the service that the step plays to show that it would tell
    question = json.dumps({{"package": {{"name": "good"}}}}).encode()
    with urllib.request.urlopen(urllib.request.Request(said["--osv-url"], question)) as answer:
        found = json.load(answer).get("vulns", []) if {hears} else []
elif said["--vulnerability-service"] != knows:
    sys.exit("no such host")
else:
    found = [{{"id": name}} for name in {weak!r}]
vulns = [{{"id": one["id"], "fix_versions": []}} for one in found]
with open(said["-o"], "w") as report:
    json.dump({{"dependencies": [{{"name": "good", "version": "1", "vulns": vulns}}]}}, report)
"""


def step(folder: Path, *, knows: str = "", weak: tuple[str, ...] = (), hears: bool = True) -> tuple[int, str]:
    """The code with which the step ends, and what it says, where one service answers and knows these weaknesses."""
    program, lock = folder / "pip-audit", folder / "server.txt"
    program.write_text(PLAYED.format(python=sys.executable, knows=knows, weak=weak, hears=hears))
    program.chmod(0o755)
    lock.write_text("good==1 --hash=sha256:00\n")
    words = [sys.executable, str(ROOT / ".ci/weaknesses.py"), str(program), str(lock)]
    done = subprocess.run(words, env=clean_environment(), capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout


@pytest.mark.full
@pytest.mark.parametrize("knows", ["pypi", "osv"])
def test_a_weakness_that_a_service_knows_fails_the_build(tmp_path: Path, knows: str) -> None:
    code, told = step(tmp_path, knows=knows, weak=("PYSEC-1",))
    assert (code, "good 1: PYSEC-1" in told) == (1, True)


@pytest.mark.full
def test_where_none_is_known_the_build_passes(tmp_path: Path) -> None:
    code, told = step(tmp_path, knows="osv")
    assert (code, told.splitlines()[-1]) == (0, "pip-audit: nothing found")


@pytest.mark.full
def test_where_nobody_answers_it_claims_nothing(tmp_path: Path) -> None:
    code, told = step(tmp_path)
    assert (code, "not audited, because no service answers" in told, "nothing found" in told) == (0, True, False)


@pytest.mark.full
def test_a_step_that_would_not_tell_fails_the_build(tmp_path: Path) -> None:
    code, told = step(tmp_path, knows="pypi", hears=False)
    assert (code, "the step told []" in told) == (1, True)

"""The README and the pages for operators: what they tell a reader to type exists, and does what they say."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from django.core.management import CommandError, CommandParser, get_commands, load_command_class

import recovery_ops.runtime
from recovery_ops.rules import events as facts
from recovery_ops.runtime.testing import Lab
from tests.support.guide import FENCE, LINK, anchors, snippets
from tests.support.processes import ROOT, Server, clean_environment, eventually

OPERATE = tuple(sorted(f"docs/operate/{page.name}" for page in (ROOT / "docs/operate").glob("*.md")))
OTHERS = ("docs/tutorial.md", "docs/performance.md", "docs/guide/production.md", "docs/changelog.md")
PAGES = ("README.md", *OPERATE, *OTHERS)
NOT_DJANGO = frozenset({"bench", "drill", "lint", "test"})
"""Commands that `manage.py` answers itself."""
CACHED, WARNING = "what was known an hour ago", "results are up to 1 h old"
"""What the README's own fallback answers, and the warning that it declares."""
NOWHERE = "http://127.0.0.1:9"


def read(page: str) -> str:
    return (ROOT / page).read_text()


class TestSnippets:
    def test_they_recover_as_the_text_says(self, monkeypatch: pytest.MonkeyPatch) -> None:
        lab = Lab()
        monkeypatch.setattr(recovery_ops.runtime, "Recovery", lambda *args, **said: lab.recovery)
        names = {"really_search": lab.script(503)}
        for snippet in snippets(read("README.md")):
            exec(snippet, names)
        with lab.recovery.run(source="main_agent"):
            outcome = names["search_web"].outcome("breakers")  # type: ignore[attr-defined]  # the snippet made it
        assert (outcome.value, outcome.warning) == ([CACHED], WARNING)
        assert len(lab.events_of(facts.RetryScheduled)) > 0

    def test_the_watched_retry_prints_what_the_page_shows(self) -> None:
        text = read("README.md")
        program, shown = snippets(text)[0], next(one for one in snippets(text, "") if one.startswith("search_web:"))
        run = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            env=clean_environment({"PYTHONPATH": str(ROOT)}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        delay = re.compile(r"in [\d.]+ s")
        assert sorted(delay.sub("", run.stdout).splitlines()) == sorted(delay.sub("", shown).splitlines())

    def test_they_run_with_a_server_that_is_away(self, tmp_path: Path) -> None:
        told = ["def really_search(query): return [query]", *snippets(read("README.md")), "print(search_web('found'))"]
        run = subprocess.run(
            [sys.executable, "-W", "error", "-c", "\n".join(told)],
            env=clean_environment(
                {
                    "PYTHONPATH": str(ROOT),
                    "RECOVERY_OPS_URL": NOWHERE,
                    "RECOVERY_OPS_KEY": "none",
                    "RECOVERY_OPS_DIR": str(tmp_path),
                }
            ),
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert (run.returncode, run.stdout) == (0, "['a page about breakers']\n['found']\n"), run.stderr
        assert "Traceback" not in run.stderr
        (outbox,) = tmp_path.rglob("*.outbox")  # what could not be sent waits here
        with closing(sqlite3.connect(outbox)) as db:
            assert db.execute("SELECT count(*) FROM record").fetchone()[0] > 0


def commands() -> Iterator[tuple[str, str, bool]]:
    """Every `manage.py …` of the pages: the page, the words after it, and whether it is shown whole, to be typed.

    In the text `key list | revoke PREFIX` names two, and a name alone may stand for all that the command can do.
    """
    for page in PAGES:
        text = read(page)
        shown = [
            line for language, content in FENCE.findall(text) if language != "python" for line in content.splitlines()
        ]
        for told in (*shown, *re.findall(r"`([^`\n]+)`", FENCE.sub("", text))):
            found = re.search(r"manage\.py ([a-z_]+\b[^#]*)", told)
            if found is None:
                continue
            first, *others = (one.strip() for one in found[1].replace("[", "").replace("]", "").split("|"))
            for one in (first, *(f"{first.split()[0]} {other}" for other in others)):
                yield page, one, told in shown


COMMANDS = sorted(set(commands()))


def parser(command: str) -> CommandParser:
    """What reads the options of a command of Django's or of ours; KeyError where there is none."""
    return load_command_class(get_commands()[command], command).create_parser("manage.py", command)


@pytest.mark.parametrize(
    ("page", "command", "is_whole"), [told for told in COMMANDS if told[1].split()[0] not in NOT_DJANGO]
)
def test_commands_and_their_options_are_understood(page: str, command: str, is_whole: bool) -> None:
    name, *options = shlex.split(command)
    try:
        parser(name).parse_args(options)
    except CommandError as error:
        if is_whole or "are required" not in str(error):
            raise


def test_a_command_that_is_not_there_is_noticed() -> None:
    with pytest.raises(CommandError):
        parser("key").parse_args(["create", "--name", "research", "--scopes", "ingest"])
    with pytest.raises(KeyError):
        parser("keys")


@pytest.mark.parametrize("command", ["bench", "drill"])
def test_what_measures_and_what_does_harm_have_a_manual(command: str) -> None:
    argv = [sys.executable, str(ROOT / "manage.py"), command, "--help"]
    run = subprocess.run(argv, env=clean_environment({"RECOVERY_OPS_NO_VENV": "1"}), capture_output=True, text=True)
    assert (run.returncode, run.stdout[:6]) == (0, "usage:"), run.stderr


def test_the_commands_are_found_at_all() -> None:
    told = {command.split()[0] for _, command, _ in COMMANDS}
    assert {"up", "test", "bench", "key", "account", "audit", "verify_facts", "migrate"} <= told


def test_options_named_in_the_text_are_those_of_up() -> None:
    section = read("README.md").partition("## Two commands")[2].partition("\n## ")[0]
    options = set(re.findall(r"`(--[a-z-]+)", section))
    assert {"--no-demo", "--port", "--data"} <= options
    told = parser("up").format_help()
    assert all(option in told for option in options - {"--data"})


@pytest.mark.parametrize("program", ["uvicorn", "celery"])
def test_other_programs_and_their_options_exist(program: str) -> None:
    shown = "\n".join(map(read, OPERATE))
    lines = re.findall(rf"^\.venv/bin/{program} (.+)$", shown, re.MULTILINE)
    assert lines
    run = subprocess.run([sys.executable, "-m", program, "--help"], capture_output=True, text=True, cwd=ROOT)
    for word in (word for line in lines for word in line.split() if word.startswith("--")):
        assert word in run.stdout, word
    if program == "celery":
        assert {"worker", "beat"} <= set(run.stdout.split())


@pytest.mark.parametrize("page", PAGES)
def test_links_and_pictures_are_there(page: str) -> None:
    folder = (ROOT / page).parent
    for link in LINK.findall(read(page)):
        path, _, anchor = link.partition("#")
        if link.startswith(("http://", "https://")):
            continue
        target = folder / path if path else ROOT / page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text()), link


@pytest.mark.skipif(shutil.which("curl") is None, reason="not on this machine: curl")
def test_the_curl_example_stores_its_record(start_server: Callable[..., Server], tmp_path: Path) -> None:
    server = start_server()
    data = tmp_path / "data"
    argv = [sys.executable, str(ROOT / "manage.py"), "key", "create", "--name", "curl", "--scope", "ingest,desired"]
    made = subprocess.run(
        [*argv, "--data", str(data)], env=clean_environment(), capture_output=True, text=True, check=True
    )
    (example,) = (content for content in snippets(read("README.md"), "") if content.startswith("curl "))
    assert "http://127.0.0.1:8000" in example
    sent = subprocess.run(
        ["bash", "-c", example.replace("http://127.0.0.1:8000", server.url)],
        env=clean_environment({"KEY": made.stdout.split()[-1]}),
        capture_output=True,
        text=True,
    )
    assert sent.returncode == 0, sent.stderr
    assert "partialSuccess" not in json.loads(sent.stdout)

    def is_stored() -> bool:
        with closing(sqlite3.connect(data / "db.sqlite3")) as db:
            row = db.execute("SELECT count(*) FROM events_fact WHERE operation = 'charge_card'").fetchone()
        return bool(row[0] == 1)

    eventually(is_stored, what="the record in the store")

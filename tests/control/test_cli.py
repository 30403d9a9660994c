"""The operator's command line against a running console."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from events.models import Agent
from recovery_ops import cli
from recovery_ops.control.models import EnvironmentRules, Override
from recovery_ops.rules.facts import DesiredStateApplied, SettingsInForce
from tests.support.command_line import WHY, Operator, operator
from tests.support.fleet import seen_now
from tests.support.processes import ROOT, clean_environment
from tests.support.stories import Story

__all__ = ["operator"]  # the fixture


def test_trip_release_and_reset(operator: Operator) -> None:
    assert operator.run("trip", "search_web", *WHY, "--for", "30m") == cli.DONE
    [said] = operator.said
    assert re.fullmatch(r"trip search_web: revision 1, forced_open from \S+ to \S+ UTC; 3 instances have .+", said)
    assert (Override.objects.get().expires_at - Override.objects.get().starts_at).total_seconds() == 1800
    assert operator.run("trip", "search_web", *WHY, "--for", "30m") == cli.DONE
    assert "(it was so already)" in operator.said[0]
    assert operator.run("release", "search_web", *WHY) == cli.DONE
    assert operator.run("reset", "search_web", *WHY) == cli.DONE
    assert operator.said == ["reset search_web: revision 3; 3 instances have it, 3 are in scope"]


def test_a_dry_run_says_what_it_would_touch(operator: Operator) -> None:
    assert operator.run("trip", "search_web", *WHY, "--dry-run") == cli.DONE
    assert operator.said[0].startswith("Nothing was changed. 3 instances have it, 3 are in scope. Callers will get")
    assert not Override.objects.exists()


def test_what_takes_two_persons_waits_and_can_be_withdrawn(operator: Operator) -> None:
    EnvironmentRules.objects.create(environment="dev", is_second_needed=True)
    everything = ["trip", "*", *WHY, "--confirm", "dev"]
    assert operator.run(*everything, "--dry-run") == cli.DONE
    assert operator.said[-1] == "It would wait until a second person agrees."
    assert operator.run(*everything) == cli.WAITS
    assert "Request 1 waits until" in operator.said[0]
    assert operator.run("shed", *WHY, "--confirm", "dev") == cli.WAITS
    assert operator.run("requests", "list", "--state", "waiting") == cli.DONE
    assert [said.partition(",")[0] for said in operator.said] == [
        "request 2: shed less important work",
        "request 1: trip every breaker",
    ]
    assert operator.run("requests", "withdraw", "1", *WHY) == cli.DONE
    assert operator.run("requests", "show", "1") == cli.DONE
    assert "withdrawn" in operator.said[0]
    assert not Override.objects.exists()


def test_what_reaches_everybody_is_typed_or_confirmed(operator: Operator, capsys: pytest.CaptureFixture[str]) -> None:
    assert operator.run("trip", "*", *WHY) == cli.REFUSED
    assert (
        "confirm has to repeat dev: this reaches everybody. Give --confirm with that name." in capsys.readouterr().err
    )
    operator.types = "*"
    assert operator.run("trip", "*", *WHY) == cli.REFUSED
    assert not Override.objects.exists()
    operator.types = "dev"
    assert operator.run("trip", "*", *WHY) == cli.DONE
    assert operator.said[0].startswith("3 instances have it, 3 are in scope")
    assert operator.said[1] == "confirm has to repeat dev: this reaches everybody\n> "
    assert operator.said[-1] == "It ends in 1 h: no --for was given."
    operator.types = ""
    assert operator.run("shed", *WHY) == cli.REFUSED
    assert operator.run("shed", *WHY, "--confirm", "dev", "--for", "30m") == cli.DONE
    assert operator.said[0].startswith("load is shed until ")
    assert operator.run("status") == cli.DONE
    assert any(line.startswith("load is shed until ") for line in operator.said)
    assert operator.run("shed", *WHY, "--extend", "--for", "2h") == cli.DONE
    assert operator.run("shed", *WHY, "--off") == cli.DONE
    assert operator.said == ["everything passes again: revision 4"]


def test_several_are_done_one_by_one(operator: Operator) -> None:
    assert operator.run("trip", "search_web", "serch_web", *WHY, "--for", "30m") == cli.REFUSED
    assert operator.said[0].startswith("search_web: revision 1, forced_open from ")
    assert operator.said[1].startswith("serch_web: refused: No instance in dev has ever reported")
    assert operator.said[2].startswith("1 of 2; 3 instances have it, 3 are in scope")
    assert operator.run("release", "search_web", "search_web", *WHY) == cli.DONE
    assert not Override.objects.live("dev").exists()


def test_a_time_of_nothing_is_refused_and_not_left_out(operator: Operator) -> None:
    assert operator.run("trip", "search_web", *WHY, "--for", "0s") == cli.REFUSED
    assert not Override.objects.exists()


def applied(instance: str) -> None:
    Story().tell(DesiredStateApplied(revision=1, config_hash=""), at=0, instance=instance).store()
    seen_now()


def test_waiting_ends_when_everybody_obeys(operator: Operator) -> None:
    waiting = iter(["r-0", "r-1", "r-2"])
    operator.on_sleep = lambda: applied(next(waiting))
    assert operator.run("trip", "search_web", *WHY, "--wait", "30s") == cli.DONE
    assert operator.said[-1] == "3/3 applied"


def test_waiting_ends_when_the_time_is_over_and_names_the_rest(operator: Operator) -> None:
    assert operator.run("trip", "search_web", *WHY, "--wait", "1s") == cli.NOT_APPLIED
    assert operator.said[-1] == "0/3 applied, 3 pending (research/r-0, research/r-1, research/r-2)"


def test_waiting_for_several_and_for_a_pattern_names_the_rest_too(operator: Operator) -> None:
    for names in (["search_web", "search_*"], ["search_*"]):
        assert operator.run("trip", *names, *WHY, "--wait", "1s") == cli.NOT_APPLIED
        assert operator.said[-1] == "0/3 applied, 3 pending (research/r-0, research/r-1, research/r-2)"


def test_what_is_released_is_said(operator: Operator) -> None:
    operator.run("observe", "search_web", *WHY, "--in", "6h")
    begins = f"{Override.objects.get().starts_at:%Y-%m-%dT%H:%M:%S}"
    assert operator.run("release", "search_web", *WHY) == cli.DONE
    assert operator.said[0].startswith(f"release search_web: revision 2, ended: metrics_only from {begins} to ")


def test_status_says_what_holds_and_who_obeys(operator: Operator) -> None:
    operator.run("trip", "search_web", *WHY)
    assert operator.run("status") == cli.DONE
    assert operator.said[0] == "dev: revision 1, policy built-in"
    assert operator.said[1].startswith("3 of 3 agents report; 0/3 applied, 3 pending")
    assert operator.said[2] == "0 of 1 breakers do not flow; 1 override holds"
    assert operator.said[3].startswith("  search_web: 3 closed; forced_open by ana until ")


def test_a_reader_that_has_read_enough_is_no_error(operator: Operator) -> None:
    command = [sys.executable, "-m", "recovery_ops.cli", "status"]
    environment = clean_environment(operator.environ)
    reader, writer = os.pipe()
    os.close(reader)  # as `| head` does, at the latest when it ends
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=pipe, stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr) == (cli.DONE, b"")


def test_a_refusal_is_said_and_fails(operator: Operator, capsys: pytest.CaptureFixture[str]) -> None:
    assert operator.run("trip", "serch_web", *WHY) == cli.REFUSED
    assert "ever reported a breaker called serch_web" in capsys.readouterr().err
    assert operator.run("release", "search_web", *WHY) == cli.REFUSED
    operator.environ["RECOVERY_OPS_KEY"] = "nonsense"
    assert operator.run("status") == cli.REFUSED
    assert "This key is unknown" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "ftp://example.org", "nonsense"])
def test_a_console_that_is_not_there_is_said(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert Operator(url, "a key").run("status") == cli.NO_ANSWER
    assert url in capsys.readouterr().err


def test_what_answers_but_is_no_console_is_said(operator: Operator, capsys: pytest.CaptureFixture[str]) -> None:
    operator.environ["RECOVERY_OPS_URL"] += "/not/here"
    assert operator.run("status") == cli.REFUSED
    assert "no answer of a Recovery Ops console" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["trip"], ["trip", "search_web"], ["trip", "x", *WHY, "--for", "soon"]])
def test_misuse_is_told(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        Operator("http://127.0.0.1:9", "a key").run(*words)
    assert ended.value.code == 2
    with pytest.raises(SystemExit):
        Operator("http://127.0.0.1:9", "").run("status")
    assert "RECOVERY_OPS_KEY" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("30m", 1800), ("2h", 7200), ("1d", 86_400)])
def test_lengths_of_time(text: str, seconds: float) -> None:
    assert cli._seconds(text) == seconds


def test_what_an_instance_goes_by_is_said_where_it_is_not_as_desired(operator: Operator) -> None:
    assert operator.run("settings", "research", "r-0") == cli.DONE
    assert "has not said which settings it runs" in operator.said[0]
    knobs = {"max_retries": 1, "jitter": 0.25}
    told = SettingsInForce(operation="search_web", revision=0, settings=knobs, in_code={"max_retries": 1})
    Story().tell(told, at=1, instance="r-0").store()
    seen_now()
    Agent.objects.update(uptime_s=1e9)
    assert operator.run("settings", "research", "r-0") == cli.DONE
    assert operator.said[0].startswith("research/r-0: 1 of 2 settings are not as desired.")
    assert operator.said[1].startswith("  search_web (told ")
    assert operator.said[2].startswith("    max_retries: 1; desired 3 (built in); different: The agent’s code says so.")
    assert len(operator.said) == 3
    assert operator.run("settings", "research", "r-0", "--operation", "search_web", "--all") == cli.DONE
    assert "    jitter: 0.25; desired 0.25 (built in); equal" in operator.said
    assert operator.run("settings", "research", "nobody") == cli.REFUSED

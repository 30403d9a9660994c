"""The operator's command line against a running console."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from events.models import Agent
from recovery_ops import cli
from recovery_ops.control.breakers.models.load_shedding import LoadShed
from recovery_ops.control.breakers.models.overrides import Override, Reset
from recovery_ops.control.core.models.approval_requests import ApprovalRequest
from recovery_ops.control.core.models.environment_rules import EnvironmentRules
from recovery_ops.rules.events import DesiredStateApplied, SettingsInForce
from tests.support.command_line import WHY, Operator, operator
from tests.support.fleet import seen_now
from tests.support.processes import ROOT, clean_environment
from tests.support.stories import Story
from tests.support.told import moment, untold

__all__ = ["operator"]  # the fixture


def test_trip_release_and_reset(operator: Operator) -> None:
    assert operator.run("trip", "search_web", *WHY, "--for", "30m") == cli.DONE
    [said] = operator.said
    held = Override.objects.get()
    assert untold(said, "search_web", 1, "forced_open", moment(held.starts_at), moment(held.expires_at), 3) == []
    assert (held.expires_at - held.starts_at).total_seconds() == 1800
    assert operator.run("trip", "search_web", *WHY, "--for", "30m") == cli.DONE
    assert operator.said[0] != said, "that it was so already is told"
    assert (Override.objects.get(), untold(operator.said[0], 1, moment(held.starts_at))) == (held, [])
    assert operator.run("release", "search_web", *WHY) == cli.DONE
    assert not Override.objects.live("dev").exists()
    assert operator.run("reset", "search_web", *WHY) == cli.DONE
    [said] = operator.said
    assert re.findall(r"\d+", said) == ["3", "3", "3"], "the revision, the instances that have it and those in scope"
    assert Reset.objects.get().operation in said


def test_a_dry_run_says_what_it_would_touch(operator: Operator) -> None:
    assert operator.run("trip", "search_web", *WHY, "--dry-run") == cli.DONE
    assert untold(operator.said[0], 3) == [], "the instances that have it"
    assert not Override.objects.exists()


def test_what_takes_two_persons_waits_and_can_be_withdrawn(operator: Operator) -> None:
    EnvironmentRules.objects.create(environment="dev", is_second_needed=True)
    everything = ["trip", "*", *WHY, "--confirm", "dev"]
    assert operator.run(*everything, "--dry-run") == cli.DONE
    warning = operator.said[-1]
    EnvironmentRules.objects.update(is_second_needed=False)
    assert operator.run(*everything, "--dry-run") == cli.DONE
    assert warning not in operator.said, "only where it would wait"
    EnvironmentRules.objects.update(is_second_needed=True)
    assert operator.run(*everything) == cli.WAITS
    assert untold(operator.said[0], 1, f"{ApprovalRequest.objects.get().expires_at:%H:%M}") == []
    assert operator.run("shed", *WHY, "--confirm", "dev") == cli.WAITS
    assert operator.run("requests", "list", "--state", "waiting") == cli.DONE
    second, first = operator.said
    assert (untold(second, 2, "shed", "waiting"), untold(first, 1, "trip", "waiting")) == ([], [])
    assert operator.run("requests", "withdraw", "1", *WHY) == cli.DONE
    assert operator.run("requests", "show", "1") == cli.DONE
    assert "withdrawn" in operator.said[0]
    assert not Override.objects.exists()


def test_what_reaches_everybody_is_typed_or_confirmed(operator: Operator, capsys: pytest.CaptureFixture[str]) -> None:
    assert operator.run("trip", "*", *WHY) == cli.REFUSED
    assert untold(capsys.readouterr().err, "dev", "--confirm") == []
    operator.types = "*"
    assert operator.run("trip", "*", *WHY) == cli.REFUSED
    assert not Override.objects.exists()
    operator.types = "dev"
    assert operator.run("trip", "*", *WHY) == cli.DONE
    assert (untold(operator.said[0], 3), untold(operator.said[1], "dev")) == ([], [])
    assert untold(operator.said[-1], "1 h", "--for") == [], "how long it holds where nobody said it"
    operator.types = ""
    assert operator.run("shed", *WHY) == cli.REFUSED
    assert operator.run("shed", *WHY, "--confirm", "dev", "--for", "30m") == cli.DONE
    held = LoadShed.objects.get()
    assert untold(operator.said[0], moment(held.expires_at)) == []
    assert operator.run("status") == cli.DONE
    assert any(untold(line, moment(held.expires_at), held.least) == [] for line in operator.said)
    assert operator.run("shed", *WHY, "--extend", "--for", "2h") == cli.DONE
    assert operator.run("shed", *WHY, "--off") == cli.DONE
    [said] = operator.said
    assert untold(said, 4) == []
    assert LoadShed.objects.get().ended_at is not None


def test_several_are_done_one_by_one(operator: Operator) -> None:
    assert operator.run("trip", "search_web", "serch_web", *WHY, "--for", "30m") == cli.REFUSED
    done, refused, both = operator.said[:3]
    assert (untold(done, "search_web", 1, "forced_open"), untold(refused, "serch_web", "dev")) == ([], [])
    assert re.findall(r"\d+", both) == ["1", "2", "3", "3"], "how many were done, of how many, and what they touch"
    assert Override.objects.get().operation == "search_web"
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
    assert untold(operator.said[-1], "0/3", "research/r-0", "research/r-1", "research/r-2") == []


def test_waiting_for_several_and_for_a_pattern_names_the_rest_too(operator: Operator) -> None:
    for names in (["search_web", "search_*"], ["search_*"]):
        assert operator.run("trip", *names, *WHY, "--wait", "1s") == cli.NOT_APPLIED
        assert untold(operator.said[-1], "0/3", "research/r-0", "research/r-1", "research/r-2") == []


def test_what_is_released_is_said(operator: Operator) -> None:
    operator.run("observe", "search_web", *WHY, "--in", "6h")
    assert operator.run("release", "search_web", *WHY) == cli.DONE
    held = Override.objects.get()
    assert held.ended_at is not None
    assert untold(operator.said[0], "search_web", 2, "metrics_only", moment(held.starts_at)) == []


def test_status_says_what_holds_and_who_obeys(operator: Operator) -> None:
    operator.run("trip", "search_web", *WHY)
    assert operator.run("status") == cli.DONE
    whole, agents, breakers, one = operator.said[:4]
    assert untold(whole, "dev", 1, "built-in") == []
    assert re.findall(r"\d+", agents.partition("(")[0]) == ["3", "3", "0", "3", "3"], "who reports, who obeys"
    assert re.findall(r"\d+", breakers) == ["0", "1", "1"], "what does not flow, of how many, and what holds"
    assert untold(one, "search_web", 3, "closed", "forced_open", "ana") == []


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
    assert untold(capsys.readouterr().err, "serch_web") == []
    assert operator.run("release", "search_web", *WHY) == cli.REFUSED
    of_the_release = capsys.readouterr().err
    operator.environ["RECOVERY_OPS_KEY"] = "nonsense"
    assert operator.run("status") == cli.REFUSED
    assert capsys.readouterr().err not in ("", of_the_release)
    with pytest.raises(cli.Problem) as refused:
        cli.Console(operator.environ["RECOVERY_OPS_URL"], "nonsense").ask("GET", "/api/v1/status")
    assert refused.value.status == 401


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "ftp://example.org", "nonsense"])
def test_a_console_that_is_not_there_is_said(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert Operator(url, "a key").run("status") == cli.NO_ANSWER
    assert url in capsys.readouterr().err


def test_what_answers_but_is_no_console_is_said(operator: Operator, capsys: pytest.CaptureFixture[str]) -> None:
    operator.environ["RECOVERY_OPS_URL"] += "/not/here"
    assert operator.run("status") == cli.REFUSED
    assert untold(capsys.readouterr().err, 404) == [], "HTTP is all that it speaks"


@pytest.mark.parametrize(
    "words", [[], ["trip"], ["trip", "search_web", "--reason"], ["trip", "x", *WHY, "--for", "soon"]]
)
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
    [nothing] = operator.said
    assert untold(nothing, "research/r-0") == []
    assert re.findall(r"\d+", nothing.partition("research/r-0")[2]) == [], "nothing is counted where nothing was said"
    settings = {"max_retries": 1, "jitter": 0.25}
    told = SettingsInForce(operation="search_web", revision=0, settings=settings, in_code={"max_retries": 1})
    Story().tell(told, at=1, instance="r-0").store()
    seen_now()
    Agent.objects.update(uptime_s=1e9)
    assert operator.run("settings", "research", "r-0") == cli.DONE
    whole, place, setting = operator.said
    assert (untold(whole, "research/r-0", 1, 2), untold(place, "search_web")) == ([], [])
    assert untold(setting, "max_retries", 1, 3, "different") == []
    assert operator.run("settings", "research", "r-0", "--operation", "search_web", "--all") == cli.DONE
    assert [untold(line, 0.25, "equal") for line in operator.said if "jitter" in line] == [[]]
    assert operator.run("settings", "research", "nobody") == cli.REFUSED

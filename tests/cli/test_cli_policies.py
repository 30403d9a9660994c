"""Policies on the operator's command line, against a running console."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from recovery_ops import cli
from recovery_ops.control.policies.models.policies import PolicyProposal, PolicyRelease
from recovery_ops.control.replay import job
from recovery_ops.control.replay.models.replays import Replay
from recovery_ops.rules.policy.model import BUILT_IN, document_of
from tests.support.command_line import WHY, Operator, operator

__all__ = ["operator"]  # the fixture

RETRIES = "rules[0].settings.max_retries"


def written(folder: Path, **settings: Any) -> str:
    rule = {"id": "search_web", "scope": {"operation": "search_web"}, "settings": settings}
    path = folder / "policy.json"
    path.write_text(json.dumps({**document_of(BUILT_IN), "rules": [rule]}))
    return str(path)


def test_from_a_file_to_a_release_and_back(operator: Operator, tmp_path: Path) -> None:
    file = written(tmp_path, max_retries=5)
    assert operator.run("policy", "diff", file) == cli.DONE
    [line] = [one for one in operator.said if one.startswith("rules.search_web.settings.max_retries ")]
    assert line.endswith("→ 5")
    assert operator.run("policy", "push", file, "--title", "more patience", "--review", *WHY) == cli.DONE
    assert [one.split(",")[0] for one in operator.said] == ["proposal 1: draft", "proposal 1: in review"]
    assert (PolicyProposal.objects.get().state, PolicyProposal.objects.get().base_version) == ("in_review", "built-in")
    assert operator.run("policy", "release", "1", *WHY, "--dry-run") == cli.DONE
    assert re.findall(r"\b(?:policy|revision) \d+", operator.said[0]) == ["policy 1", "revision 1"]
    assert not PolicyRelease.objects.exists()
    assert operator.run("policy", "release", "1", *WHY) == cli.DONE
    assert operator.said == ["policy 1 is live: revision 1"]
    assert operator.run("policy", "show", "1") == cli.DONE
    assert json.loads(operator.said[0]) == json.loads(Path(file).read_text())
    assert operator.run("policy", "diff", file) == cli.DONE
    [line] = operator.said
    assert ("policy 1" in line, "→" in line) == (True, False)
    assert operator.run("policy", "rollback", "0", *WHY) == cli.DONE
    assert operator.said == ["policy 2 is live: revision 2"]
    assert PolicyRelease.objects.latest("version").returns_to == 0


def test_a_release_is_scheduled_for_some_first(operator: Operator, tmp_path: Path) -> None:
    operator.run("policy", "push", written(tmp_path, max_retries=5), "--title", "more patience", *WHY)
    begins = timezone.now().replace(second=0, microsecond=0) + timedelta(days=7)
    at = ("--at", begins.isoformat(timespec="minutes"))
    words = f"proposal 1: scheduled for {begins:%Y-%m-%dT%H:%M:%S}"
    assert operator.run("policy", "release", "1", *at, "--canary", "10%", *WHY, "--dry-run") == cli.DONE
    assert words in operator.said[0]
    assert PolicyProposal.objects.get().state == "draft"
    assert operator.run("policy", "release", "1", *at, "--canary", "10%", *WHY) == cli.DONE
    assert [one.rpartition(",")[0] for one in operator.said] == [words]
    made = PolicyProposal.objects.get()
    assert (made.state, (made.cohort or {})["share"]) == ("scheduled", 0.1)
    assert operator.run("policy", "release", "1", *at, *WHY) == cli.DONE
    assert operator.said == [words]
    with pytest.raises(SystemExit):
        operator.run("policy", "release", "1", "--at", "2999-01-15T08:00", *WHY)


def test_a_document_is_checked_before_it_is_pushed(
    operator: Operator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert operator.run("policy", "check", written(tmp_path, max_retries=99)) == cli.REFUSED
    [line] = operator.said
    assert line.split()[:2] == ["error:", RETRIES]
    assert re.findall(r"\d+", line.partition(RETRIES)[2]) == ["0", "20"]
    assert operator.run("policy", "push", written(tmp_path, max_retries=99), "--title", "t", *WHY) == cli.REFUSED
    assert RETRIES in capsys.readouterr().err
    assert operator.run("policy", "check", written(tmp_path, max_retries=9)) == cli.DONE
    assert operator.said[0].split()[:2] == ["warning:", RETRIES]
    assert operator.run("policy", "check", str(tmp_path / "none.json")) == cli.REFUSED
    assert not PolicyProposal.objects.exists()


def test_a_replay_is_waited_for(operator: Operator, tmp_path: Path) -> None:
    def work() -> None:
        found: list[Replay] = []
        from django.utils import timezone

        job.start_next(now=timezone.now(), start=found.append)
        job.run(found[0])

    operator.on_sleep = work
    assert operator.run("policy", "replay", written(tmp_path, max_retries=1), "--back", "1h") == cli.DONE
    [line] = operator.said
    assert re.match(r"replay 1: 0 of 0\b", line)


def test_the_tail_says_what_was_done_and_goes_on(operator: Operator) -> None:
    operator.run("disable", "search_web", *WHY)
    assert operator.run("tail") == cli.DONE
    [line] = operator.said
    assert line.split()[1:4] == ["ana", "breaker.disable", "search_web,"]
    assert (" 1: " in line, line.endswith(WHY[1])) == (True, True)

    def interrupted() -> None:
        raise KeyboardInterrupt

    operator.on_sleep = interrupted
    assert operator.run("tail", "--follow") == cli.DONE
    assert len(operator.said) == 1


def test_an_override_is_extended(operator: Operator) -> None:
    operator.run("observe", "search_web", *WHY, "--for", "10m")
    assert operator.run("extend", "search_web", *WHY, "--for", "2h") == cli.DONE
    assert operator.said[0].startswith("extend search_web: revision 2")

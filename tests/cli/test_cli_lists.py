"""Every list of the operator's command line, page by page, and the verbs that only look; against a running console."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from events.models import AgentKey
from recovery_ops import cli
from recovery_ops.cli.words import MORE, say_rows
from recovery_ops.control.breakers.models.load_shedding import LoadShed
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.policies.models.feedback import Feedback
from recovery_ops.rules.enums import State
from tests.support.command_line import WHY, Operator, operator
from tests.support.stories import NOW, Story, moved

__all__ = ["operator"]  # the fixture

NO_LISTS = {"masking list": "one section of the policy, not rows"}
"""What is called a list and has no pages."""
QUESTION = "why not four of them?"


def words(parser: argparse.ArgumentParser, before: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every verb, and every word of a verb, with what it takes."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield f"{before}{name}", inner
                yield from words(inner, f"{before}{name} ")


def test_every_list_says_how_much_it_says() -> None:
    found = dict(words(cli._parser({})))
    lists = [name for name in found if name.endswith(" list")]
    lists += ["policy proposals", "policy releases", "policy rollouts", "policy replays", "notifications log"]
    lists += ["tail", "agents", "breakers", "overrides", "degradations", "amplification", "spending"]
    without = [one for one in lists if not {"--limit", "--all"} <= found[one]._option_string_actions.keys()]
    assert without == list(NO_LISTS)
    assert len(lists) > 18


class Pages:
    """A console with so many rows, and the requests that it was asked."""

    def __init__(self, rows: int) -> None:
        self.rows, self.asked = rows, list[str]()

    def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        self.asked.append(path)
        query = dict(one.split("=") for one in path.partition("?")[2].split("&"))
        start, limit = int(query.get("cursor", "0")), int(query["limit"])
        end = min(self.rows, start + limit)
        further = f"/things?limit={limit}&cursor={end}" if end < self.rows else None
        return {"things": [{"n": number} for number in range(start, end)], "next": further}


@pytest.mark.parametrize(
    ("rows", "limit", "said", "pages", "is_more"),
    [
        (0, 50, 0, 1, False),
        (3, 50, 3, 1, False),
        (50, 50, 50, 1, False),
        (51, 50, 50, 1, True),
        (450, 450, 450, 3, False),
        (450, 401, 401, 3, True),
        (450, None, 450, 3, False),
    ],
)
def test_a_list_is_followed_as_far_as_is_asked(
    rows: int, limit: int | None, said: int, pages: int, is_more: bool
) -> None:
    console, told = Pages(rows), list[str]()
    options = argparse.Namespace(limit=limit, all=limit is None)
    say_rows(console, "/things", "things", options, lambda one: [str(one["n"])], told.append, nothing="Nothing.")
    numbers = [one for one in told if one.isdigit()]
    assert numbers == [str(number) for number in range(said)]
    assert len(console.asked) == pages
    assert told[said:] == ([MORE] if is_more else [] if rows else ["Nothing."])


def test_a_long_list_and_the_log_are_read_to_their_end(operator: Operator) -> None:
    made = {"environment": "dev", "operation": "search_web", "want": "retry_less", "reason": "x", "by": "ana"}
    Feedback.objects.bulk_create(Feedback(number=one, at=timezone.now(), **made) for one in range(1, 231))
    assert operator.run("feedback", "list") == cli.DONE
    assert (len(operator.said), operator.said[-1]) == (51, MORE)
    assert operator.run("feedback", "list", "--all") == cli.DONE
    assert len(operator.said) == 230
    for mode in ("trip", "disable", "observe"):
        assert operator.run(mode, "search_web", *WHY) == cli.DONE
    assert operator.run("tail", "--limit", "2") == cli.DONE
    assert [one.split()[2] for one in operator.said] == ["breaker.disable", "breaker.observe"]
    assert operator.run("tail", "--all") == cli.DONE
    assert [one.split()[2] for one in operator.said] == ["breaker.trip", "breaker.disable", "breaker.observe"]


def test_no_number_is_no_limit(operator: Operator, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("0", "-1", "x"):
        with pytest.raises(SystemExit) as ended:
            operator.run("runs", "list", f"--limit={wrong}")
        told = capsys.readouterr().err
        assert (ended.value.code, "--limit" in told, repr(wrong) in told) == (2, True, True)


def test_breakers_are_narrowed_as_on_their_page(operator: Operator) -> None:
    def named(*asked: str) -> list[str]:
        assert operator.run("breakers", *asked) == cli.DONE
        return [one.partition(":")[0] for one in operator.said if not one.startswith(" ")]

    story = Story()
    story.tell(moved(State.OPEN, breaker="crm"), at=-(timezone.now() - NOW).total_seconds(), service="research").store()
    assert named() == ["crm", "search_web"]
    assert named("--q", "SEARCH") == ["search_web"]
    assert named("--show", "blocking") == named("--show", "open") == ["crm"]
    [nothing] = named("--show", "held")
    assert nothing not in ("crm", "search_web")
    assert operator.run("trip", "search_web", *WHY) == cli.DONE
    assert named("--show", "held", "--service", "research") == ["search_web"]
    assert named("--show", "held", "--service", "moon") == named("--provider", "moon") == named("--group", "moon")
    assert operator.run("breakers", "--show", "moon") == cli.REFUSED


def test_who_reports_what_is_imposed_and_which_wins(operator: Operator) -> None:
    assert operator.run("agents") == cli.DONE
    assert operator.said[0].startswith("research/r-0 ")
    assert re.search(r"\b0 tokens\b", operator.said[0])
    assert re.search(r" [-\d]{10}T[:\d]{8} UTC", operator.said[-1]), "since when is counted"
    assert len(operator.said) == 4
    assert operator.run("label", "research", "r-1", "--labels", "eu, vip") == cli.DONE
    assert operator.said == ["research/r-1: eu, vip"]
    assert operator.run("agents", "--label", "vip") == cli.DONE
    assert [one.partition(" ")[0] for one in operator.said[:-1]] == ["research/r-1"]
    assert operator.run("overrides") == cli.DONE
    assert (len(operator.said), "ov-" in operator.said[0]) == (1, False)
    assert operator.run("trip", "search_*", *WHY) == cli.DONE
    assert operator.run("observe", "search_web", "--instance", "r-0", *WHY, "--in", "1h") == cli.DONE
    assert operator.run("overrides") == cli.DONE
    assert [one.split()[1] for one in operator.said] == ["forced_open:", "metrics_only:"]
    assert "operation search_web, instance r-0" in operator.said[1]
    assert operator.run("observe", "search_web", "--instance", "r-1", *WHY, "--in", "2h") == cli.DONE
    assert operator.run("overrides") == cli.DONE
    assert ["instance r-" in operator.said[0], *("r-0;" in one for one in operator.said[1:])] == [False, True, False]
    assert operator.run("overrides", "--limit", "1") == cli.DONE
    assert operator.said[1:] == [MORE]
    assert operator.run("explain", "search_web", "--instance", "r-0") == cli.DONE
    assert operator.said[0].startswith("  ov-") or operator.said[0].startswith("* ov-")
    [winner] = [one for one in operator.said if one.startswith("* ov-")]
    assert "(search_*), forced" in winner
    assert operator.run("simulate", "search_web", "--failure-rate-threshold", "0.3") == cli.DONE
    assert "failure_rate_threshold 0.3" in operator.said[0]
    assert "minimum_number_of_calls 10" in operator.said[0]
    assert operator.said[1].startswith("it would have opened ")
    for verb in ("degradations", "amplification"):
        assert operator.run(verb) == cli.DONE
    narrow = ("--going-on", "--model", "large", "--code", "529", "--owner", "provider", "--lasted-s", "60")
    assert operator.run("capacity", "list", *narrow) == cli.DONE
    assert (len(operator.said), "CE-" in operator.said[0]) == (1, False)


def test_a_window_that_ends_planned_ones_names_them(operator: Operator) -> None:
    assert operator.run("observe", "search_web", *WHY, "--in", "2h") == cli.DONE
    assert operator.run("trip", "search_web", *WHY, "--for", "3h") == cli.DONE
    planned = Override.objects.get(mode=State.METRICS_ONLY)
    [named] = [one for one in operator.said if f" {planned.pk}, " in one]
    assert named.endswith(f"ana: {WHY[1]}")
    assert operator.run("shed", "--confirm", "dev", *WHY, "--in", "2h") == cli.DONE
    assert operator.run("shed", "--confirm", "dev", *WHY, "--for", "3h") == cli.DONE
    called_off = LoadShed.objects.exclude(ended_at=None).get()
    assert any(f" {called_off.pk}, " in one for one in operator.said)


def test_proposals_are_listed_shown_and_moved_on(operator: Operator, tmp_path: Path) -> None:
    document = tmp_path / "policy.json"
    document.write_text(json.dumps({"defaults": {"operation": {"max_retries": 5}}}))
    assert operator.run("policy", "proposals") == cli.DONE
    assert (len(operator.said), "proposal 1" in operator.said[0]) == (1, False)
    assert operator.run("policy", "push", str(document), "--title", "more patience", *WHY) == cli.DONE
    line = "proposal 1: draft, more patience (by ana, from policy built-in)"
    assert operator.run("policy", "proposals") == cli.DONE
    assert operator.said == [line]
    assert operator.run("policy", "submit", "1", *WHY) == cli.DONE
    assert operator.said == [line.replace("draft", "in review")]
    assert operator.run("policy", "comment", "1", "--reason", QUESTION) == cli.DONE
    assert operator.run("policy", "proposal", "1") == cli.DONE
    assert any(QUESTION in one for one in operator.said)
    assert any("max_retries" in one for one in operator.said)
    assert operator.run("policy", "return", "1", *WHY) == cli.DONE
    assert operator.run("policy", "reject", "1", *WHY) == cli.DONE
    assert operator.run("policy", "proposals", "--ended") == cli.DONE
    assert operator.said == [line.replace("draft", "rejected")]
    for word in ("releases", "rollouts", "replays"):
        assert operator.run("policy", word) == cli.DONE
        assert (len(operator.said), word in operator.said[0]) == (1, True)


def test_what_has_no_verb_is_asked_as_it_is(operator: Operator, tmp_path: Path) -> None:
    assert operator.run("api", "get", "/api/v1/status") == cli.DONE
    assert json.loads(operator.said[0])["environment"] == "dev"
    for short in ("status", "/status"):
        assert operator.run("api", "get", short) == cli.DONE
    body = tmp_path / "body.json"
    body.write_text(json.dumps({"reason": WHY[1], "dry_run": True}))
    assert operator.run("api", "POST", "breakers/search_web/reset", "--body", str(body)) == cli.DONE
    assert json.loads(operator.said[0])["dry_run"] is True
    assert operator.run("api", "GET", "/api/v1/moon") == cli.REFUSED
    assert AgentKey.objects.exists()


def test_report_says_figures_of_api(operator: Operator) -> None:
    assert operator.run("report", "--month", f"{timezone.now():%Y-%m}") == cli.DONE
    assert any(line.startswith("escalations: 0") for line in operator.said)
    assert operator.run("report", "--week", "moon") == cli.REFUSED

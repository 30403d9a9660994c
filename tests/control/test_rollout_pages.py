"""Rollouts on pages, by the API and on the command line: begun, watched, prolonged, promoted, taken back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recovery_ops import cli
from recovery_ops.control import actions
from recovery_ops.control.models import PolicyRelease, PolicyRollout
from recovery_ops.control.roles import Role
from tests.support.actions import asked, person, small_fleet
from tests.support.command_line import WHY, Operator, operator
from tests.support.pages import REASON, signed_in, text_of
from tests.support.proposals import propose
from tests.support.stories import Story, ago, counted

__all__ = ["operator"]  # the fixture

pytestmark = pytest.mark.django_db
SENT = {"percent": "34", "minutes": "15", "least_calls": "50", "reason": REASON, "seen": "1", "key": "k-1"}


@pytest.fixture
def known(db: None) -> None:
    small_fleet()


def begun() -> PolicyRollout:
    made = propose(now=ago(300))
    return actions.start_rollout(**asked(number=made.number, by=person(), share=0.34, now=ago(300))).object


@pytest.mark.usefixtures("known", "now")
def test_from_the_proposal_to_the_page_and_back() -> None:
    client, made = signed_in(Role.EDITOR), propose()
    page = text_of(client.get(f"/policies/proposals/{made.number}"))
    assert "To some first" in page
    answer = client.post(f"/policies/proposals/{made.number}/roll-out", SENT)
    assert answer.headers["Location"] == "/policies/rollouts/1"
    said = text_of(client.get("/policies/rollouts/1"))
    assert "34 % of all instances try it for 15m 00s more, then the health gate decides." in said
    assert "waiting. Too little is known yet: 0 calls of the cohort under the new policy, and 50 are needed." in said
    assert "0/2 applied , 2 pending" in said
    assert "0/1 applied , 1 pending" in said
    assert "rolling out" in text_of(client.get(f"/policies/proposals/{made.number}"))
    policies = text_of(client.get("/policies"))
    assert "Rollout 1 of proposal 1" in policies
    assert "Built-in policy" in policies
    assert client.post("/policies/rollouts/1", {"act": "take-back", "reason": REASON, "seen": "1"}).status_code == 303
    ended = text_of(client.get("/policies/rollouts/1"))
    assert f"It was taken back by ana: {REASON}" in ended
    assert "Decide by hand" not in ended


@pytest.mark.usefixtures("known", "now")
def test_the_figures_of_both_sides_stand_side_by_side() -> None:
    rollout, story = begun(), Story()
    for number in range(3):
        instance = f"r-{number}"
        is_in = rollout.cohort.holds(service="research", instance=instance)
        version = rollout.version if is_in else "built-in"
        fact = counted(100, failures={"overloaded": 3}, latency_bounds_s=(0.1, 0.5), latency_counts=(99, 1, 0))
        story.tell(fact, at=100, instance=instance, policy_version=version)
    story.store()
    said = text_of(signed_in(Role.VIEWER).get("/policies/rollouts/1"))
    assert "well. No worse than the others: failed attempts per call 3.0 % against 2.8 %" in said
    assert "Calls 200 106 Failed attempts per call 3.0 % (6 times) 2.8 % (3 times)" in said
    assert "p95 of timed calls up to 0.1 s up to 0.1 s" in said
    assert "Promote now" not in said


@pytest.mark.usefixtures("known", "now")
@pytest.mark.parametrize(
    ("form", "status", "problem"),
    [
        ({"act": "promote", "reason": "short"}, 422, "Say a little more"),
        ({"act": "extend", "reason": REASON, "minutes": ""}, 422, "Say for how many minutes longer."),
        ({"act": "extend", "reason": REASON, "minutes": "0.1"}, 422, "greater than or equal to 1"),
        ({"act": "promote", "reason": REASON, "seen": "0"}, 409, "is at step 1, not 0"),
        ({"act": "explode", "reason": REASON}, 404, ""),
    ],
)
def test_what_is_wrong_with_a_decision_is_told(form: dict[str, str], status: int, problem: str) -> None:
    begun()
    answer = signed_in(Role.EDITOR).post("/policies/rollouts/1", form)
    assert (answer.status_code, problem in text_of(answer)) == (status, True)
    assert PolicyRollout.objects.get().is_running


@pytest.mark.usefixtures("known", "now")
@pytest.mark.parametrize(
    ("changed", "status", "problem"),
    [
        ({"percent": "0"}, 422, "greater than or equal to 0.1"),
        ({"minutes": "x"}, 422, "Enter a number."),
        ({"reason": "short"}, 422, "Say a little more"),
        ({"service": "nobody"}, 404, "No instance in dev is of that service and group"),
        ({"seen": "7"}, 409, "is at step 1, not 7"),
    ],
)
def test_what_makes_no_rollout_is_told_at_its_field(changed: dict[str, str], status: int, problem: str) -> None:
    made = propose()
    answer = signed_in(Role.EDITOR).post(f"/policies/proposals/{made.number}/roll-out", SENT | changed)
    assert (answer.status_code, problem in text_of(answer)) == (status, True)
    assert not PolicyRollout.objects.exists()


@pytest.mark.usefixtures("known", "now")
def test_who_may_only_look_neither_begins_nor_ends_one() -> None:
    begun()
    client = signed_in(Role.VIEWER)
    assert client.post("/policies/proposals/1/roll-out", SENT).status_code == 403
    assert client.post("/policies/rollouts/1", {"act": "promote", "reason": REASON}).status_code == 403
    assert client.get("/policies/rollouts/7").status_code == 404


def test_on_the_command_line_from_a_file_to_all(operator: Operator, tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "policy.json"
    file.write_text(json.dumps({"rules": [{"id": "a", "scope": {"operation": "a"}, "knobs": {"max_retries": 1}}]}))
    operator.run("policy", "push", str(file), "--title", "less", *WHY)
    release = ("policy", "release", "1", "--canary", "10%", "--for", "15m")
    assert operator.run(*release, *WHY, "--dry-run") == cli.DONE
    assert operator.said == ["Nothing was changed. It would be rollout 1, revision 1."]
    assert operator.run(*release, *WHY) == cli.DONE
    assert operator.said[0].startswith("rollout 1 of proposal 1 is running until ")
    rollout = PolicyRollout.objects.get()
    assert (rollout.share, (rollout.ends_at - rollout.started_at).total_seconds()) == (0.1, 900)
    assert operator.run("policy", "release", "1", *WHY) == cli.REFUSED
    assert operator.run("policy", "rollout") == cli.DONE
    assert operator.said[1].startswith("  cohort: 0/")
    assert "wait: Too little is known yet" in operator.said[0]
    assert operator.run("policy", "rollout", "1", "--extend", "5m", *WHY) == cli.DONE
    assert operator.run("policy", "rollout", "1", "--promote", *WHY) == cli.DONE
    assert operator.said == ["policy 1 is live: revision 2"]
    assert PolicyRelease.objects.get().proposal_id == rollout.proposal_id
    assert operator.run("policy", "rollout", "1", "--take-back", *WHY) == cli.REFUSED
    assert "Rollout 1 was promoted by" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        operator.run("policy", "release", "1", "--canary", "150%", *WHY)

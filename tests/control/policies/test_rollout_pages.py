"""Rollouts on pages, by the API and on the command line: begun, watched, prolonged, promoted, taken back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from recovery_ops import cli
from recovery_ops.control.policies.models.policies import PolicyProposal, PolicyRelease
from recovery_ops.control.policies.models.rollouts import PolicyRollout
from recovery_ops.control.policies.services import rollouts as rollouts_services
from recovery_ops.rules.enums import ApplyStatus
from recovery_ops.rules.fleet.health_gate import Health
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person, small_fleet
from tests.support.command_line import WHY, Operator, operator
from tests.support.html import Shown
from tests.support.pages import REASON, signed_in, text_of
from tests.support.proposals import propose
from tests.support.sentences import left_out
from tests.support.stories import Story, ago, counted

__all__ = ["operator"]  # the fixture

pytestmark = pytest.mark.django_db
SENT = {"percent": "34", "minutes": "15", "least_calls": "50", "reason": REASON, "seen": "1", "key": "k-1"}


@pytest.fixture
def known(db: None) -> None:
    small_fleet()


def errors_of(answer: Any) -> set[str]:
    """Where the page tells what is wrong with a field."""
    return {name for name in Shown(answer).ids if name.endswith("-error")}


def proposal_page(client: Client) -> str:
    """The page of the only proposal."""
    return str(client.get(f"/policies/proposals/{PolicyProposal.objects.get().number}").content.decode())


def begun() -> PolicyRollout:
    made = propose(now=ago(300))
    return rollouts_services.start_rollout(**asked(number=made.number, by=person(), share=0.34, now=ago(300))).object


@pytest.mark.usefixtures("known", "now")
def test_from_the_proposal_to_the_page_and_back() -> None:
    client, made = signed_in(Role.EDITOR), propose()
    assert f'action="/policies/proposals/{made.number}/roll-out"' in proposal_page(client)
    answer = client.post(f"/policies/proposals/{made.number}/roll-out", SENT)
    assert answer.headers["Location"] == "/policies/rollouts/1"
    page = client.get("/policies/rollouts/1")
    assert left_out(page.context["sentence"], "34", "15m 00s") == []
    assert (page.context["health"], page.context["rows"][0].cohort) == (Health.WAIT, "0")
    assert left_out(page.context["said"], "0", "50") == []
    applying = [side["apply"] for side in page.context["sides"]]
    assert [(one.applied, one.total, len(one.agents[ApplyStatus.PENDING])) for one in applying] == [
        (0, 2, 2),
        (0, 1, 1),
    ]
    made.refresh_from_db()
    assert made.state == "rolling_out"
    assert "/policies/rollouts/1" in proposal_page(client)
    assert "/policies/rollouts/1" in Shown(client.get("/policies")).links
    assert not PolicyRelease.objects.exists()
    assert client.post("/policies/rollouts/1", {"act": "take-back", "reason": REASON, "seen": "1"}).status_code == 303
    ended = client.get("/policies/rollouts/1")
    rollout = PolicyRollout.objects.get()
    assert (rollout.state, rollout.ended_by, rollout.end_reason) == ("rolled_back", "ana", REASON)
    assert left_out(ended.context["sentence"], "ana", REASON) == []
    assert "decide-title" in Shown(page).ids
    assert "decide-title" not in Shown(ended).ids


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
    page = signed_in(Role.VIEWER).get("/policies/rollouts/1")
    assert page.context["health"] == Health.GO
    assert left_out(page.context["said"], "3.0", "2.8") == []
    counts, failures, *_, p95, _ = page.context["rows"]
    assert (counts.cohort, counts.other) == ("200", "106")
    assert left_out(failures.cohort, "3.0", "6") == left_out(failures.other, "2.8", "3") == []
    assert left_out(p95.cohort, "0.1 s") == left_out(p95.other, "0.1 s") == []
    assert left_out(text_of(page), "200", "106", failures.cohort, failures.other, p95.cohort) == []
    assert "act" not in Shown(page).fields


@pytest.mark.usefixtures("known", "now")
@pytest.mark.parametrize(
    ("form", "status", "wrong"),
    [
        ({"act": "promote", "reason": "short"}, 422, {"reason-error"}),
        ({"act": "extend", "reason": REASON, "minutes": ""}, 422, {"minutes-error"}),
        ({"act": "extend", "reason": REASON, "minutes": "0.1"}, 422, {"minutes-error"}),
        ({"act": "promote", "reason": REASON, "seen": "0"}, 409, set()),
        ({"act": "explode", "reason": REASON}, 404, set()),
    ],
)
def test_what_is_wrong_with_a_decision_is_told(form: dict[str, str], status: int, wrong: set[str]) -> None:
    begun()
    answer = signed_in(Role.EDITOR).post("/policies/rollouts/1", form)
    assert (answer.status_code, errors_of(answer)) == (status, wrong)
    if status == 409:
        assert left_out(answer.context["problem"], "1", "0") == []
    assert PolicyRollout.objects.get().is_running


@pytest.mark.usefixtures("known", "now")
@pytest.mark.parametrize(
    ("changed", "status", "wrong"),
    [
        ({"percent": "0"}, 422, {"roll-percent-error"}),
        ({"minutes": "x"}, 422, {"roll-minutes-error"}),
        ({"reason": "short"}, 422, {"roll-reason-error"}),
        ({"service": "nobody"}, 404, {"roll-service-error"}),
        ({"seen": "7"}, 409, set()),
    ],
)
def test_what_makes_no_rollout_is_told_at_its_field(changed: dict[str, str], status: int, wrong: set[str]) -> None:
    made = propose()
    answer = signed_in(Role.EDITOR).post(f"/policies/proposals/{made.number}/roll-out", SENT | changed)
    assert (answer.status_code, errors_of(answer)) == (status, wrong)
    if status == 409:
        assert left_out(answer.context["problem"], "1", "7") == []
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
    file.write_text(json.dumps({"rules": [{"id": "a", "scope": {"operation": "a"}, "settings": {"max_retries": 1}}]}))
    operator.run("policy", "push", str(file), "--title", "less", *WHY)
    release = ("policy", "release", "1", "--canary", "10%", "--for", "15m")
    assert operator.run(*release, *WHY, "--dry-run") == cli.DONE
    assert not PolicyRollout.objects.exists()
    assert left_out(operator.said[0], "rollout 1", "revision 1") == []
    assert operator.run(*release, *WHY) == cli.DONE
    assert left_out(operator.said[0], "rollout 1", "proposal 1", "running") == []
    rollout = PolicyRollout.objects.get()
    assert (rollout.share, (rollout.ends_at - rollout.started_at).total_seconds()) == (0.1, 900)
    assert operator.run("policy", "release", "1", *WHY) == cli.REFUSED
    assert operator.run("policy", "rollout") == cli.DONE
    assert operator.said[1].startswith("  cohort: 0/")
    assert left_out(operator.said[0], "running", "wait", "50") == []
    assert operator.run("policy", "rollout", "1", "--extend", "5m", *WHY) == cli.DONE
    assert operator.run("policy", "rollout", "1", "--promote", *WHY) == cli.DONE
    assert left_out(operator.said[0], "policy 1", "revision 2") == []
    assert PolicyRelease.objects.get().proposal_id == rollout.proposal_id
    assert operator.run("policy", "rollout", "1", "--take-back", *WHY) == cli.REFUSED
    assert left_out(capsys.readouterr().err, "Rollout 1", "promoted", "ana") == []
    with pytest.raises(SystemExit):
        operator.run("policy", "release", "1", "--canary", "150%", *WHY)

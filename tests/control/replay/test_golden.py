"""Golden runs: kept with what deciding them again needs, tried by every proposal, changed only where that is meant."""

from __future__ import annotations

import re
from typing import Any

import pytest

from events.models import Fact
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.policies.models.policies import PolicyProposal
from recovery_ops.control.policies.services import proposals as proposals_services
from recovery_ops.control.policies.services import review, rollouts
from recovery_ops.control.replay.golden import results_of
from recovery_ops.control.replay.models.golden import GoldenCase, GoldenResult
from recovery_ops.control.replay.services import golden as golden_services
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person
from tests.support.golden import MUST, run
from tests.support.html import Shown
from tests.support.pages import signed_in, text_of
from tests.support.proposals import EVA, TOM, act
from tests.support.replays import policy

__all__ = ["run"]  # the fixture

pytestmark = pytest.mark.django_db

MEANT = "it is meant to be so"
CHANGED = r".*\b1, search_web: answered\b.*\bfailed\b"
"""That call 1 ends otherwise: the operation, how it ended, and how it would."""


def marked(run: str, **changed: Any) -> GoldenCase:
    return golden_services.mark_golden(**asked(run=run, name="third time lucky", must=MUST) | changed).object


def proposed(**settings: Any) -> PolicyProposal:
    return proposals_services.propose(**asked(title="other", document=policy(**settings), by=EVA)).object


def test_a_run_is_kept_with_what_was_decided_in_it_and_without_what_anybody_wrote(run: str) -> None:
    case = marked(run)
    assert [(one["operation"], one["ending"], one["attempts"]) for one in case.expected] == [
        ("search_web", "answered", 3)
    ]
    assert (case.instance, case.base_version) == ("r-0", "built-in")
    assert all("recovery.message" not in fact[-1] for fact in case.facts)
    assert marked(run).pk == case.pk


def test_a_proposal_shows_what_it_does_to_it_also_when_the_facts_are_gone(run: str) -> None:
    marked(run)
    Fact.objects.all().delete()
    [same] = results_of(proposed(call_deadline_s=600))
    assert same.is_same
    [other] = results_of(proposed(max_retries=1))
    assert re.match(CHANGED, other.difference)


def test_waiting_otherwise_is_a_difference_too(run: str) -> None:
    marked(run)
    [result] = results_of(proposed(base_delay_s=3))
    [then, now] = re.findall(r"([\d.]+) s\b", result.difference)
    assert then != now


def test_an_edit_is_tried_anew_and_what_is_known_is_not_tried_again(
    run: str, django_assert_max_num_queries: Any
) -> None:
    marked(run)
    made = proposed(max_retries=1)
    results_of(made)
    with django_assert_max_num_queries(2):
        results_of(made)
    proposals_services.revise(**asked(number=made.number, document=policy("other"), by=EVA))
    assert [one.is_same for one in results_of(PolicyProposal.objects.get())] == [True]
    assert GoldenResult.objects.count() == 2


def test_the_reviewer_says_that_a_change_is_meant(run: str) -> None:
    review.set_rules(**asked(by=person(Role.ADMIN), is_review_needed=True))
    marked(run)
    made = proposed(max_retries=1)
    act(proposals_services.submit, made)
    with pytest.raises(CommandRejected) as refused:
        act(proposals_services.approve, made, TOM)
    assert (refused.value.status, refused.value.code, set(refused.value.fields)) == (
        409,
        "golden_changes",
        {"accepts_golden"},
    )
    [changed] = results_of(PolicyProposal.objects.get())
    assert re.match(CHANGED, changed.difference)
    assert f"“third time lucky”: {changed.difference}"[:60] in refused.value.detail
    act(proposals_services.approve, made, TOM, accepts_golden=True)
    act(proposals_services.revise, made, document=policy(max_retries=0))
    act(proposals_services.submit, made)
    with pytest.raises(CommandRejected, match="golden_changes"):
        act(proposals_services.approve, made, TOM)
    act(proposals_services.approve, made, TOM, accepts_golden=True)
    assert act(proposals_services.release_proposal, made).version == 1


def test_a_run_that_became_golden_after_the_approval_is_asked_about_at_the_release(run: str) -> None:
    made = proposed(max_retries=1)
    act(proposals_services.submit, made)
    act(proposals_services.approve, made, TOM)
    marked(run)
    for ask in (proposals_services.release_proposal, rollouts.start_rollout):
        with pytest.raises(CommandRejected) as refused:
            act(ask, made)
        assert refused.value.code == "golden_changes"
    assert act(proposals_services.release_proposal, made, accepts_golden=True).version == 1


def test_what_is_let_go_is_asked_about_no_more(run: str) -> None:
    marked(run)
    golden_services.retire_golden(**asked(number=1))
    made = proposed(max_retries=1)
    assert results_of(made) == []
    assert act(proposals_services.release_proposal, made).version == 1
    assert marked(run).number == 2


@pytest.mark.parametrize(
    ("changed", "field"),
    [({"run": "nobody"}, "run"), ({"name": " "}, "name"), ({"must": "short"}, "must"), ({"run": "a\0b"}, "run")],
)
def test_what_cannot_be_golden_is_refused_by_its_field(run: str, changed: dict[str, Any], field: str) -> None:
    with pytest.raises(CommandRejected) as refused:
        marked(**({"run": run} | changed))
    assert field in refused.value.fields


def test_on_the_pages_from_the_run_to_the_approval(run: str) -> None:
    client = signed_in(Role.EDITOR)
    assert f"/runs/{run}/golden" in Shown(client.get(f"/runs/{run}")).links
    form = {"name": "third time lucky", "must": "short", "key": "k-1"}
    assert client.post(f"/runs/{run}/golden", form).status_code == 422
    assert "must" in Shown(client.get(f"/runs/{run}/golden")).fields
    answer = client.post(f"/runs/{run}/golden", form | {"must": MUST})
    assert answer.headers["Location"] == "/policies/golden/1"
    assert client.get("/policies/golden/1").context["difference"] == ""
    assert "third time lucky" in text_of(client.get("/policies/golden"))
    made = proposed(max_retries=1)
    page = client.get(f"/policies/proposals/{made.number}")
    [one] = page.context["golden"]
    assert (one.is_same, one.difference in text_of(page)) == (False, True)
    assert "accepts_golden" in Shown(page).fields
    sent = {"move": "release", "reason": MEANT, "seen": "1"}
    refused = client.post(f"/policies/proposals/{made.number}", sent)
    assert (refused.status_code, list(refused.context["form"].errors)) == (409, ["accepts_golden"])
    assert client.post(f"/policies/proposals/{made.number}", sent | {"accepts_golden": "yes"}).status_code == 303
    assert re.match(CHANGED, client.get("/policies/golden/1").context["difference"])
    assert client.post("/policies/golden/1", {"reason": MEANT}).status_code == 303
    assert not client.get("/policies/golden").context["kept"]
    assert signed_in(Role.VIEWER, "vera").post(f"/runs/{run}/golden", form).status_code == 403

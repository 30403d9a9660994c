"""The life of a proposal: who may do what to it, in which state, and what agents come to hear of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from recovery_ops.control.core.actors import Actor
from recovery_ops.control.core.audit_log import verify_chain
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.control.desired_state import document as desired
from recovery_ops.control.policies.models.policies import PolicyProposal, PolicyRelease, ProposalNote
from recovery_ops.control.policies.services import due, policies, releases
from recovery_ops.control.policies.services import proposals as proposals_services
from recovery_ops.control.policies.services import review as review_services
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person, written
from tests.support.proposals import EVA, TOM, act, policy, propose
from tests.support.sentences import left_out
from tests.support.stories import NOW

pytestmark = pytest.mark.usefixtures("known")


SOON = NOW + timedelta(hours=1)


def rejection(
    action: Callable[..., CommandResult[Any]], proposal: PolicyProposal, by: Actor = EVA, **more: Any
) -> CommandRejected:
    before = written()
    with pytest.raises(CommandRejected) as refused:
        act(action, proposal, by, **more)
    kinds = ("Revision", "PolicyRelease")
    assert {kind: written()[kind] for kind in kinds} == {kind: before[kind] for kind in kinds}
    return refused.value


def state(proposal: PolicyProposal) -> str:
    return PolicyProposal.objects.get(pk=proposal.pk).state


def approved(**changed: Any) -> PolicyProposal:
    made = propose(**changed)
    act(proposals_services.submit, made)
    act(proposals_services.approve, made, TOM)
    return made


@pytest.fixture
def reviewed(known: None) -> None:
    """`dev` asks for review."""
    review_services.set_rules(**asked(by=person(Role.ADMIN), is_review_needed=True))


def obeyed() -> Any:
    document = desired.document("dev", service="research", instance="r-0", now=NOW)
    return parse_policy(document["policy"]).rules


# -- the straight way --------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("reviewed")
def test_a_draft_goes_through_review_and_lives() -> None:
    made = propose()
    assert (made.number, made.state, made.base_version, made.step) == (1, "draft", "built-in", 1)
    act(proposals_services.submit, made, seen=1)
    assert state(made) == "in_review"
    act(proposals_services.approve, made, TOM, seen=2)
    assert (state(made), current_revision("dev"), obeyed()) == ("approved", 0, ())
    release = act(proposals_services.release_proposal, made, seen=3)
    assert (release.version, release.proposal.number, release.is_break_glass, current_revision("dev")) == (
        1,
        1,
        False,
        1,
    )
    assert [rule.settings.max_retries for rule in obeyed()] == [5]
    assert state(made) == "live"
    assert [note.verb for note in ProposalNote.objects.order_by("step")] == ["draft", "submit", "approve", "release"]
    assert verify_chain("dev").is_whole


def test_what_only_people_talk_about_is_no_revision_for_agents() -> None:
    made = propose()
    for action in (
        proposals_services.submit,
        proposals_services.comment,
        proposals_services.send_back,
        proposals_services.reject,
    ):
        act(action, made)
    assert current_revision("dev") == 0
    assert set(AuditEntry.objects.values_list("revision", flat=True)) == {None}
    assert verify_chain("dev").is_whole


def test_a_new_release_supersedes_and_a_rollback_rolls_back() -> None:
    first = propose()
    act(proposals_services.release_proposal, first)
    second = propose(policy(max_retries=1))
    act(proposals_services.release_proposal, second)
    assert (state(first), state(second)) == ("superseded", "live")
    done = releases.roll_back(**asked(version=1))
    assert (done.object.version, done.object.returns_to, done.revision) == (3, 1, 3)
    assert [rule.settings.max_retries for rule in obeyed()] == [5]
    assert state(second) == "rolled_back"
    again = releases.roll_back(**asked(version=1))
    assert (again.was_already, PolicyRelease.objects.count()) == (True, 3)


def test_the_built_in_policy_is_a_place_to_return_to() -> None:
    act(proposals_services.release_proposal, propose())
    releases.roll_back(**asked(version=0))
    assert obeyed() == ()


def test_a_rollback_to_what_never_was_is_404_and_a_late_one_409() -> None:
    act(proposals_services.release_proposal, propose())
    with pytest.raises(CommandRejected) as unknown:
        releases.roll_back(**asked(version=7))
    assert unknown.value.status == 404
    with pytest.raises(CommandRejected) as late:
        releases.roll_back(**asked(version=0, seen=0))
    assert late.value.status == 409
    assert [(one.actor_name, one.verb) for one in late.value.changes] == [("eva", "policy.release")]


# -- approval ----------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("reviewed")
@pytest.mark.parametrize("before", ["draft", "in_review"])
def test_without_approval_nothing_goes_live_where_review_is_asked_for(before: str) -> None:
    made = propose()
    if before == "in_review":
        act(proposals_services.submit, made)
    assert rejection(proposals_services.release_proposal, made).code == "review_needed"
    assert rejection(proposals_services.schedule, made, go_live_at=SOON).code == "review_needed"


@pytest.mark.usefixtures("reviewed")
def test_nobody_approves_their_own_nor_what_they_edited() -> None:
    mine = propose(by=TOM)
    act(proposals_services.submit, mine, TOM)
    assert rejection(proposals_services.approve, mine, TOM).code == "own_work"
    made = propose()
    act(proposals_services.revise, made, TOM, document=policy(max_retries=2))
    act(proposals_services.submit, made)
    assert rejection(proposals_services.approve, made, TOM).code == "own_work"
    act(proposals_services.approve, made, person(Role.APPROVER, "uma"))
    assert state(made) == "approved"


@pytest.mark.usefixtures("reviewed")
@pytest.mark.parametrize("is_scheduled", [False, True])
def test_an_edit_voids_the_approval_and_the_date(is_scheduled: bool) -> None:
    made = approved()
    if is_scheduled:
        act(proposals_services.schedule, made, go_live_at=SOON)
    found = act(proposals_services.revise, made, document=policy(max_retries=2))
    assert (found.state, found.approved_by, found.approved_at, found.go_live_at) == ("draft", "", None, None)
    assert found.edition == 2
    assert rejection(proposals_services.release_proposal, made).code == "review_needed"


@pytest.mark.usefixtures("reviewed")
def test_saving_the_same_again_voids_nothing() -> None:
    made = approved()
    done = proposals_services.revise(**asked(by=EVA, number=made.number, document=policy()))
    assert (done.was_already, state(made)) == (True, "approved")


@pytest.mark.usefixtures("reviewed")
def test_a_quick_edit_waits_for_review_too() -> None:
    edit = asked(operation="search_web", settings={"max_retries": 5})
    with pytest.raises(CommandRejected) as refused:
        policies.set_operation_policy(**edit)
    assert (refused.value.status, refused.value.code) == (403, "review_needed")
    with pytest.raises(CommandRejected) as forbidden:
        policies.set_operation_policy(**edit, break_glass=True)
    assert forbidden.value.code == "forbidden"
    assert not PolicyRelease.objects.exists()


def test_production_asks_for_review_without_being_told_to() -> None:
    assert review_services.is_review_needed("production")
    assert not review_services.is_review_needed("dev")


@pytest.mark.usefixtures("reviewed")
def test_only_an_admin_says_whether_review_is_needed() -> None:
    with pytest.raises(CommandRejected):
        review_services.set_rules(**asked(by=TOM, is_review_needed=False))
    assert review_services.is_review_needed("dev")
    review_services.set_rules(**asked(by=person(Role.ADMIN), is_review_needed=False))
    assert not review_services.is_review_needed("dev")
    entry = AuditEntry.objects.latest("number")
    assert (entry.before, entry.after) == ({"is_review_needed": True}, {"is_review_needed": False})


# -- broken glass ------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("reviewed")
def test_broken_glass_is_recorded_and_listed_until_somebody_else_looked() -> None:
    made = propose()
    release = act(proposals_services.release_proposal, made, break_glass=True)
    assert release.is_break_glass
    assert review_services.awaiting_review("dev") == [release]
    assert AuditEntry.objects.latest("number").after["is_break_glass"] is True
    eva_approver = person(Role.APPROVER, "eva")
    with pytest.raises(CommandRejected) as own:
        review_services.review_release(**asked(by=eva_approver, version=1))
    assert own.value.code == "own_work"
    review_services.review_release(**asked(by=TOM, version=1))
    assert review_services.awaiting_review("dev") == []
    assert verify_chain("dev").is_whole


def test_where_no_review_is_asked_for_there_is_no_glass() -> None:
    assert not act(proposals_services.release_proposal, propose(), break_glass=True).is_break_glass
    with pytest.raises(CommandRejected) as refused:
        review_services.review_release(**asked(by=TOM, version=1))
    assert refused.value.code == "nothing_to_review"


# -- the hour ----------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("reviewed")
def test_what_is_scheduled_goes_live_at_its_hour_once() -> None:
    made = approved()
    act(proposals_services.schedule, made, go_live_at=SOON)
    assert due.release_due(now=SOON - timedelta(seconds=1)) == []
    [release] = due.release_due(now=SOON)
    assert (release.version, release.by, state(made)) == (1, "schedule", "live")
    assert due.release_due(now=SOON) == []


def test_what_cannot_go_live_at_its_hour_is_a_draft_again_and_says_why() -> None:
    made, other = propose(), propose(policy(max_retries=1))
    act(proposals_services.schedule, made, go_live_at=SOON)
    act(proposals_services.release_proposal, other)
    assert due.release_due(now=SOON) == []
    assert state(made) == "draft"
    note = made.notes.latest("step")
    assert (note.by, note.verb) == ("schedule", "return")
    assert left_out(note.text, "built-in", "1") == [], "from which policy it was made, and which is live"


def test_a_date_is_to_come() -> None:
    gone = rejection(proposals_services.schedule, propose(), go_live_at=NOW)
    far = rejection(proposals_services.schedule, propose(), go_live_at=NOW + timedelta(days=30, seconds=1))
    assert list(gone.fields) == list(far.fields) == ["go_live_at"]
    assert ["30 days" in one.fields["go_live_at"] for one in (gone, far)] == [False, True]


@pytest.mark.parametrize(
    ("document", "path", "named"),
    [
        ({"schema_version": 99}, "schema_version", "99"),
        ({"rules": [{}, {"id": "r" * 201}]}, "rules[1].id", "201"),
    ],
)
def test_a_document_of_another_version_or_with_endless_names_is_no_proposal(
    document: dict[str, Any], path: str, named: str
) -> None:
    with pytest.raises(CommandRejected) as refused:
        propose(document=document)
    assert list(refused.value.fields) == [path]
    assert named in refused.value.fields[path]


# -- two at once -------------------------------------------------------------------------------------------------------
def test_who_looked_at_an_older_step_is_told_what_happened() -> None:
    made = propose()
    asked_for = "please have a look at it"
    act(proposals_services.submit, made, reason=asked_for)
    refused = rejection(proposals_services.revise, made, seen=1, document=policy(max_retries=1))
    assert (refused.status, refused.code) == (409, "stale")
    assert all(word in refused.detail for word in ("eva", "submit", f"“{asked_for}”"))
    act(proposals_services.comment, made, seen=1)


def test_a_proposal_made_from_an_older_policy_is_compared_before_it_replaces_a_newer_one() -> None:
    made = propose()
    policies.set_operation_policy(**asked(operation="search_web", settings={"jitter": 1}))
    refused = rejection(proposals_services.release_proposal, made)
    assert (refused.status, refused.code, refused.changes[0].verb) == (409, "other_base", "policy.edit")
    act(proposals_services.revise, made, document=policy(jitter=1, max_retries=5), is_onto_live=True)
    assert act(proposals_services.release_proposal, made).version == 2


def test_a_quick_edit_is_not_lost_in_a_whole_release() -> None:
    act(proposals_services.release_proposal, propose())
    with pytest.raises(CommandRejected) as refused:
        policies.set_operation_policy(**asked(operation="search_web", settings={"jitter": 1}, seen=0))
    assert (refused.value.status, refused.value.changes[0].verb) == (409, "policy.release")


@pytest.mark.parametrize(
    ("ended", "action"),
    [
        ("reject", proposals_services.submit),
        ("reject", proposals_services.release_proposal),
        ("release", proposals_services.submit),
        ("release", proposals_services.reject),
        ("draft", proposals_services.approve),
    ],
)
def test_what_is_not_for_a_state_is_refused(ended: str, action: Callable[..., CommandResult[Any]]) -> None:
    made = propose()
    if ended != "draft":
        act(proposals_services.reject if ended == "reject" else proposals_services.release_proposal, made)
    assert rejection(action, made, TOM).code == "wrong_state"


def test_a_proposal_that_is_not_there_is_404() -> None:
    with pytest.raises(CommandRejected) as refused:
        proposals_services.submit(**asked(number=9))
    assert refused.value.status == 404
    with pytest.raises(CommandRejected) as forbidden:
        proposals_services.submit(**asked(number=9, by=person(Role.VIEWER)))
    assert forbidden.value.status == 403


# -- what a document may be --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("document", "named"),
    [
        ([], {"document": "JSON"}),
        ({"rules": [{"settings": {"max_retries": 21}}]}, {"rules[0].settings.max_retries": "20"}),
        ({"rules": 1, "foreground_sources": 2}, {"rules": "list", "foreground_sources": "list"}),
        ({"requires": ["magic"]}, {"requires": "magic"}),
        ({"note": "a\0b"}, {"note": "characters"}),
        ({"note": float("inf")}, {"note": "number"}),
        ({"note": "x" * 300_000}, {"document": "300,012"}),
    ],
)
def test_every_fault_of_a_document_is_told_by_its_path(document: Any, named: dict[str, str]) -> None:
    with pytest.raises(CommandRejected) as refused:
        propose(document)
    assert (refused.value.status, refused.value.fields.keys()) == (400, named.keys())
    assert all(word in refused.value.fields[path] for path, word in named.items())
    assert not PolicyProposal.objects.exists()


def test_a_document_that_is_nested_beyond_reading_is_refused() -> None:
    deep = json.loads("[" * 40 + "]" * 40)
    with pytest.raises(CommandRejected) as refused:
        propose({"note": deep})
    assert refused.value.status == 400


def test_the_version_comes_from_the_release_alone() -> None:
    act(proposals_services.release_proposal, propose({**policy(), "version": "99"}))
    assert desired.document("dev", now=NOW)["policy"]["version"] == "1"


def test_the_same_click_twice_is_one_proposal() -> None:
    first, second = propose(key="one click"), propose(key="one click")
    assert (first.pk, PolicyProposal.objects.count()) == (second.pk, 1)


def test_a_dry_run_writes_nothing() -> None:
    made = propose()
    before = written() | {"notes": ProposalNote.objects.count()}
    done = proposals_services.release_proposal(**asked(by=EVA, number=made.number, dry_run=True))
    assert (done.is_dry_run, done.object.version) == (True, 1)
    assert written() | {"notes": ProposalNote.objects.count()} == before
    assert state(made) == "draft"

"""A proposal for some instances first: who obeys what, what the gate makes of what they count, and how it ends."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest
from django.conf import settings
from django.db import connections

from events.queries import fleet
from recovery_ops.celery import app
from recovery_ops.control.breakers.services.load_shedding import shed
from recovery_ops.control.core.audit_log import verify_chain
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.control.desired_state import document as desired
from recovery_ops.control.policies.models.policies import PolicyProposal, PolicyRelease
from recovery_ops.control.policies.models.rollouts import PolicyRollout
from recovery_ops.control.policies.rollout_evidence import split
from recovery_ops.control.policies.services import due, policies, releases, review, rollouts
from recovery_ops.control.policies.services import proposals as proposals_services
from recovery_ops.control.tasks import keep_policy_rollouts
from recovery_ops.rules.events import DesiredStateRejected
from recovery_ops.rules.fleet.canary_cohort import limit_for
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person
from tests.support.proposals import TOM, act, policy, propose
from tests.support.sentences import left_out
from tests.support.stories import NOW, Story, ago, counted, heartbeat

pytestmark = pytest.mark.django_db

FLEET = [f"r-{number}" for number in range(10)]
STARTED = ago(1200)
"""Rollouts of these tests begin then, for ten minutes."""


@pytest.fixture(autouse=True)
def ten_instances(db: None) -> None:
    story = Story()
    for instance in FLEET:
        story.tell(heartbeat(), counted(6), at=1300, instance=instance)
        story.tell(heartbeat(), at=5, instance=instance)
    story.store()


def rolled_out(**said: Any) -> PolicyRollout:
    """Proposal 1 goes to two of ten instances."""
    made = propose(now=STARTED)
    given: dict[str, Any] = {"number": made.number, "share": 0.2, "for_s": 600, "now": STARTED, "by": person()}
    return rollouts.start_rollout(**asked(**given | said)).object


def members(rollout: PolicyRollout) -> list[str]:
    return [one.instance for one in split(rollout, fleet("dev", now=NOW))[0]]


def counts(
    rollout: PolicyRollout, *, failing: int = 0, others_failing: int = 0, calls: int = 100, at: float = 700
) -> None:
    """Each instance counts so many calls, of which so many fail."""
    story, inside = Story(), set(members(rollout))
    for instance in FLEET:
        is_in = instance in inside
        failures = {"overloaded": failing if is_in else others_failing}
        version = rollout.version if is_in else "built-in"
        story.tell(counted(calls, failures=failures), at=at, instance=instance, policy_version=version)
    story.store()


def told(instance: str) -> tuple[str, list[int | None]]:
    """The version an instance is told to obey, and what its rules say."""
    document = desired.document("dev", service="research", instance=instance, now=NOW)
    return document["policy"]["version"], [rule["settings"].get("max_retries") for rule in document["policy"]["rules"]]


def state() -> str:
    return PolicyProposal.objects.get().state


# -- who obeys what ----------------------------------------------------------------------------------------------------
def test_the_cohort_is_told_the_new_policy_and_everybody_else_the_live_one() -> None:
    rollout = rolled_out()
    inside = members(rollout)
    assert len(inside) == 2
    for instance in FLEET:
        assert told(instance) == (("canary-1", [5]) if instance in inside else ("built-in", []))
    assert desired.document("dev", now=NOW)["policy"]["version"] == "built-in"
    assert (state(), current_revision("dev"), PolicyRelease.objects.count()) == ("rolling_out", 1, 0)


def test_within_a_revision_each_side_has_one_hash_and_obeying_it_is_no_drift() -> None:
    rollout = rolled_out()
    inside, story = members(rollout), Story()
    for instance in FLEET:
        found = desired.document("dev", service="research", instance=instance, now=NOW)
        wrong = "0" * 64 if instance == FLEET[0] else found["config_hash"]
        story.tell(heartbeat(revision=1, config_hash=wrong), at=4, instance=instance)
    story.store()
    assert (
        len({desired.document("dev", service="research", instance=one, now=NOW)["config_hash"] for one in FLEET}) == 2
    )
    status = desired.apply_status("dev", 1, Scope(), now=NOW)
    assert [row.instance for row in status.drifted] == [FLEET[0]]
    assert len(status.applied) == 9
    assert len(inside) == 2


def test_revisions_only_rise_through_a_whole_rollout() -> None:
    rollout = rolled_out()
    revisions = [current_revision("dev")]
    rollouts.extend_rollout(**asked(number=1, for_s=60, now=STARTED))
    revisions.append(current_revision("dev"))
    rollouts.take_back(**asked(number=1))
    revisions.append(current_revision("dev"))
    assert (revisions, told(members(rollout)[0])) == ([1, 1, 2], ("built-in", []))


def test_rollout_counts_reachable_instances_of_its_service() -> None:
    story = Story().tell(counted(6), at=5, instance="plain")
    for number in range(10):
        story.tell(heartbeat(), at=1300, instance=f"gone-{number}")
        story.tell(heartbeat(), at=5, instance=f"b-{number}", service="billing")
    story.store()
    left = propose()
    rollout = rolled_out(number=propose(now=STARTED).number, service="research", share=0.5, least_calls=7, now=NOW)
    assert rollout.limit == limit_for(f"dev/{left.number + 1}", 0.5, [("research", one) for one in FLEET])
    assert (rollout.number, rollout.proposal.number, rollout.base_version) == (1, 2, left.base_version)
    assert (rollout.share, rollout.least_calls, rollout.is_break_glass) == (0.5, 7, False)
    rollouts.take_back(**asked(number=1))
    assert rolled_out(now=NOW).number == 2


def test_a_service_and_a_group_narrow_the_cohort() -> None:
    Story().tell(heartbeat(), at=5, instance="b-0", service="billing").store()
    rollout = rolled_out(service="billing", share=1.0)
    assert members(rollout) == ["b-0"]
    assert told("r-0")[0] == "built-in"


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"share": 0}, "share"),
        ({"share": 1.5}, "share"),
        ({"share": float("nan")}, "share"),
        ({"for_s": 5}, "for_s"),
        ({"for_s": float("inf")}, "for_s"),
        ({"least_calls": 0}, "least_calls"),
        ({"service": "nobody"}, "service"),
    ],
)
def test_what_makes_no_rollout_is_refused_by_its_field(said: dict[str, Any], field: str) -> None:
    with pytest.raises(CommandRejected) as refused:
        rolled_out(**said)
    assert (field in refused.value.fields, current_revision("dev")) == (True, 0)


# -- the gate ----------------------------------------------------------------------------------------------------------
def test_what_is_well_is_promoted_when_its_time_is_over_and_not_before() -> None:
    rollout = rolled_out()
    counts(rollout, failing=2, others_failing=2)
    assert due.keep_rollouts(now=ago(601)) == []
    rollout.refresh_from_db()
    assert (rollout.health, rollout.figures["cohort"]["calls"], rollout.figures["other"]["calls"]) == ("go", 200, 800)
    [ended] = due.keep_rollouts(now=ago(600))
    rollout.refresh_from_db()
    release = PolicyRelease.objects.get()
    assert (ended.pk, rollout.state, rollout.ended_by, state()) == (rollout.pk, "promoted", "health gate", "live")
    assert (release.version, release.proposal_id, release.revision, current_revision("dev")) == (
        1,
        rollout.proposal_id,
        2,
        2,
    )
    assert [told(instance)[0] for instance in FLEET] == ["1"] * 10
    assert rollout.figures["cohort"]["rates"]["failures"] == rollout.figures["other"]["rates"]["failures"] == 0.02
    assert left_out(rollout.end_reason, "2.0") == []
    assert due.keep_rollouts(now=NOW) == []
    assert verify_chain("dev").is_whole


def test_what_is_worse_is_taken_back_at_once_and_says_why() -> None:
    rollout = rolled_out()
    counts(rollout, failing=40, others_failing=2)
    [_] = due.keep_rollouts(now=ago(690))
    rollout.refresh_from_db()
    assert (rollout.state, state(), PolicyRelease.objects.count()) == ("rolled_back", "rolled_back", 0)
    assert left_out(rollout.end_reason, "search_web", "40.0", "2.0") == []
    assert [told(instance)[0] for instance in FLEET] == ["built-in"] * 10
    entry = AuditEntry.objects.latest("number")
    assert (entry.verb, entry.actor_kind, entry.reason) == ("rollout.take_back", "system", rollout.end_reason)
    assert (entry.before["state"], entry.after["state"]) == ("running", "rolled_back")
    assert "take-back" in PolicyProposal.objects.get().notes.values_list("verb", flat=True)


def test_what_an_instance_counted_under_the_old_policy_is_not_held_against_the_new_one() -> None:
    rollout = rolled_out()
    story = Story()
    for instance in members(rollout):
        story.tell(counted(500, failures={"overloaded": 500}), at=1190, instance=instance, policy_version="built-in")
    story.store()
    counts(rollout)
    assert due.keep_rollouts(now=ago(650)) == []


def test_without_evidence_it_waits_and_is_taken_back_at_twice_its_time() -> None:
    rollout = rolled_out()
    counts(rollout, calls=3)
    assert due.keep_rollouts(now=ago(10)) == []
    rollout.refresh_from_db()
    assert (rollout.state, rollout.health) == ("running", "wait")
    [_] = due.keep_rollouts(now=NOW)
    rollout.refresh_from_db()
    assert (rollout.state, rollout.figures["cohort"]["calls"]) == ("rolled_back", 6)
    assert left_out(rollout.end_reason, "6", "50") == []


def test_an_instance_that_refuses_the_policy_ends_it() -> None:
    rollout = rolled_out()
    rejection = DesiredStateRejected(revision=1, config_hash="0", reason="not known here", kept_revision=0)
    Story().tell(rejection, at=1100, instance=members(rollout)[0]).store()
    [_] = due.keep_rollouts(now=ago(1000))
    rollout.refresh_from_db()
    cohort = rollout.figures["cohort"]
    assert (rollout.state, cohort["refused"], cohort["instances"]) == ("rolled_back", 1, 2)
    assert left_out(rollout.end_reason, "1", "2") == []


def test_rejection_of_earlier_revision_does_not_end_it() -> None:
    rollout = rolled_out()
    rejection = DesiredStateRejected(
        revision=rollout.revision - 1, config_hash="0", reason="not known here", kept_revision=0
    )
    Story().tell(rejection, at=1100, instance=members(rollout)[0]).store()
    assert due.keep_rollouts(now=ago(1000)) == []


def test_a_whole_fleet_is_compared_with_itself_before() -> None:
    rollout = rolled_out(share=1.0)
    story = Story()
    for instance in FLEET:
        story.tell(counted(100), at=1250, instance=instance, policy_version="built-in")
    story.store()
    counts(rollout, failing=30)
    [_] = due.keep_rollouts(now=ago(690))
    rollout.refresh_from_db()
    assert rollout.state == "rolled_back"
    assert left_out(rollout.end_reason, "search_web", "30.0", "0.0") == []


# -- by hand -----------------------------------------------------------------------------------------------------------
def test_people_promote_and_take_back_before_the_gate_does() -> None:
    rolled_out()
    done = rollouts.promote(**asked(number=1, seen=1, key="one click"))
    again = rollouts.promote(**asked(number=1, seen=1, key="one click"))
    assert (done.object.version, again.object.pk, again.was_already) == (1, done.object.pk, True)
    with pytest.raises(CommandRejected) as late:
        rollouts.take_back(**asked(number=1))
    assert (late.value.status, late.value.code, PolicyRollout.objects.get().state) == (409, "wrong_state", "promoted")
    assert left_out(late.value.detail, "1", "ana") == []


def test_a_prolonged_rollout_is_decided_later() -> None:
    rollout = rolled_out()
    counts(rollout)
    rollouts.extend_rollout(**asked(number=1, for_s=300, now=ago(700)))
    assert due.keep_rollouts(now=ago(301)) == []
    [_] = due.keep_rollouts(now=ago(300))
    assert state() == "live"


def test_who_saw_it_before_it_was_prolonged_looks_again() -> None:
    rolled_out()
    rollouts.extend_rollout(**asked(number=1, for_s=300, now=STARTED))
    with pytest.raises(CommandRejected) as stale:
        rollouts.promote(**asked(number=1, seen=1))
    assert (stale.value.status, stale.value.code) == (409, "stale")


def test_a_dry_run_changes_nothing() -> None:
    rolled_out(dry_run=True)
    assert (PolicyRollout.objects.count(), current_revision("dev"), state()) == (0, 0, "draft")


@pytest.mark.parametrize("action", [rollouts.promote, rollouts.take_back])
def test_who_may_not_is_refused(action: Any) -> None:
    rolled_out()
    with pytest.raises(CommandRejected) as refused:
        action(**asked(number=1, by=person(Role.RESPONDER)))
    assert refused.value.status == 403


# -- what else goes live meanwhile -------------------------------------------------------------------------------------
def test_nothing_else_goes_live_meanwhile_and_shedding_load_does_not_disturb_it() -> None:
    rolled_out()
    other = proposals_services.propose(**asked(title="other", document=policy(max_retries=1))).object
    for ask in (
        lambda: proposals_services.release_proposal(**asked(number=other.number)),
        lambda: rollouts.start_rollout(**asked(number=other.number)),
        lambda: policies.set_operation_policy(**asked(operation="search_web", settings={"jitter": 1})),
    ):
        with pytest.raises(CommandRejected) as refused:
            ask()
        assert (refused.value.status, refused.value.code) == (409, "rolling_out")
    before = {told(instance)[0] for instance in FLEET}
    shed(**asked(confirm="dev"))
    assert PolicyRollout.objects.get().state == "running"
    assert {told(instance)[0] for instance in FLEET} == before


def test_a_rollback_to_an_earlier_release_ends_it_too() -> None:
    act(proposals_services.release_proposal, propose(policy(max_retries=2)))
    later = proposals_services.propose(**asked(title="other", document=policy(max_retries=1))).object
    rollouts.start_rollout(**asked(number=later.number, now=STARTED))
    with pytest.raises(CommandRejected) as refused:
        releases.roll_back(**asked(version=1))
    assert refused.value.code == "rolling_out"
    releases.roll_back(**asked(version=0))
    assert PolicyRollout.objects.get().state == "rolled_back"
    assert {told(instance)[0] for instance in FLEET} == {"2"}


def test_without_approval_nothing_is_rolled_out_where_review_is_asked_for() -> None:
    review.set_rules(**asked(by=person(Role.ADMIN), is_review_needed=True))
    with pytest.raises(CommandRejected) as refused:
        rolled_out()
    assert refused.value.code == "review_needed"
    made = PolicyProposal.objects.get()
    act(proposals_services.submit, made)
    act(proposals_services.approve, made, TOM)
    assert rollouts.start_rollout(**asked(number=made.number)).object.is_break_glass is False


def test_scheduled_without_approval_is_refused_under_review() -> None:
    made = propose(now=STARTED)
    act(proposals_services.schedule, made, go_live_at=NOW, now=STARTED)
    review.set_rules(**asked(by=person(Role.ADMIN), is_review_needed=True))
    with pytest.raises(CommandRejected) as refused:
        rollouts.start_rollout(**asked(number=made.number, now=STARTED))
    assert (refused.value.code, state(), PolicyRollout.objects.count()) == ("review_needed", "scheduled", 0)


# -- tasks -------------------------------------------------------------------------------------------------------------
@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """The clock of the worker."""
    hand = [ago(700)]
    monkeypatch.setattr("recovery_ops.control.tasks.timezone.now", lambda: hand[0])
    return hand


def test_the_worker_looks_and_a_restart_in_between_loses_nothing(clock: list[datetime]) -> None:
    rollout = rolled_out()
    counts(rollout, at=750)
    assert keep_policy_rollouts() == 0
    clock[0] = ago(90)  # the worker was away when its time ended: nothing but tables drives it
    assert (keep_policy_rollouts(), keep_policy_rollouts()) == (1, 0)
    assert PolicyRollout.objects.get().ended_at == ago(90)
    assert state() == "live"


def test_the_scheduler_asks_for_it() -> None:
    app.loader.import_default_modules()
    [entry] = [one for one in settings.CELERY_BEAT_SCHEDULE.values() if one["task"] == keep_policy_rollouts.name]
    assert entry["schedule"] <= 10.0
    assert entry["task"] in app.tasks


@pytest.mark.django_db(transaction=True)
def test_two_tasks_at_once_end_it_once() -> None:
    rollout = rolled_out()
    counts(rollout)

    def keep(_: int) -> int:
        try:
            return len(due.keep_rollouts(now=ago(600)))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(keep, range(2))) == 1
    assert (PolicyRelease.objects.count(), current_revision("dev"), state()) == (1, 2, "live")
    assert verify_chain("dev").is_whole


# -- at its hour -------------------------------------------------------------------------------------------------------
def test_what_is_scheduled_for_some_goes_to_them_at_its_hour_once() -> None:
    made = propose(now=STARTED)
    cohort = {"share": 0.2, "for_s": 600.0}
    act(proposals_services.schedule, made, go_live_at=NOW, cohort=cohort, now=STARTED)
    made.refresh_from_db()
    assert made.cohort == {"share": 0.2, "for_s": 600.0, "service": "*", "group": "*", "least_calls": 50}
    assert due.release_due(now=ago(1)) == []
    [rollout] = due.release_due(now=NOW)
    assert isinstance(rollout, PolicyRollout)
    assert (rollout.by, rollout.share, len(members(rollout))) == ("schedule", 0.2, 2)
    assert due.release_due(now=NOW) == []
    assert not PolicyRelease.objects.exists()


def test_who_nobody_is_in_makes_it_a_draft_again_that_says_why() -> None:
    made = propose(now=STARTED)
    act(proposals_services.schedule, made, go_live_at=NOW, cohort={"service": "nobody"}, now=STARTED)
    assert due.release_due(now=NOW) == []
    made.refresh_from_db()
    assert (made.state, made.go_live_at, made.cohort) == ("draft", None, None)
    note = made.notes.latest("step")
    assert (note.verb, note.by, "dev" in note.text) == ("return", "schedule", True)


@pytest.mark.parametrize(
    ("cohort", "field"),
    [({"share": 0}, "share"), ({"share": 1.5}, "share"), ({"for_s": 1}, "for_s"), ({"least_calls": 0}, "least_calls")],
)
def test_a_cohort_that_is_none_is_refused_when_it_is_scheduled(cohort: dict[str, Any], field: str) -> None:
    made = propose(now=STARTED)
    with pytest.raises(CommandRejected) as refused:
        act(proposals_services.schedule, made, go_live_at=NOW, cohort=cohort, now=STARTED)
    assert set(refused.value.fields) == {field}

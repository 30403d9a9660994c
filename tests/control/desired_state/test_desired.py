"""The document each instance is offered, and where each instance stands against it."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import pytest

from recovery_ops import wire
from recovery_ops.control.breakers.models.overrides import Override, Reset
from recovery_ops.control.desired_state import document as desired
from recovery_ops.control.desired_state.document import ApplySummary, Canary, Who, apply_status
from recovery_ops.control.policies.services import policies
from recovery_ops.rules.desired_state import Answer
from recovery_ops.rules.desired_state import Override as DesiredOverride
from recovery_ops.rules.enums import State
from recovery_ops.rules.events import DesiredStateApplied, DesiredStateRejected
from recovery_ops.rules.fleet.canary_cohort import WHOLE, Cohort
from recovery_ops.rules.policy.model import BUILT_IN, document_of
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.roles import Role
from tests.support.actions import SEARCH, asked, person, small_fleet, trip
from tests.support.stories import NOW, Story, failed, heartbeat

pytestmark = pytest.mark.django_db

EVERYWHERE = Scope()


def offered(**who: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"service": "research", "instance": "r-1", "group": "", "now": NOW}
    return desired.document("dev", **usual | who)


def test_before_any_change_the_built_in_policy_is_offered() -> None:
    document = offered()
    assert document["revision"] == 0
    assert document["policy"] == document_of(BUILT_IN) | {"version": "built-in"}
    assert (document["overrides"], document["resets"]) == ([], [])
    assert wire.parse_desired(document).policy == BUILT_IN


@pytest.mark.parametrize(
    ("scope", "who", "is_told"),
    [
        (Scope(), {}, True),
        (Scope(service="research"), {}, True),
        (Scope(service="billing"), {}, False),
        (Scope(service="res*"), {}, True),
        (Scope(instance="r-1"), {}, True),
        (Scope(instance="r-2"), {}, False),
        (Scope(group="canary"), {}, False),
        (Scope(group="canary"), {"group": "canary"}, True),
        (Scope(group="canary"), {"group": None}, True),
        (Scope(service="billing", instance="b-1"), {"service": None, "instance": None, "group": None}, True),
        (Scope(service="billing"), {"instance": None}, False),
    ],
)
def test_only_what_concerns_an_instance_is_offered_to_it(scope: Scope, who: dict[str, Any], is_told: bool) -> None:
    trip(scope=scope, ahead=True)
    # Nobody reported anything here, so no action would reset it.
    Reset.objects.create(environment="dev", **asdict(scope), reason="for the test", by="ana", at=NOW, revision=1)
    document = offered(**who)
    assert (len(document["overrides"]), len(document["resets"])) == ((1, 1) if is_told else (0, 0))
    assert document["revision"] == 1


def test_other_environments_are_none_of_its_business() -> None:
    trip(environment="prod", by=person(environment="prod"), ahead=True)
    assert offered()["revision"] == 0
    assert desired.document("prod", now=NOW)["revision"] == 1


def test_within_one_revision_time_changes_nothing_but_the_date() -> None:
    trip(ahead=True, expires_in_s=60)
    now, later = offered(), offered(now=NOW + timedelta(days=60))
    assert now["config_hash"] == later["config_hash"]
    assert now | {"issued_at": 0} == later | {"issued_at": 0}
    assert later["issued_at"] - now["issued_at"] == 60 * 24 * 3600


def test_should_nobody_note_the_end_an_old_override_still_leaves_the_document() -> None:
    trip(ahead=True, expires_in_s=60)
    trip(scope=Scope(operation="other"), ahead=True, now=NOW + timedelta(days=2))
    assert [one["scope"] for one in offered()["overrides"]] == [{"operation": "other"}]
    assert Override.objects.live("dev").count() == 2


# -- where instances stand --------------------------------------------------------------------------------------------


@pytest.fixture
def two_revisions() -> None:
    """Revision 1 is a trip, revision 2 an edit of the policy."""
    trip(ahead=True)
    policies.set_operation_policy(
        **asked(by=person(Role.EDITOR), operation="search_web", settings={"max_retries": 5}, ahead=True)
    )


def hash_for(instance: str) -> str:
    return str(offered(instance=instance)["config_hash"])


def summary(revision: int, scope: Scope = EVERYWHERE) -> ApplySummary:
    return apply_status("dev", revision, scope, now=NOW)


def names(summary: ApplySummary) -> dict[str, list[str]]:
    return {status.value: [row.instance for row in rows] for status, rows in summary.by_status.items() if rows}


@pytest.mark.usefixtures("two_revisions")
def test_each_instance_stands_in_one_list_by_name() -> None:
    story = Story()
    for name, revision, config_hash in (("done", 2, hash_for("done")), ("late", 1, "x"), ("new", 0, "")):
        story.tell(heartbeat(revision=revision, config_hash=config_hash), at=5, instance=name)
    story.tell(heartbeat(revision=2, config_hash=hash_for("silent")), at=50, instance="silent")
    story.tell(heartbeat(revision=2, config_hash="something else"), at=5, instance="other contents")
    story.tell(heartbeat(revision=7, config_hash="x"), at=5, instance="from the future")
    story.tell(heartbeat(revision=2), at=5, instance="tells no hash")
    story.tell(DesiredStateRejected(revision=2, config_hash="x", reason="no such setting", kept_revision=1), at=9)
    story.tell(heartbeat(revision=1), at=5).tell(heartbeat("stopped", revision=2), at=5, instance="stopped").store()
    assert names(summary(2)) == {
        "applied": ["done", "tells no hash"],
        "pending": ["late", "new"],
        "failed": ["a-1"],
        "unreachable": ["silent"],
        "drifted": ["from the future", "other contents"],
    }
    assert names(summary(1))["applied"] == ["done", "late", "tells no hash"]
    assert summary(2).total == 8


@pytest.mark.usefixtures("two_revisions")
def test_a_refusal_is_over_once_something_newer_was_applied() -> None:
    refused = DesiredStateRejected(revision=1, config_hash="x", reason="no", kept_revision=0)
    applied = DesiredStateApplied(revision=2, config_hash=hash_for("a-1"))
    Story().tell(refused, at=9).tell(applied, at=5).store()
    assert names(summary(2)) == names(summary(1)) == {"applied": ["a-1"]}


@pytest.mark.usefixtures("two_revisions")
def test_the_hash_is_of_what_was_offered_to_that_instance() -> None:
    trip(scope=Scope(operation="search_web", instance="special"), ahead=True)
    assert hash_for("special") != hash_for("usual")
    story = Story()
    for name, config_hash in (
        ("special", hash_for("special")),
        ("usual", hash_for("usual")),
        ("wrong", hash_for("special")),
    ):
        story.tell(heartbeat(revision=3, config_hash=config_hash), at=5, instance=name)
    story.store()
    assert names(summary(3)) == {"applied": ["special", "usual"], "drifted": ["wrong"]}


@pytest.mark.usefixtures("two_revisions")
def test_a_scope_counts_only_whom_it_reaches() -> None:
    Story().tell(heartbeat(), at=5, instance="r-1").tell(heartbeat(), at=5, instance="b-1", service="billing").store()
    assert names(summary(2, Scope(operation="search_web", service="billing"))) == {"pending": ["b-1"]}
    assert names(summary(2, SEARCH)) == {"pending": ["b-1", "r-1"]}


@pytest.mark.usefixtures("two_revisions")
def test_it_says_how_long_each_took_and_how_long_the_rest_have_waited() -> None:
    Story().tell(heartbeat(), at=300, instance="late").tell(heartbeat(), at=1, instance="late").store()
    Story().tell(DesiredStateApplied(revision=2, config_hash=hash_for("done")), at=-0.25, instance="done").store()
    found = summary(2)
    assert found.made_at == NOW
    assert found.waited_s(NOW + timedelta(seconds=14)) == 14.0
    [done], [late] = found.applied, found.pending
    assert found.lag_s(late) is None
    assert found.lag_s(done) is not None


def test_where_nothing_was_ever_wanted_everybody_is_where_they_should_be() -> None:
    Story().tell(heartbeat(), at=5).store()
    found = summary(0)
    assert (names(found), found.made_at, found.waited_s(NOW)) == ({"applied": ["a-1"]}, None, None)


def test_a_sender_that_obeys_nobody_is_not_waited_for() -> None:
    small_fleet(2)
    Story().tell(failed(), at=300, instance="", service="billing").store()
    done = trip()
    summary = apply_status("dev", done.revision, SEARCH, now=NOW)
    assert summary.total == 2
    assert "billing" not in {row.service for rows in summary.by_status.values() for row in rows}


@pytest.mark.parametrize(
    ("scope", "is_common"),
    [
        (Scope(), True),
        (Scope(operation="search_web"), True),
        (Scope(service="research"), False),
        (Scope(instance="r-1"), False),
        (Scope(group="canary"), False),
    ],
)
def test_what_is_for_everybody_is_known_without_asking_who(scope: Scope, is_common: bool) -> None:
    common = DesiredOverride(
        id="ov-1",
        mode=State.FORCED_OPEN,
        scope=scope,
        reason="because",
        by="ann",
        starts_at=0.0,
        expires_at=1e10,
        revision=1,
    )
    snapshot = replace(desired.Snapshot.of_nothing("dev"), revision=1, overrides=(common,))
    everybody = [
        Who(),
        Who(service="research", instance="r-1", group="canary"),
        Who(service="b", instance="", group=""),
    ]
    reaches = {snapshot.reach(who) for who in everybody}
    assert snapshot.common_reach() == (reaches.pop() if is_common else None)
    assert bool(reaches) is not is_common


def test_who_is_let_out_or_asked_has_to_be_known() -> None:
    nothing = desired.Snapshot.of_nothing("dev")
    assert nothing.common_reach() == nothing.reach(Who())
    canary = Canary(cohort=Cohort(salt="s", limit=WHOLE), policy=nothing.policy)
    answer = Answer(ticket="t-1", decision="approved", service="research")
    spared: Any = {"ov-1": object()}
    for changed in ({"canary": canary}, {"answers": (answer,)}, {"spared": spared}, {"bands": {(1, Scope()): canary}}):
        assert replace(nothing, **changed).common_reach() is None

"""The retry policy of one operation: what an edit releases, and what it refuses, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.control import actions, desired
from recovery_ops.control.actions import Done, Refused
from recovery_ops.control.actions.policies import knobs_of, with_rule
from recovery_ops.control.models import AuditEntry, PolicyRelease, Unchangeable
from recovery_ops.control.roles import Role
from recovery_ops.rules.policy import BUILT_IN, OperationPolicy, document_of, parse_policy
from recovery_ops.rules.scope import Place, Scope
from tests.support.actions import asked, person
from tests.support.stories import NOW

pytestmark = pytest.mark.usefixtures("known")

SEARCH_EVERYWHERE = Scope(operation="search_web")


def edit(knobs: Mapping[str, object], **changed: Any) -> Done[PolicyRelease]:
    given: dict[str, Any] = {"by": person(Role.EDITOR, "eva"), "operation": "search_web", "knobs": knobs}
    return actions.set_operation_policy(**asked(**given) | changed)


def refusal(knobs: Mapping[str, object], **changed: Any) -> Refused:
    with pytest.raises(Refused) as refused:
        edit(knobs, **changed)
    return refused.value


def obeyed(service: str = "research") -> OperationPolicy:
    """What an agent makes of the document it is sent."""
    document = desired.document("dev", service=service, instance="r-0", now=NOW)
    place = Place(service=service, instance="r-0", operation="search_web")
    return parse_policy(document["policy"]).for_operation(place)


def test_an_edit_is_a_release_that_agents_obey() -> None:
    done = edit({"max_retries": 5, "base_delay_s": 1, "retry_capacity_errors": False})
    knobs = obeyed().knobs
    assert (knobs.max_retries, knobs.base_delay_s, knobs.retry_capacity_errors) == (5, 1.0, False)
    assert (done.object.version, done.revision, obeyed().version) == (1, 1, "1")
    operation, changes = done.object.summary.split(": ")
    assert operation == "search_web"
    assert [(change.split()[0], change.split()[-1]) for change in changes.split(", ")] == [
        ("max_retries", "5"),
        ("base_delay_s", "1.0"),
        ("retry_capacity_errors", "false"),
    ]


def test_what_is_not_named_stays_and_none_takes_a_knob_back() -> None:
    edit({"max_retries": 5, "jitter": 0.5})
    edit({"max_retries": 2})
    assert (obeyed().knobs.max_retries, obeyed().knobs.jitter) == (2, 0.5)
    done = edit({"max_retries": None, "jitter": None})
    assert done.object.document["rules"] == []
    assert obeyed().knobs.max_retries == 3
    assert [one.version for one in PolicyRelease.objects.order_by("revision")] == [1, 2, 3]


def test_one_service_can_have_its_own() -> None:
    edit({"max_retries": 5})
    edit({"max_retries": 1}, service="billing")
    assert (obeyed("research").knobs.max_retries, obeyed("billing").knobs.max_retries) == (5, 1)
    assert [rule["id"] for rule in desired.live_policy("dev").document["rules"]] == [
        "search_web",
        "search_web of billing",
    ]


@pytest.mark.parametrize(
    ("knobs", "named"),
    [
        ({"max_retries": 21}, {"max_retries": "20"}),
        ({"max_retries": 1.5}, {"max_retries": "number"}),
        ({"max_retries": 10**400}, {"max_retries": "20"}),
        ({"base_delay_s": "1"}, {"base_delay_s": "number"}),
        ({"retry_capacity_errors": 1}, {"retry_capacity_errors": "true"}),
        ({"max_retrys": 3}, {"max_retrys": "knob"}),
        (
            {"scope": 1, "jitter": 2, "delay_cap_s": 0},
            {"scope": "knob", "jitter": "1", "delay_cap_s": "0.001"},
        ),
    ],
)
def test_every_fault_is_told_by_its_field(knobs: dict[str, object], named: dict[str, str]) -> None:
    refused = refusal(knobs)
    assert (refused.status, refused.fields.keys()) == (400, named.keys())
    assert all(word in refused.fields[name].split() for name, word in named.items())
    assert not PolicyRelease.objects.exists()


def test_an_operation_nobody_reported_is_404_unless_meant_ahead() -> None:
    refused = refusal({"max_retries": 5}, operation="serch_web")
    assert (refused.status, refused.code) == (404, "unknown_operation")
    assert edit({"max_retries": 5}, operation="serch_web", ahead=True).revision == 1


def test_an_edit_that_changes_nothing_releases_nothing() -> None:
    first = edit({"max_retries": 5})
    again = edit({"max_retries": 5.0}, seen=0)
    assert (again.was_already, again.object, again.revision) == (True, first.object, 1)


def test_taking_back_what_was_never_said_is_told() -> None:
    assert refusal({"max_retries": None}).code == "nothing_to_change"


def test_who_looked_too_early_does_not_overwrite_another_edit() -> None:
    edit({"max_retries": 5})
    refused = refusal({"max_retries": 2}, seen=0, by=person(Role.EDITOR, "bob"))
    assert (refused.status, refused.code) == (409, "stale")
    assert [(one.actor_name, one.revision) for one in refused.changes] == [("eva", 1)]
    assert all(word in refused.detail for word in ("eva", "search_web", "14:26:18 UTC", "revision 1"))
    assert edit({"max_retries": 2}, seen=1).revision == 2


def test_an_edit_of_another_operation_makes_nobody_late() -> None:
    edit({"max_retries": 5}, operation="other", ahead=True)
    assert edit({"max_retries": 2}, seen=0).revision == 2


def test_the_audit_log_keeps_before_and_after() -> None:
    edit({"max_retries": 5})
    edit({"max_retries": 2})
    entry = AuditEntry.objects.latest("number")
    assert entry.before == {"version": "1", "knobs": {"max_retries": 5}}
    assert entry.after == {"version": "2", "knobs": {"max_retries": 2}}


def test_a_release_cannot_be_changed() -> None:
    release = edit({"max_retries": 5}).object
    release.document = {}
    with pytest.raises(Unchangeable):
        release.save()
    with pytest.raises(Unchangeable):
        release.delete()
    with pytest.raises(Unchangeable):
        PolicyRelease.objects.filter(version=1).update(document={})
    with pytest.raises(Unchangeable):
        PolicyRelease.objects.all().delete()


# -- the document itself ----------------------------------------------------------------------------------------------

RULES = st.lists(
    st.builds(
        lambda name, service, knobs: (Scope(operation=name, service=service), knobs),
        st.sampled_from(["search_web", "model:*", "other"]),
        st.sampled_from(["*", "research", "billing"]),
        st.dictionaries(st.sampled_from(["max_retries", "consecutive_failures"]), st.integers(0, 9), max_size=2),
    ),
    max_size=8,
)


@given(RULES)
def test_any_sequence_of_edits_makes_a_policy_that_says_what_was_said_last(edits: list[Any]) -> None:
    document: dict[str, Any] = document_of(BUILT_IN)
    last: dict[Scope, dict[str, Any]] = {}
    for scope, knobs in edits:
        document = with_rule(document, scope, knobs)
        last[scope] = knobs
    assert parse_policy(document) is not None
    assert {scope: knobs_of(document, scope) for scope in last} == last


def test_a_rule_that_holds_fallbacks_stays_without_knobs() -> None:
    rule = {"id": "mine", "scope": {"operation": "search_web"}, "knobs": {"jitter": 1}, "fallbacks": ["cache"]}
    [kept] = with_rule({"rules": [rule]}, SEARCH_EVERYWHERE, {})["rules"]
    assert kept == rule | {"knobs": {}}


def test_a_name_that_is_taken_gets_a_number() -> None:
    document = {"rules": [{"id": "search_web", "scope": {"operation": "other"}}]}
    assert with_rule(document, SEARCH_EVERYWHERE, {"jitter": 1})["rules"][1]["id"] == "search_web 2"

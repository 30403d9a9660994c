"""The retry policy of one operation: what an edit releases, and what it refuses, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.bases import Unchangeable
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.desired_state import document as desired
from recovery_ops.control.policies.models.policies import PolicyRelease
from recovery_ops.control.policies.services import policies as policies_services
from recovery_ops.control.policies.services.policies import settings_of, with_rule
from recovery_ops.rules.policy.model import BUILT_IN, OperationPolicy, document_of, parse_policy
from recovery_ops.rules.policy.scope import Place, Scope
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person
from tests.support.stories import NOW

pytestmark = pytest.mark.usefixtures("known")

SEARCH_EVERYWHERE = Scope(operation="search_web")


def edit(settings: Mapping[str, object], **changed: Any) -> CommandResult[PolicyRelease]:
    given: dict[str, Any] = {"by": person(Role.EDITOR, "eva"), "operation": "search_web", "settings": settings}
    return policies_services.set_operation_policy(**asked(**given) | changed)


def rejection(settings: Mapping[str, object], **changed: Any) -> CommandRejected:
    with pytest.raises(CommandRejected) as refused:
        edit(settings, **changed)
    return refused.value


def obeyed(service: str = "research") -> OperationPolicy:
    """What an agent makes of the document it is sent."""
    document = desired.document("dev", service=service, instance="r-0", now=NOW)
    place = Place(service=service, instance="r-0", operation="search_web")
    return parse_policy(document["policy"]).for_operation(place)


def test_an_edit_is_a_release_that_agents_obey() -> None:
    done = edit({"max_retries": 5, "base_delay_s": 1, "retry_capacity_errors": False})
    settings = obeyed().settings
    assert (settings.max_retries, settings.base_delay_s, settings.retry_capacity_errors) == (5, 1.0, False)
    assert (done.object.version, done.revision, obeyed().version) == (1, 1, "1")
    operation, changes = done.object.summary.split(": ")
    assert operation == "search_web"
    assert [(change.split()[0], change.split()[-1]) for change in changes.split(", ")] == [
        ("max_retries", "5"),
        ("base_delay_s", "1.0"),
        ("retry_capacity_errors", "false"),
    ]


def test_what_is_not_named_stays_and_none_takes_a_setting_back() -> None:
    edit({"max_retries": 5, "jitter": 0.5})
    edit({"max_retries": 2})
    assert (obeyed().settings.max_retries, obeyed().settings.jitter) == (2, 0.5)
    done = edit({"max_retries": None, "jitter": None})
    assert done.object.document["rules"] == []
    assert obeyed().settings.max_retries == 3
    assert [one.version for one in PolicyRelease.objects.order_by("revision")] == [1, 2, 3]


def test_one_service_can_have_its_own() -> None:
    edit({"max_retries": 5})
    edit({"max_retries": 1}, service="billing")
    assert (obeyed("research").settings.max_retries, obeyed("billing").settings.max_retries) == (5, 1)
    assert [rule["id"] for rule in desired.live_policy("dev").document["rules"]] == [
        "search_web",
        "search_web of billing",
    ]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"max_retries": 21}, {"max_retries": "20"}),
        ({"max_retries": 1.5}, {"max_retries": "number"}),
        ({"max_retries": 10**400}, {"max_retries": "20"}),
        ({"base_delay_s": "1"}, {"base_delay_s": "number"}),
        ({"retry_capacity_errors": 1}, {"retry_capacity_errors": "true"}),
        ({"max_retrys": 3}, {"max_retrys": "setting"}),
        (
            {"scope": 1, "jitter": 2, "delay_cap_s": 0},
            {"scope": "setting", "jitter": "1", "delay_cap_s": "0.001"},
        ),
    ],
)
def test_every_fault_is_told_by_its_field(settings: dict[str, object], named: dict[str, str]) -> None:
    refused = rejection(settings)
    assert (refused.status, refused.fields.keys()) == (400, named.keys())
    assert all(word in refused.fields[name].split() for name, word in named.items())
    assert not PolicyRelease.objects.exists()


def test_an_operation_nobody_reported_is_404_unless_meant_ahead() -> None:
    refused = rejection({"max_retries": 5}, operation="serch_web")
    assert (refused.status, refused.code) == (404, "unknown_operation")
    assert edit({"max_retries": 5}, operation="serch_web", ahead=True).revision == 1


def test_an_edit_that_changes_nothing_releases_nothing() -> None:
    first = edit({"max_retries": 5})
    again = edit({"max_retries": 5.0}, seen=0)
    assert (again.was_already, again.object, again.revision) == (True, first.object, 1)


def test_taking_back_what_was_never_said_is_told() -> None:
    assert rejection({"max_retries": None}).code == "nothing_to_change"


def test_who_looked_too_early_does_not_overwrite_another_edit() -> None:
    edit({"max_retries": 5})
    refused = rejection({"max_retries": 2}, seen=0, by=person(Role.EDITOR, "bob"))
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
    assert entry.before == {"version": "1", "settings": {"max_retries": 5}}
    assert entry.after == {"version": "2", "settings": {"max_retries": 2}}


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
        lambda name, service, settings: (Scope(operation=name, service=service), settings),
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
    for scope, settings in edits:
        document = with_rule(document, scope, settings)
        last[scope] = settings
    assert parse_policy(document) is not None
    assert {scope: settings_of(document, scope) for scope in last} == last


def test_a_rule_that_holds_fallbacks_stays_without_settings() -> None:
    rule = {"id": "mine", "scope": {"operation": "search_web"}, "settings": {"jitter": 1}, "fallbacks": ["cache"]}
    [kept] = with_rule({"rules": [rule]}, SEARCH_EVERYWHERE, {})["rules"]
    assert kept == rule | {"settings": {}}


def test_a_name_that_is_taken_gets_a_number() -> None:
    document = {"rules": [{"id": "search_web", "scope": {"operation": "other"}}]}
    assert with_rule(document, SEARCH_EVERYWHERE, {"jitter": 1})["rules"][1]["id"] == "search_web 2"

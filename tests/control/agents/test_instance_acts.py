"""Several instances at once: labelled, retired when they are gone, missed again; and who speaks is back by itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from events.models import Agent
from events.queries import breakers, fleet, overview_numbers, reporting_spans, retired
from recovery_ops.control.agents.models.labels import InstanceLabels
from recovery_ops.control.agents.services.instances import act_on_each, retire_instance
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core.actors import Actor
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.self_monitoring.readings import readings
from recovery_ops.rules.enums import State
from recovery_ops.rules.roles import Role
from tests.support.pages import hidden, signed_in, text_of
from tests.support.stories import NOW, Story, heartbeat, moved

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

WHY = "its node was taken out of the cluster"


@pytest.fixture(autouse=True)
def two_died() -> None:
    """r-0 reports, r-1 and r-2 fell silent; all have a breaker, that of r-1 is open."""
    story = Story()
    for number, seen in enumerate((5, 600, 700)):
        who = {"instance": f"r-{number}"}
        story.tell(heartbeat(), at=900, received=900, **who)
        story.tell(moved(State.OPEN if number == 1 else State.CLOSED), at=890, received=890, **who)
        story.tell(heartbeat(), at=seen, received=seen, **who)
    story.store()


def asked(**more: Any) -> dict[str, Any]:
    user, _ = get_user_model().objects.get_or_create(username="ana")
    by = Actor(name="ana", kind="person", channel="web", may=lambda permission, environment: True, user_id=user.pk)
    return {"by": by, "environment": "dev", "reason": WHY, "now": NOW} | more


def retire(*names: str) -> None:
    results = act_on_each("retire", [("research", name) for name in names], **asked())
    assert [one.rejection for one in results] == [None] * len(names)


def test_two_keys_that_begin_alike_are_two_wishes() -> None:
    keys = [f"{'k' * 50}{number}" for number in (1, 2)]
    pairs = [("research", "r-1"), ("research", "r-2")]
    act_on_each("retire", pairs, **asked(key=keys[0]))
    act_on_each("restore", pairs, **asked())
    again = act_on_each("retire", pairs, **asked(key=keys[1]))
    assert [one.text for one in again] == ["retired", "retired"], "not what was done under the other key"
    assert len(retired("dev", now=NOW)) == 2


def speaks(name: str, *, in_s: float = 5) -> None:
    Story().tell(heartbeat(), at=-in_s, received=-in_s, instance=name).store()


def number_of(name: str) -> int:
    return int(Agent.objects.get(instance=name).pk)


def sent(verb: str, *names: str, role: Role = Role.OPERATOR, **typed: str) -> Any:
    client = signed_in(role)
    chosen: dict[str, Any] = {"agent": [number_of(name) for name in names], "back": "/agents"}
    form = client.get(f"/agents/act/{verb}", chosen)
    if form.status_code != 200:
        return form
    return client.post(f"/agents/act/{verb}", chosen | {"key": hidden(form, "key"), "reason": WHY} | typed)


# -- what retired means ------------------------------------------------------------------------------------------------
def test_who_is_retired_is_missed_nowhere() -> None:
    before = overview_numbers("dev", now=NOW)
    assert (before.agents, len(before.silent)) == (3, 2)
    retire("r-1", "r-2")
    after = overview_numbers("dev", now=NOW)
    assert (after.agents, after.agents_reporting, after.silent) == (1, 1, ())
    assert [one.instance for one in fleet("dev", now=NOW)] == ["r-0"]
    assert [one.instance for one in retired("dev", now=NOW)] == ["r-1", "r-2"]
    [row] = breakers("dev", now=NOW)
    assert (row.instances, row.unknown, row.worst) == (1, 0, State.CLOSED)


def test_no_change_waits_for_it() -> None:
    assert "Unreachable r-1" in text_of(signed_in(Role.OPERATOR).get("/breakers/search_web"))
    retire("r-1", "r-2")
    assert "nreachable" not in text_of(signed_in(Role.OPERATOR).get("/breakers/search_web"))


def test_it_lived_until_it_was_last_heard_of() -> None:
    retire("r-1", "r-2")
    start = NOW - timedelta(hours=1)
    assert reporting_spans("dev", start=start, end=NOW), "the others still lived"
    everyone = fleet("dev", now=NOW, include_stopped=True)
    assert {one.instance: one.status for one in everyone} == {"r-0": "running", "r-1": "stopped", "r-2": "stopped"}


def test_the_console_measures_it_no_more() -> None:
    def silent() -> list[float]:
        [gauge] = [one for one in readings(NOW) if one.name.endswith("agents")]
        return [value for labels, value in gauge.points if labels["state"] == "silent"]

    assert silent() == [2]
    retire("r-1", "r-2")
    assert silent() == []


def test_who_speaks_again_is_back_by_itself() -> None:
    retire("r-1", "r-2")
    speaks("r-1")
    later = NOW + timedelta(seconds=6)
    assert [one.instance for one in fleet("dev", now=later)] == ["r-0", "r-1"]
    assert [one.instance for one in retired("dev", now=later)] == ["r-2"]
    assert next(one for one in fleet("dev", now=later) if one.instance == "r-1").is_reachable


# -- the act -----------------------------------------------------------------------------------------------------------
def test_who_reports_cannot_be_retired() -> None:
    with pytest.raises(CommandRejected) as refused:
        retire_instance(**asked(), service="research", instance="r-0")
    assert refused.value.code == "reports"
    assert not retired("dev", now=NOW)


def test_reason_is_kept_with_the_instance() -> None:
    retire("r-1")
    [entry] = AuditEntry.objects.filter(result=AuditEntry.OK)
    assert (entry.verb, entry.object, entry.reason) == ("instance.retire", "research/r-1", WHY)
    assert retire_instance(**asked(), service="research", instance="r-1").was_already
    assert audit.verify_chain("dev").is_whole


def test_one_that_is_refused_holds_no_other_back() -> None:
    results = act_on_each("retire", [("research", "r-0"), ("research", "r-1"), ("moon", "x")], **asked())
    assert [one.rejection.code if one.rejection else one.text for one in results] == [
        "reports",
        "retired",
        "unknown_instance",
    ]
    assert [one.instance for one in retired("dev", now=NOW)] == ["r-1"]


def test_it_can_be_missed_again() -> None:
    retire("r-1")
    act_on_each("restore", [("research", "r-1")], **asked())
    assert not retired("dev", now=NOW)
    assert [one.instance for one in overview_numbers("dev", now=NOW).silent] == ["r-2", "r-1"]


# -- on pages ----------------------------------------------------------------------------------------------------------
def test_several_are_chosen_in_the_list_and_stand_under_a_filter() -> None:
    page = signed_in(Role.OPERATOR).get("/agents").content.decode()
    assert page.count('name="agent"') == 3
    assert 'formaction="/agents/act/retire"' in page
    assert sent("retire", "r-1", "r-2").status_code == 303
    client = signed_in(Role.OPERATOR)
    assert "r-1" not in text_of(client.get("/agents"))
    page = client.get("/agents?state=retired").content.decode()
    assert page.count('name="agent"') == 2
    assert 'formaction="/agents/act/restore"' in page
    rows = client.get("/agents?state=retired&format=json").json()["rows"]
    assert [(row["instance"], row["status"]) for row in rows] == [("r-1", "retired"), ("r-2", "retired")]
    assert "retired" in text_of(client.get("/agents/settings?service=research&instance=r-1"))
    assert sent("restore", "r-1").status_code == 303
    assert "r-1" in text_of(client.get("/agents"))


def test_where_nobody_is_retired_that_is_said() -> None:
    assert 'data-why="all good"' in signed_in().get("/agents?state=retired").content.decode()
    retire("r-1")
    assert "0 of 1 instance" in text_of(signed_in().get("/agents?state=retired&q=moon"))


def test_what_came_of_each_stands_in_its_row() -> None:
    answer = sent("retire", "r-0", "r-1")
    assert answer.status_code == 422
    page = text_of(answer)
    assert "2 selected, 1 rejected" in page
    assert "research/r-0 rejected: research/r-0" in page
    assert "research/r-1 retired" in page


def test_several_are_labelled_at_once_and_a_label_is_taken_away() -> None:
    assert sent("label", "r-0", "r-1", role=Role.RESPONDER, labels="canary, eu", reason="").status_code == 303
    assert {one.instance: one.label_names for one in InstanceLabels.objects.all()} == {
        "r-0": ["canary", "eu"],
        "r-1": ["canary", "eu"],
    }
    assert sent("label", "r-0", "r-2", labels="-eu, old").status_code == 303
    assert {one.instance: one.label_names for one in InstanceLabels.objects.all()} == {
        "r-0": ["canary", "old"],
        "r-1": ["canary", "eu"],
        "r-2": ["old"],
    }
    answer = sent("label", "r-0", "r-1", labels="a|b")
    assert answer.status_code == 422
    assert "without |" in text_of(answer)


def test_who_may_not_is_not_offered_to() -> None:
    assert sent("retire", "r-1", role=Role.RESPONDER).status_code == 403
    page = signed_in(Role.RESPONDER).get("/agents").content.decode()
    assert "/agents/act/label" in page
    assert "/agents/act/retire" not in page
    assert 'name="agent"' not in signed_in(Role.VIEWER).get("/agents").content.decode()
    assert not retired("dev", now=NOW)


def test_nobody_chosen_leads_back() -> None:
    answer = signed_in(Role.OPERATOR).get("/agents/act/retire")
    assert (answer.status_code, answer["Location"]) == (303, "/agents")
    assert signed_in(Role.OPERATOR).get("/agents/act/burn").status_code == 404

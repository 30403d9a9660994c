"""Which changes need a reason: one rule for services, API, forms and bulk actions."""

from __future__ import annotations

from typing import Any, cast

import pytest
from django.urls import reverse

from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.breakers.services.bulk import each
from recovery_ops.control.core.actions import ACTIONS
from recovery_ops.control.core.checks import FEW
from recovery_ops.control.core.commands import CommandContext
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.reasons import needs_reason
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.rules.enums import State
from recovery_ops.rules.roles import Role
from tests.support.actions import DEEDS, asked, person, small_fleet
from tests.support.api_client import Program
from tests.support.html import Shown
from tests.support.pages import sent, signed_in
from tests.support.stories import Story, heartbeat, moved

pytestmark = pytest.mark.django_db
ALWAYS = {"breaker.trip", "breaker.disable", "breaker.observe", "breaker.extend", "policy.edit"}


def faults_of(run: Any, **given: Any) -> set[str]:
    """The fields for which a change is rejected."""
    try:
        run(**given)
    except CommandRejected as rejection:
        return set(rejection.fields)
    return set()


@pytest.mark.parametrize("verb", DEEDS)
@pytest.mark.parametrize("reason", ["", "short"])
def test_reason_is_needed_for_overrides_and_policies(verb: str, reason: str) -> None:
    small_fleet()
    DEEDS[verb].prepare()
    given = asked(by=person(Role.ADMIN), reason=reason)
    assert faults_of(DEEDS[verb].run, **given) == ({"reason"} if verb in ALWAYS else set())
    assert ACTIONS[verb].needs_reason == (verb in ALWAYS)
    if verb not in ALWAYS:
        assert AuditEntry.objects.latest("number").reason == reason


@pytest.mark.parametrize("verb", ["breaker.reset", "breaker.probe"])
def test_reason_is_needed_in_production(verb: str) -> None:
    small_fleet(environment="prod")
    admin = person(Role.ADMIN, environment="prod")
    assert faults_of(DEEDS[verb].run, **asked(by=admin, environment="prod", reason="")) == {"reason"}
    assert not needs_reason("escalation.acknowledge", "prod"), "the queue changes no agent"


@pytest.mark.parametrize("count", [FEW, FEW + 1])
def test_reason_is_needed_for_many_objects(count: int) -> None:
    names = [f"tool-{number:02}" for number in range(count)]
    story = Story()
    story.tell(heartbeat(), *(moved(State.CLOSED, breaker=name) for name in names), at=5, instance="r-0")
    story.store()
    wanted = cast(CommandContext, asked(by=person(Role.ADMIN), reason=""))
    results = each("probe", names, wanted, where={})
    assert {one.rejection is None for one in results} == {count == FEW}


def test_api_takes_no_reason_where_none_is_needed() -> None:
    small_fleet()
    program = Program()
    assert program.post("breakers/search_web/probe", {})[0] == 200
    status, problem = program.post("breakers/search_web/trip", {"expires_in_s": 600})
    assert (status, set(problem["fields"])) == (400, {"reason"})


@pytest.mark.parametrize(("verb", "is_needed"), [("trip", True), ("reset", False), ("probe", False)])
@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_form_marks_its_reason_by_the_rule(verb: str, is_needed: bool, environment: str) -> None:
    small_fleet(environment=environment)
    client = signed_in(Role.ADMIN, environment=environment)
    page = Shown(client.get(f"/breakers/search_web/{verb}?environment={environment}"))
    field = page.within("id", "reason").root.attributes
    assert ("required" in field) == (is_needed or environment == "prod")


def test_form_without_a_needed_reason_keeps_the_rest() -> None:
    small_fleet()
    answer = signed_in().post("/breakers/search_web/trip", sent(reason="", expires_in_s="600"))
    assert answer.status_code == 422
    assert not Override.objects.exists()
    assert Shown(answer).within("id", "reason-error").root is not None


def test_settings_are_changed_without_a_reason() -> None:
    admin = signed_in(Role.ADMIN)
    page = Shown(admin.get(reverse("new-person")))
    assert "required" not in page.within("id", "id_reason").root.attributes

"""A pattern that no breaker escapes is every breaker: what that asks for is asked for however it is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.utils import timezone

from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.breakers.services import overrides
from recovery_ops.control.breakers.services.bulk import each
from recovery_ops.control.breakers.services.load_shedding import extend_shed, let_pass, shed
from recovery_ops.control.core.checks import FEW
from recovery_ops.control.core.models.environment_rules import EnvironmentRules
from recovery_ops.control.core.rejections import ApprovalPending, CommandRejected
from recovery_ops.rules.enums import State
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.roles import Role
from tests.support.actions import REASON, asked, person
from tests.support.pages import sent, signed_in
from tests.support.sentences import left_out
from tests.support.stories import Story, heartbeat, moved

pytestmark = pytest.mark.django_db

ALL, SOME = "*e*", "search_*"
STALE = replace(person(), is_fresh=False)


def fleet(*names: str) -> None:
    story = Story("dev")
    for name in names:
        story.tell(heartbeat(), moved(State.CLOSED, breaker=name), at=5, instance="r-0")
    story.store()


@pytest.fixture
def several() -> None:
    fleet("search_web", "search_cache", "send_mail")


def trip(pattern: str, **changed: Any) -> Any:
    return overrides.trip(**asked(scope=Scope(operation=pattern), **changed))


@pytest.mark.usefixtures("several")
@pytest.mark.parametrize("pattern", [ALL, "s*", "*s*e*"])
def test_every_breaker_by_a_pattern_takes_a_fresh_sign_in(pattern: str) -> None:
    with pytest.raises(CommandRejected) as refused:
        trip(pattern, by=STALE)
    assert refused.value.code == "sign_in_again"
    assert trip(SOME, by=STALE).object.scope.operation == SOME


def test_more_than_a_few_by_a_pattern_take_a_fresh_sign_in() -> None:
    fleet("send_mail", *(f"search_{number}" for number in range(FEW + 1)))
    with pytest.raises(CommandRejected) as refused:
        trip(SOME, by=STALE)
    assert refused.value.code == "sign_in_again"
    assert trip("search_1*", by=STALE).object.scope.operation == "search_1*"


@pytest.mark.usefixtures("several")
def test_every_breaker_by_a_pattern_is_confirmed_by_the_environments_name() -> None:
    with pytest.raises(CommandRejected) as refused:
        trip(ALL, confirm=ALL)
    assert left_out(refused.value.fields["confirm"], "dev") == []
    assert trip(ALL, confirm="dev").object.scope.operation == ALL
    assert trip(SOME, confirm="").object.scope.operation == SOME


@pytest.mark.usefixtures("several")
def test_every_breaker_by_a_pattern_takes_two_persons() -> None:
    EnvironmentRules.objects.create(environment="dev", is_second_needed=True)
    with pytest.raises(ApprovalPending):
        trip(ALL)
    assert not Override.objects.exists()
    assert trip(SOME).object.scope.operation == SOME


def test_where_there_is_one_breaker_a_pattern_is_as_good_as_its_name() -> None:
    fleet("search_web")
    assert trip(SOME, by=STALE, confirm="").object.scope.operation == SOME


@pytest.mark.usefixtures("several")
def test_the_page_asks_for_what_every_breaker_asks_for(settings: Any) -> None:
    client = signed_in(Role.OPERATOR)
    assert client.post(f"/breakers/{ALL}/trip", sent()).status_code == 422
    assert client.post(f"/breakers/{ALL}/trip", sent(confirm="dev")).status_code == 303
    settings.FRESH_SIGN_IN_S = -1
    assert client.get(f"/breakers/{ALL}/trip").headers["Location"].startswith("/sign-in/again")
    assert client.get(f"/breakers/{SOME}/trip").status_code == 200


@pytest.mark.usefixtures("several")
@pytest.mark.parametrize("pattern", [ALL, "*"])
def test_what_rules_every_breaker_is_prolonged_by_a_fresh_sign_in_and_ended_by_any(pattern: str) -> None:
    pending = trip(pattern).object
    longer: dict[str, Any] = {"override_id": pending.pk, "expires_in_s": 7200.0}
    with pytest.raises(CommandRejected) as refused:
        overrides.extend(**asked(by=STALE, **longer))
    assert refused.value.code == "sign_in_again"
    assert overrides.extend(**asked(**longer)).object.pk == pending.pk
    assert overrides.release(**asked(by=STALE, override_id=pending.pk)).object.ended_at is not None


@pytest.mark.usefixtures("several")
def test_what_rules_some_is_prolonged_by_any_sign_in() -> None:
    pending = trip(SOME).object
    assert overrides.extend(**asked(by=STALE, override_id=pending.pk, expires_in_s=7200.0)).revision == 2


def test_more_than_a_few_by_a_list_are_prolonged_by_a_fresh_sign_in_and_ended_by_any() -> None:
    names = [f"search_{number}" for number in range(FEW + 1)]
    fleet(*names)
    for name in names:
        trip(name)
    stale: Any = asked(by=STALE)
    with pytest.raises(CommandRejected) as refused:
        each("extend", names, stale, where={}, expires_in_s=7200.0)
    assert refused.value.code == "sign_in_again"
    assert all(one.done for one in each("extend", names[1:], stale, where={}, expires_in_s=7200.0))
    assert all(one.done for one in each("release", names, stale, where={}))


@pytest.mark.usefixtures("several")
def test_load_is_shed_and_shed_for_longer_by_a_fresh_sign_in_and_let_pass_by_any() -> None:
    for act, more in ((shed, {"confirm": "dev"}), (extend_shed, {"expires_in_s": 7200.0})):
        with pytest.raises(CommandRejected) as refused:
            act(**asked(by=STALE, **more))
        assert refused.value.code == "sign_in_again"
        act(**asked(**more))
    assert let_pass(**asked(by=STALE)).object.ended_at is not None


@pytest.mark.usefixtures("several")
def test_the_pages_and_the_api_ask_so_for_shedding_and_prolonging(settings: Any) -> None:
    client = signed_in(Role.OPERATOR)
    settings.FRESH_SIGN_IN_S = -1
    assert client.get("/shed").headers["Location"].startswith("/sign-in/again")
    late = client.post("/shed", sent(act="critical", confirm="dev"))
    assert (late.status_code, "/sign-in/again" in late.context["problem"]) == (403, True)
    pending = trip(ALL, now=timezone.now()).object
    shed(**asked(confirm="dev", now=timezone.now()))
    assert client.get(f"/breakers/search_web/extend?override={pending.pk}").headers["Location"].startswith("/sign-in/")
    late = client.post(f"/breakers/search_web/extend?override={pending.pk}", sent(expires_in_s="14400"))
    assert (late.status_code, "/sign-in/again" in late.context["problem"]) == (403, True)
    for address in ("shed", "shed/extend", f"breakers/{ALL}/extend"):
        body = {"reason": REASON, "expires_in_s": 14_400, **({"confirm": "dev"} if address == "shed" else {})}
        api = client.post(f"/api/v1/{address}", body, "application/json", headers={"x-csrftoken": "none"})
        assert (address, api.status_code, api.json()["code"]) == (address, 403, "sign_in_again")
    assert client.get("/shed").status_code == 200
    assert client.post("/shed", sent(act="pass", seen="2", key="another")).status_code == 303
    assert client.get(f"/breakers/search_web/release?override={pending.pk}").status_code == 200
    assert client.post(f"/breakers/search_web/release?override={pending.pk}", sent(seen="3")).status_code == 303

"""The rules of an environment: production is a setting, and so is whose approval a change needs."""

from __future__ import annotations

import pytest

from recovery_ops.control.core.models.approval_requests import ApprovalRequest
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.environment_rules import EnvironmentRules
from recovery_ops.control.core.production import is_production
from recovery_ops.control.policies.services.review import is_review_needed, set_rules
from recovery_ops.rules.roles import Role
from tests.support.actions import REASON, SEARCH, asked, person
from tests.support.html import Shown
from tests.support.pages import signed_in

pytestmark = pytest.mark.usefixtures("known")
PAGE = "/settings/environment"
SHOWN = {"initial-is_production": "False", "initial-is_review_needed": "False", "initial-is_second_needed": "False"}


@pytest.mark.parametrize(("name", "expected"), [("dev", False), ("prod", True), ("prod-eu", True), ("live", False)])
def test_name_decides_until_somebody_does(name: str, expected: bool) -> None:
    assert is_production(name) is expected
    for said in (not expected, expected):
        EnvironmentRules.objects.update_or_create(environment=name, defaults={"is_production": said})
        assert is_production(name) is said


def test_production_asks_for_the_name_and_for_review() -> None:
    ana = signed_in(Role.OPERATOR)
    trip = f"/breakers/{SEARCH.operation}/trip"
    assert "confirm" not in Shown(ana.get(trip)).fields
    set_rules(**asked(by=person(Role.ADMIN), is_production=True))
    assert is_review_needed("dev")
    assert "confirm" in Shown(ana.get(trip)).fields
    form = {"reason": REASON, "expires_in_s": 3600, "scope": "all"}
    assert ana.post(trip, form | {"confirm": "dev"}).status_code == 422
    assert ana.post(trip, form | {"confirm": SEARCH.operation}).status_code == 303


def test_review_said_otherwise_stays_in_production() -> None:
    set_rules(**asked(by=person(Role.ADMIN), is_production=True, is_review_needed=False))
    assert not is_review_needed("dev")


def test_pages_mark_production() -> None:
    admin = signed_in(Role.ADMIN)
    assert Shown(admin.get("/breakers")).values("production") == []
    EnvironmentRules.objects.create(environment="dev", is_production=True)
    assert len(Shown(admin.get("/breakers")).values("production")) == 1


def test_admin_sets_what_was_ticked_and_nothing_else() -> None:
    admin = signed_in(Role.ADMIN, "root")
    assert Shown(admin.get(PAGE)).fields["initial-is_production"] == "False"
    # Meanwhile somebody else asks for review: the form that shows it as off does not undo that.
    set_rules(**asked(by=person(Role.ADMIN), is_review_needed=True))
    assert admin.post(PAGE, SHOWN | {"is_production": "on", "reason": REASON}).status_code == 303
    rules = EnvironmentRules.objects.get()
    assert (rules.is_production, rules.is_review_needed, rules.is_second_needed) == (True, True, False)
    entry = AuditEntry.objects.filter(verb="environment.rules").latest("pk")
    assert (entry.before, entry.after) == ({"is_production": False}, {"is_production": True})


def test_form_without_a_change_is_refused() -> None:
    answer = signed_in(Role.ADMIN).post(PAGE, SHOWN | {"reason": REASON})
    assert answer.status_code == 422
    assert not EnvironmentRules.objects.exists()


def test_others_see_the_rules_and_cannot_change_them() -> None:
    tom = signed_in(Role.APPROVER, "tom")
    page = tom.get(PAGE)
    assert page.status_code == 200
    assert "is_production" not in Shown(page).fields
    assert tom.post(PAGE, SHOWN | {"is_production": "on", "reason": REASON}).status_code == 403
    assert not EnvironmentRules.objects.exists()


def test_less_of_a_rule_waits_for_the_second_approver() -> None:
    EnvironmentRules.objects.create(environment="dev", is_production=True, is_second_needed=True)
    shown = SHOWN | {"initial-is_production": "True", "initial-is_review_needed": "True"}
    sent = shown | {"initial-is_second_needed": "True", "is_review_needed": "on", "is_second_needed": "on"}
    answer = signed_in(Role.ADMIN, "root").post(PAGE, sent | {"reason": REASON})
    request = ApprovalRequest.objects.get()
    assert answer.headers["Location"] == f"/requests/{request.number}"
    assert (request.act, request.arguments["is_production"]) == ("set_rules", False)
    assert is_production("dev")

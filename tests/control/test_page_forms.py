"""What people send from pages: what a form refuses and keeps, who came first, and where an act rests."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from events.keys import create_key
from recovery_ops.control.breakers.models.overrides import Override, Reset
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.policies.models.policies import PolicyRelease
from recovery_ops.rules.enums import ApplyStatus, State
from recovery_ops.rules.policy.settings import SETTINGS
from recovery_ops.rules.roles import Role
from tests.support.form_faults import faults_of
from tests.support.html import Shown
from tests.support.pages import REASON, edited, held, sent, signed_in, text_of, troubled_fleet
from tests.support.stories import NOW
from tests.support.templates import templates_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


ANOTHER = "mine is another reason"


# -- acts --------------------------------------------------------------------------------------------------------------
def test_a_trip_is_told_to_the_next_page_and_sent_once() -> None:
    troubled_fleet()
    client = signed_in()
    answer = client.post("/breakers/search_web/trip", sent(), follow=True)
    assert answer.redirect_chain == [("/breakers/search_web", 303)]
    notice = Shown(answer).within("id", "toasts").root.text
    assert all(word in notice for word in ("search_web", "revision 1"))
    client.post("/breakers/search_web/trip", sent())
    assert Override.objects.count() == 1


FORMS = ["/breakers/search_web/trip", "/breakers/search_web/reset", "/policies/operations/search_web"]


@pytest.mark.parametrize("path", FORMS)
def test_a_form_acts_where_it_was_opened_whatever_another_tab_looks_at(path: str) -> None:
    for environment in ("dev", "prod"):
        troubled_fleet(environment=environment)
        create_key("agent", ["ingest"], environment)
    client = signed_in(Role.EDITOR, environment="*")
    page = client.get(f"{path}?environment=dev").content.decode()
    [named] = re.findall(r'<input type="hidden" name="environment" value="([^"]*)">', page)
    client.get("/breakers?environment=prod")  # the other tab
    form = sent(max_retries="5", service="*", environment=named)
    assert client.post(path, form).status_code == 303
    assert {entry.environment for entry in AuditEntry.objects.all()} == {"dev"}


def test_a_form_of_an_environment_that_is_closed_meanwhile_changes_nothing() -> None:
    troubled_fleet()
    create_key("agent", ["ingest"], "prod")
    assert signed_in().post(FORMS[0], sent(environment="prod")).status_code == 404
    assert not Override.objects.exists()


@pytest.mark.parametrize(
    ("verb", "mode"), [("trip", State.FORCED_OPEN), ("disable", State.DISABLED), ("observe", State.METRICS_ONLY)]
)
@pytest.mark.parametrize(
    ("where", "scope"),
    [
        ({}, ("*", "*")),
        ({"scope": "service", "service": "research"}, ("research", "*")),
        ({"scope": "instance", "instance": "r-0"}, ("*", "r-0")),
    ],
)
def test_an_override_rests_where_it_was_said(verb: str, mode: State, where: Any, scope: Any) -> None:
    troubled_fleet()
    assert signed_in().post(f"/breakers/search_web/{verb}", sent(**where)).status_code == 303
    override = Override.objects.get()
    assert (override.mode, override.operation) == (mode, "search_web")
    assert (override.service, override.instance) == scope
    assert (override.expires_at - override.starts_at).total_seconds() == 3600


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"reason": ""}, {"reason": "required"}),
        ({"reason": "short"}, {"reason": "min_length"}),
        ({"reason": "x" * 501}, {"reason": "max_length"}),
        ({"expires_in_s": ""}, {"expires_in_s": "required"}),
        ({"expires_in_s": "99999999"}, {"expires_in_s": "invalid_choice"}),
        ({"scope": "moon"}, {"scope": "invalid_choice"}),
        ({"scope": "service"}, {"service": ""}),
        ({"scope": "instance"}, {"instance": ""}),
    ],
)
def test_a_form_says_what_is_wrong_and_keeps_what_was_typed(changed: dict[str, str], fault: dict[str, str]) -> None:
    troubled_fleet()
    answer = signed_in().post("/breakers/search_web/trip", sent(**changed))
    assert answer.status_code == 422
    assert faults_of(answer) == fault
    if "reason" not in changed:
        assert REASON in answer.content.decode()
    assert not Override.objects.exists()


def test_all_of_production_needs_the_name_typed() -> None:
    troubled_fleet(environment="prod")
    client = signed_in(environment="prod")
    refused = client.post("/breakers/search_web/trip?environment=prod", sent(confirm="search"))
    assert refused.status_code == 422
    assert list(faults_of(refused)) == ["confirm"]
    assert client.post("/breakers/search_web/trip", sent(confirm="search_web")).status_code == 303


def test_a_part_of_production_needs_the_name_too() -> None:
    troubled_fleet(environment="prod")
    client, form = signed_in(environment="prod"), sent(scope="service", service="research")
    assert "confirm" in Shown(client.get("/breakers/search_web/trip?environment=prod")).fields
    assert client.post("/breakers/search_web/trip", form).status_code == 422
    assert client.post("/breakers/search_web/trip", form | {"confirm": "search_web"}).status_code == 303


def test_a_part_of_another_environment_needs_none() -> None:
    troubled_fleet()
    form = sent(scope="service", service="research")
    assert signed_in().post("/breakers/search_web/trip", form).status_code == 303


def test_who_comes_second_is_told_who_came_first_and_loses_nothing() -> None:
    troubled_fleet()
    held(signed_in())
    late = signed_in(name="ben")
    answer = late.post("/breakers/search_web/disable", sent(key="k-2", reason=ANOTHER))
    assert answer.status_code == 409
    assert all(word in Shown(answer).one("problem").text for word in ("ana ", "search_web"))
    assert ANOTHER in answer.content.decode()
    assert Shown(answer).fields["seen"] == "1"
    again = late.post("/breakers/search_web/disable", sent(key="k-2", seen="1", reason=ANOTHER))
    assert again.status_code == 303
    assert Override.objects.filter(ended_at=None).get().mode == State.DISABLED


def test_an_instance_that_never_had_the_breaker_is_refused_beside_its_field() -> None:
    troubled_fleet()
    answer = signed_in().post("/breakers/search_web/trip", sent(scope="instance", instance="r-9"))
    assert answer.status_code == 404
    assert list(faults_of(answer)) == ["instance"]
    assert not Override.objects.exists()


def test_an_override_is_prolonged_released_and_a_breaker_reset() -> None:
    troubled_fleet()
    client = signed_in()
    override = held(client)
    extended = client.post("/breakers/search_web/extend", sent(key="k-2", seen="1", expires_in_s="14400"))
    assert extended.status_code == 303
    override.refresh_from_db()
    assert (override.expires_at - NOW).total_seconds() == 14_400
    assert client.post("/breakers/search_web/release", sent(key="k-3", seen="2")).status_code == 303
    override.refresh_from_db()
    assert override.ended_by == "ana"
    assert client.post("/breakers/search_web/reset", sent(key="k-4", seen="3")).status_code == 303
    assert Reset.objects.get().operation == "search_web"


def test_what_has_no_override_cannot_be_released() -> None:
    troubled_fleet()
    assert signed_in().get("/breakers/search_web/release").status_code == 404
    assert signed_in().post("/breakers/search_web/extend", sent()).status_code == 404


def test_a_dialog_gets_the_form_alone_and_the_next_address_without_swallowing_the_notice() -> None:
    troubled_fleet()
    client = signed_in()
    dialog = {"X-Fragment": "dialog"}
    form = client.get("/breakers/search_web/trip", headers=dialog).content.decode()
    assert form.startswith('<form class="act"')
    answer = client.post("/breakers/search_web/trip", sent(), headers=dialog)
    assert (answer.status_code, answer.headers["X-Location"]) == (204, "/breakers/search_web")
    assert "search_web" in Shown(client.get("/breakers/search_web")).within("id", "toasts").root.text


def test_a_stale_form_token_is_explained() -> None:
    troubled_fleet()
    client = Client(enforce_csrf_checks=True)
    signed_in()
    client.force_login(get_user_model().objects.get())
    answer = client.post("/breakers/search_web/trip", sent())
    assert answer.status_code == 403
    assert "403_csrf.html" in templates_of(answer)


# -- policies ----------------------------------------------------------------------------------------------------------
def test_settings_are_released_and_their_way_to_the_agents_is_shown() -> None:
    troubled_fleet()
    client = signed_in(Role.EDITOR)
    answer = edited(client, max_retries="5", base_delay_s="0.25", retry_capacity_errors="no")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/policies/operations/search_web")
    [rule] = PolicyRelease.objects.get().document["rules"]
    assert rule["settings"] == {"max_retries": 5, "base_delay_s": 0.25, "retry_capacity_errors": False}
    page = client.get("/policies/operations/search_web")
    status = Shown(page).within("id", "policy-status").root.text
    assert all(word in status for word in ("Policy 1", "14:26:18", "by ana", "revision 1", "0/3"))
    behind = {status: len(rows) for status, rows in page.context["apply"].agents.items() if rows}
    assert behind == {ApplyStatus.PENDING: 2, ApplyStatus.UNREACHABLE: 1}
    assert "5 retries" in text_of(page)


@pytest.mark.parametrize(
    ("setting", "typed", "allowed"),
    [
        ("max_retries", "21", ["0", "20"]),
        ("max_retries", "many", ["number"]),
        ("max_retries", "1.5", ["number"]),
        ("base_delay_s", "-1", ["0", "3600 s"]),
        ("base_delay_s", "nan", ["number"]),
        ("retry_capacity_errors", "maybe", ["true", "false"]),
        ("sliding_window_type", "moon", ["count_based", "time_based"]),
    ],
)
def test_a_setting_that_cannot_be_is_refused_beside_its_field(setting: str, typed: str, allowed: list[str]) -> None:
    troubled_fleet()
    answer = edited(signed_in(Role.EDITOR), **{setting: typed})
    page = answer.content.decode()
    assert answer.status_code == 422
    fault = Shown(answer).within("id", f"{setting}-error").root.text
    assert all(word in fault for word in allowed)
    assert f'value="{typed}"' in page or SETTINGS[setting].kind in ("flag", "word")  # a choice has nothing to keep
    assert not PolicyRelease.objects.exists()


def test_an_emptied_setting_is_taken_back() -> None:
    troubled_fleet()
    client = signed_in(Role.EDITOR)
    edited(client, max_retries="5", base_delay_s="2")
    edited(client, seen="1", key="p-2", base_delay_s="2")
    [rule] = PolicyRelease.objects.latest("version").document["rules"]
    assert rule["settings"] == {"base_delay_s": 2.0}


def test_who_edits_second_is_told_and_loses_nothing() -> None:
    troubled_fleet()
    edited(signed_in(Role.EDITOR), max_retries="5")
    answer = edited(signed_in(Role.EDITOR, "maya"), key="p-2", max_retries="1")
    assert answer.status_code == 409
    assert all(word in answer.context["problem"] for word in ("ana ", "search_web"))
    assert Shown(answer).fields["max_retries"] == "1"


def test_an_operation_that_nobody_reported_has_no_policy_page() -> None:
    troubled_fleet()
    assert signed_in().get("/policies/operations/nothing").status_code == 404

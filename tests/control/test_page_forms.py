"""What people send from pages: what a form refuses and keeps, who came first, and where an act rests."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from events.keys import create_key
from recovery_ops.control.models import AuditEntry, Override, PolicyRelease, Reset
from recovery_ops.control.roles import Role
from recovery_ops.rules.knobs import KNOBS
from recovery_ops.rules.words import State
from tests.support.pages import REASON, edited, held, sent, signed_in, text_of, troubled_fleet
from tests.support.stories import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


# -- acts --------------------------------------------------------------------------------------------------------------
def test_a_trip_is_told_to_the_next_page_and_sent_once() -> None:
    troubled_fleet()
    client = signed_in()
    answer = client.post("/breakers/search_web/trip", sent(), follow=True)
    assert answer.redirect_chain == [("/breakers/search_web", 303)]
    assert "search_web is to be tripped: revision 1" in text_of(answer)
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
        ({"reason": ""}, "Say why, in at least 10 characters."),
        ({"reason": "short"}, "Say a little more: at least 10 characters."),
        ({"reason": "x" * 501}, "Keep it to 500 characters."),
        ({"expires_in_s": ""}, "Choose when it ends."),
        ({"expires_in_s": "99999999"}, "Choose one of the lengths offered."),
        ({"scope": "moon"}, "Choose where."),
        ({"scope": "service"}, "Choose the service."),
        ({"scope": "instance"}, "Choose the instance."),
    ],
)
def test_a_form_says_what_is_wrong_and_keeps_what_was_typed(changed: dict[str, str], fault: str) -> None:
    troubled_fleet()
    answer = signed_in().post("/breakers/search_web/trip", sent(**changed))
    assert answer.status_code == 422
    assert fault in text_of(answer)
    if "reason" not in changed:
        assert REASON in answer.content.decode()
    assert not Override.objects.exists()


def test_all_of_production_needs_the_name_typed() -> None:
    troubled_fleet(environment="prod")
    client = signed_in(environment="prod")
    refused = client.post("/breakers/search_web/trip?environment=prod", sent(confirm="search"))
    assert refused.status_code == 422
    assert "Type search_web exactly as it stands here." in text_of(refused)
    assert client.post("/breakers/search_web/trip", sent(confirm="search_web")).status_code == 303


def test_a_part_of_production_needs_the_name_too() -> None:
    troubled_fleet(environment="prod")
    client, form = signed_in(environment="prod"), sent(scope="service", service="research")
    assert "Needed in prod." in text_of(client.get("/breakers/search_web/trip?environment=prod"))
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
    answer = late.post("/breakers/search_web/disable", sent(key="k-2", reason="mine is another reason"))
    said = text_of(answer)
    assert answer.status_code == 409
    assert "ana tripped search_web" in said
    assert "mine is another reason" in answer.content.decode()
    assert 'name="seen" value="1"' in answer.content.decode()
    again = late.post("/breakers/search_web/disable", sent(key="k-2", seen="1", reason="mine is another reason"))
    assert again.status_code == 303
    assert Override.objects.filter(ended_at=None).get().mode == State.DISABLED


def test_an_instance_that_never_had_the_breaker_is_refused_beside_its_field() -> None:
    troubled_fleet()
    answer = signed_in().post("/breakers/search_web/trip", sent(scope="instance", instance="r-9"))
    assert answer.status_code == 404
    assert "no instance in this scope" in text_of(answer)
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
    assert "search_web is to be tripped" in text_of(client.get("/breakers/search_web"))


def test_a_stale_form_token_is_explained() -> None:
    troubled_fleet()
    client = Client(enforce_csrf_checks=True)
    signed_in()
    client.force_login(get_user_model().objects.get())
    answer = client.post("/breakers/search_web/trip", sent())
    assert answer.status_code == 403
    assert "This form is out of date" in text_of(answer)


# -- policies ----------------------------------------------------------------------------------------------------------
def test_knobs_are_released_and_their_way_to_the_agents_is_shown() -> None:
    troubled_fleet()
    client = signed_in(Role.EDITOR)
    answer = edited(client, max_retries="5", base_delay_s="0.25", retry_capacity_errors="no")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/policies/operations/search_web")
    [rule] = PolicyRelease.objects.get().document["rules"]
    assert rule["knobs"] == {"max_retries": 5, "base_delay_s": 0.25, "retry_capacity_errors": False}
    said = text_of(client.get("/policies/operations/search_web"))
    assert "Policy 1 live for the whole environment since 14:26:18 by ana, revision 1" in said
    assert "0/3 applied , 2 pending (0 s), 1 unreachable" in said
    assert "5 retries in foreground" in said


@pytest.mark.parametrize(
    ("knob", "typed", "fault"),
    [
        ("max_retries", "21", "Max retries is from 0 to 20."),
        ("max_retries", "many", "Max retries is a whole number."),
        ("max_retries", "1.5", "Max retries is a whole number."),
        ("base_delay_s", "-1", "Base delay is from 0 to 3600 s."),
        ("base_delay_s", "nan", "Base delay is a number."),
        ("retry_capacity_errors", "maybe", "Retry capacity errors is true or false."),
        ("sliding_window_type", "moon", "Sliding window type is one of count_based, time_based."),
    ],
)
def test_a_knob_that_cannot_be_is_refused_beside_its_field(knob: str, typed: str, fault: str) -> None:
    troubled_fleet()
    answer = edited(signed_in(Role.EDITOR), **{knob: typed})
    page = answer.content.decode()
    assert answer.status_code == 422
    assert f'id="{knob}-error">{fault}' in page
    assert f'value="{typed}"' in page or KNOBS[knob].kind in ("flag", "word")  # a choice has nothing to keep
    assert not PolicyRelease.objects.exists()


def test_an_emptied_knob_is_taken_back() -> None:
    troubled_fleet()
    client = signed_in(Role.EDITOR)
    edited(client, max_retries="5", base_delay_s="2")
    edited(client, seen="1", key="p-2", base_delay_s="2")
    [rule] = PolicyRelease.objects.latest("version").document["rules"]
    assert rule["knobs"] == {"base_delay_s": 2.0}


def test_who_edits_second_is_told_and_loses_nothing() -> None:
    troubled_fleet()
    edited(signed_in(Role.EDITOR), max_retries="5")
    answer = edited(signed_in(Role.EDITOR, "maya"), key="p-2", max_retries="1")
    assert answer.status_code == 409
    assert "ana edited the policy of search_web" in text_of(answer)
    assert 'name="max_retries" inputmode="decimal" autocomplete="off" value="1"' in answer.content.decode()


def test_an_operation_that_nobody_reported_has_no_policy_page() -> None:
    troubled_fleet()
    assert signed_in().get("/policies/operations/nothing").status_code == 404

"""The notice of an action has a button that takes it back, once, and only where that restores what was there."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from events.models import Agent
from events.queries import retired
from recovery_ops.control.breakers.models.load_shedding import LoadShed
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.issues.models import FailureCase
from recovery_ops.rules.roles import Role
from tests.support.escalation_pages import questions
from tests.support.html import Element, Shown
from tests.support.pages import REASON, signed_in, troubled_fleet
from tests.support.stories import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]
TRIP = {"reason": REASON, "scope": "all", "expires_in_s": "600", "key": "k"}


def undo_form(client: Client, answer: Any) -> tuple[str, Mapping[str, list[str]]] | None:
    """Address and fields of the button in the notice of the page that an action leads to."""
    assert answer.status_code == 303, Shown(answer).root.text[:500]
    forms = Shown(client.get(answer.headers["Location"])).having("undo")
    return _sent(forms[0]) if forms else None


def _sent(form: Element) -> tuple[str, Mapping[str, list[str]]]:
    fields: dict[str, list[str]] = {}
    for one in form.all():
        if one.tag == "input" and one.attributes["name"] != "csrfmiddlewaretoken":
            fields.setdefault(one.attributes["name"], []).append(one.attributes["value"])
    return form.attributes["action"], fields


def undone(client: Client, answer: Any) -> None:
    """Press the button, and once more: sent twice, it is done once."""
    found = undo_form(client, answer)
    assert found is not None
    address, fields = found
    first = client.post(address, fields)
    assert undo_form(client, first) is None, "what takes back is not taken back"
    assert client.post(address, fields).status_code in {303, 422}


@pytest.mark.parametrize("verb", ["trip", "disable", "observe"])
def test_override_is_cleared(verb: str) -> None:
    troubled_fleet()
    client = signed_in(Role.ADMIN)
    undone(client, client.post(f"/breakers/search_web/{verb}", TRIP))
    assert Override.objects.get().ended_at is not None


def test_override_that_replaced_another_offers_no_undo() -> None:
    troubled_fleet()
    client = signed_in(Role.ADMIN)
    assert undo_form(client, client.post("/breakers/search_web/disable", TRIP)) is not None
    assert undo_form(client, client.post("/breakers/search_web/trip", TRIP | {"key": "k-2"})) is None
    assert undo_form(client, client.post("/breakers/search_web/trip", TRIP | {"key": "k-3"})) is None, "it was so"


def test_load_shedding_is_stopped() -> None:
    troubled_fleet()
    client = signed_in(Role.ADMIN)
    form = {"act": "critical", "reason": REASON, "expires_in_s": "600", "confirm": "dev", "key": "k"}
    undone(client, client.post("/shed", form))
    assert LoadShed.objects.get().ended_at is not None
    ahead = f"{NOW + timedelta(hours=3):%Y-%m-%dT%H:%M}"
    undone(client, client.post("/shed", form | {"starts_at": ahead, "key": "k-2"}))
    assert not LoadShed.objects.filter(ended_at=None).exists()


def test_resolved_escalations_are_reopened() -> None:
    asked = questions("charge_card", "publish")
    client = signed_in(Role.RESPONDER)
    numbers = [str(one.pk) for one in asked]
    undone(client, client.post("/escalations/act/resolve", {"number": numbers, "reason": REASON, "key": "k"}))
    assert all(one.is_open for one in Escalation.objects.all())


@pytest.mark.parametrize("verb", ["archive", "resolve"])
def test_issues_are_reopened(verb: str) -> None:
    troubled_fleet()
    client = signed_in(Role.OPERATOR)
    form = {
        "fingerprint": ["unnamed-overloaded-search_web"],
        "reason": REASON,
        "until": "86400",
        "how": "now",
        "key": "k",
    }
    undone(client, client.post(f"/failures/act/{verb}", form))
    assert FailureCase.objects.get().state == "open"


def test_retired_instances_are_restored() -> None:
    troubled_fleet()
    client = signed_in(Role.OPERATOR)
    numbers = [str(one.pk) for one in Agent.objects.filter(instance="r-1")]
    undone(client, client.post("/agents/act/retire", {"agent": numbers, "reason": REASON, "key": "k"}))
    assert retired("dev", now=NOW) == []

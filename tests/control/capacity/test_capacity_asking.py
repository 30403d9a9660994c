"""A person asks a queue about an outage, or notes something on it: one open question, whatever it is merged with."""

from __future__ import annotations

from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client

from events import keys
from events.capacity.detection import look
from events.capacity.models import CapacityEvent
from events.capacity.reach import read_reach
from recovery_ops.control.capacity.models import CapacityNote
from recovery_ops.control.capacity.services import merge_events
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.selectors.by_incident import SAID_MOST
from recovery_ops.control.escalations.services.actions import respond
from recovery_ops.rules.roles import Role
from tests.support.actions import asked as of_ana
from tests.support.api_client import Program
from tests.support.capacity import storm
from tests.support.engines import engine
from tests.support.html import Shown
from tests.support.pages import REASON, signed_in, text_of
from tests.support.stories import NOW, Story
from tests.support.told import untold

__all__ = ["engine"]  # the fixture

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

KNOWN = "Their status page says a fibre was cut."
ASKS = {"queue": "vendors", "severity": "high", "question": "Is this in their contract?", "reason": REASON}


@pytest.fixture
def events(request: pytest.FixtureRequest) -> tuple[int, int]:
    """Two outages of two providers, over by now; the one that began first has the lower number."""
    if "engine" in request.fixturenames:
        request.getfixturevalue("engine")
    storm(Story(), since=400, until=300).store()
    storm(Story(), since=380, until=200, provider="atlas", model="small").store()
    look("dev", NOW)
    read_reach("dev", NOW)
    first, second = CapacityEvent.objects.order_by("pk").values_list("pk", flat=True)
    return first, second


def escalated(client: Client, number: int, **changed: Any) -> Any:
    return client.post(f"/capacity/{number}/ask", ASKS | changed)


def test_an_outage_is_asked_about_and_both_pages_lead_to_each_other(events: tuple[int, int]) -> None:
    client, number = signed_in(Role.RESPONDER), events[0]
    assert 'name="queue"' in client.get(f"/capacity/{number}/ask").content.decode()
    answer = escalated(client, number)
    [one] = Escalation.objects.all()
    assert answer.headers["Location"] == f"/escalations/{one.pk}"
    assert (one.queue, one.severity, one.message, one.capacity_event) == ("vendors", "high", ASKS["question"], number)
    assert (one.operation, one.category, one.service) == ("model:large", "overloaded", "research")
    entry = AuditEntry.objects.get(result=AuditEntry.OK)
    assert (entry.verb, entry.object, entry.reason) == ("capacity.escalate", f"CE-{number}", REASON)
    assert audit.verify_chain("dev").is_whole

    page = unescape(client.get(f"/capacity/{number}").content.decode())
    assert f'href="/escalations/{one.pk}">{one}</a> to vendors' in page
    told = text_of(client.get(f"/escalations/{one.pk}"))
    assert untold(told, f"CE-{number}") == []
    listed = client.get("/capacity?range=1h&column=owner&column=asked").content.decode()
    assert listed.count(f'href="/escalations/{one.pk}">{one}</a>') == 1


def test_there_is_one_open_question_about_an_outage_whatever_it_was_merged_with(
    engine: str, events: tuple[int, int]
) -> None:
    client, (first, second) = signed_in(Role.RESPONDER), events
    escalated(client, second)
    [one] = Escalation.objects.all()
    assert escalated(client, second, queue="another").headers["Location"] == f"/escalations/{one.pk}"
    merge_events(**of_ana(numbers=[first, second], reason=REASON))
    assert escalated(client, first).headers["Location"] == f"/escalations/{one.pk}"
    held = Shown(client.get(f"/capacity/{first}/ask")).one("held", str(one.pk))
    assert untold(held.text, one, "vendors") == []
    assert f'/escalations/{one.pk}"' in client.get(f"/capacity/{first}").content.decode()
    assert f'/escalations/{one.pk}"' in client.get("/capacity?range=1h&column=asked").content.decode()

    # What grew into another keeps what was said of it.
    CapacityEvent.objects.filter(pk=second).update(merged_into=first, part_of=None)
    assert escalated(client, first).headers["Location"] == f"/escalations/{one.pk}"
    assert f'/escalations/{one.pk}"' in client.get("/capacity?range=1h&column=asked").content.decode()

    respond("resolve", **of_ana(number=one.pk, reason="the vendor mended it"))
    escalated(client, first)
    assert Escalation.objects.filter(resolved_at=None).get().capacity_event == first


def test_people_note_what_they_know_of_an_outage(events: tuple[int, int]) -> None:
    client, (first, second) = signed_in(Role.RESPONDER), events
    form = {"environment": "dev", "number": second, "reason": KNOWN}
    assert client.post("/capacity/arrange/note", form).headers["Location"] == f"/capacity/{second}"
    merge_events(**of_ana(numbers=[first, second], reason=REASON))
    page = text_of(client.get(f"/capacity/{first}"))
    assert KNOWN in page
    assert untold(page, f"CE-{second}") == [], "the one of both that it was noted on"
    assert client.post("/capacity/arrange/note", form | {"reason": "short"}).status_code in (400, 422)
    assert signed_in(Role.VIEWER).post("/capacity/arrange/note", form).status_code == 403
    assert CapacityNote.objects.count() == 1
    assert AuditEntry.objects.get(verb="capacity.note", result=AuditEntry.OK).object == f"CE-{second}"


def test_note_on_absorbed_outage_reaches_its_absorber(events: tuple[int, int]) -> None:
    client, (first, second) = signed_in(Role.RESPONDER), events
    CapacityEvent.objects.filter(pk=second).update(merged_into=first)
    form = {"environment": "dev", "number": second, "reason": KNOWN}
    assert client.post("/capacity/arrange/note", form).headers["Location"] == f"/capacity/{first}"
    assert CapacityNote.objects.get().event == first
    assert KNOWN in text_of(client.get(f"/capacity/{first}"))


def test_notes_push_no_open_question_out(events: tuple[int, int]) -> None:
    number = events[0]
    assert escalated(signed_in(Role.RESPONDER), number).status_code == 303
    [question] = Escalation.objects.all()
    later = {"environment": "dev", "event": number, "by": "ana", "at": NOW + timedelta(seconds=5)}
    CapacityNote.objects.bulk_create(CapacityNote(text=f"note {one}", **later) for one in range(SAID_MOST))
    assert Program().get(f"capacity/events/{number}")[1]["escalations"] == [question.pk]


def test_who_may_not_ask_people_is_not_offered_to(events: tuple[int, int]) -> None:
    client = signed_in(Role.VIEWER)
    assert "Escalate…" not in text_of(client.get(f"/capacity/{events[0]}"))
    assert escalated(client, events[0]).status_code == 403
    assert escalated(signed_in(Role.RESPONDER), 999).status_code == 404
    assert not Escalation.objects.exists()


def test_programs_ask_and_note_too(events: tuple[int, int]) -> None:
    keys.forget_keys()
    client = Client(headers={"authorization": f"Bearer {keys.create_key('a', ['read', 'act'], 'dev')[1]}"})
    path = f"/api/v1/capacity/events/{events[0]}"

    def post(word: str, **body: Any) -> Any:
        return client.post(f"{path}/{word}", body, content_type="application/json").json()

    assert post("escalate", **ASKS, dry_run=True)["dry_run"]
    assert post("note", reason=REASON, dry_run=True)["dry_run"]
    assert not Escalation.objects.exists()
    assert not CapacityNote.objects.exists()
    made = post("escalate", **ASKS)
    assert (made["was_already"], made["escalation"]["capacity_event"]) == (False, events[0])
    assert post("escalate", **ASKS | {"queue": "another"})["was_already"]
    assert post("escalate", **ASKS | {"severity": "moon"})["fields"].keys() == {"severity"}
    assert post("note", reason=REASON)["note"]["text"] == REASON
    found = client.get(path).json()
    assert found["escalations"] == [made["escalation"]["number"]]
    assert [one["text"] for one in found["notes"]] == [REASON]
    listed = {one["number"]: one["escalation"] for one in client.get("/api/v1/capacity/events").json()["events"]}
    assert listed == {events[0]: made["escalation"]["number"], events[1]: None}

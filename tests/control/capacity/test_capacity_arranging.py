"""People merge and split capacity events; every later look keeps to it, and each step can be taken back."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from events.capacity.arranging import steps_of
from events.capacity.asking import capacity_events, count_going_on
from events.capacity.detection import look, look_back
from events.capacity.models import CapacityArrangement, CapacityEvent
from events.capacity.reach import read_reach
from events.capacity.rows import CapacityEventRow
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.policies.services import proposals, releases
from recovery_ops.rules.incidents.detection import OutageBounds
from recovery_ops.rules.policy.model import BUILT_IN, Policy, document_of
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person
from tests.support.capacity import storm
from tests.support.html import Shown
from tests.support.pages import REASON, signed_in
from tests.support.stories import NOW, Story, ago
from tests.support.told import untold

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def shown(seconds: float = 9000) -> list[CapacityEventRow]:
    return sorted(capacity_events("dev", start=ago(seconds), end=NOW, now=NOW), key=lambda row: (row.started, row.id))


def spans() -> list[tuple[str, int, int, int]]:
    """Whose, from and to how many seconds ago, how many failures."""
    read_reach("dev", NOW + timedelta(minutes=5))
    return [
        (row.name, round((NOW - row.started).total_seconds()), round((NOW - row.last).total_seconds()), row.failures)
        for row in shown()
    ]


def two_backends() -> tuple[CapacityEvent, CapacityEvent]:
    storm(Story(), since=400, until=300).store()
    storm(Story(), since=380, until=200, provider="atlas", model="small").store()
    look("dev", NOW)
    read_reach("dev", NOW + timedelta(minutes=5))
    large, small = CapacityEvent.objects.order_by("model")
    return large, small


def told(answer: Any) -> list[str]:
    """The messages that a page shows once."""
    return [str(one) for one in answer.context["messages"]]


def arrange(client: Client, verb: str, **fields: Any) -> Any:
    return client.post(f"/capacity/arrange/{verb}", {"environment": "dev", "reason": REASON, **fields})


def test_two_that_were_merged_are_one_and_go_on_as_one() -> None:
    large, small = two_backends()
    assert count_going_on("dev", now=NOW - timedelta(seconds=200)) == 2
    answer = arrange(signed_in(Role.RESPONDER), "merge", number=[large.pk, small.pk])
    assert answer.status_code == 303
    assert answer.headers["Location"] == f"/capacity/{min(large.pk, small.pk)}"
    assert count_going_on("dev", now=NOW - timedelta(seconds=200)) == 1
    assert spans() == [("atlas / small, helios / large", 400, 200, 58)]

    storm(Story(), since=195, until=100, provider="atlas", model="small").store()
    assert look("dev", NOW) == 1
    assert spans() == [("atlas / small, helios / large", 400, 100, 78)]
    client = signed_in(Role.VIEWER)
    assert client.get(f"/capacity/{max(large.pk, small.pk)}", headers={"X-Fragment": "peek"}).status_code == 302
    assert told(client.get("/capacity")) == [], "a message about another page"
    page = client.get(f"/capacity/{max(large.pk, small.pk)}")
    assert page.headers["Location"] == f"/capacity/{min(large.pk, small.pk)}"
    [message] = told(client.get(page.headers["Location"]))
    assert untold(message, f"CE-{max(large.pk, small.pk)}") == []
    arranged = Shown(client.get(f"/capacity/{min(large.pk, small.pk)}")).one("arranged", "merge")
    assert REASON in arranged.text
    entry = AuditEntry.objects.get(verb="capacity.merge")
    about = ", ".join(f"CE-{number}" for number in sorted((large.pk, small.pk)))
    assert (entry.object, entry.reason) == (about, REASON)


def test_the_overview_tells_a_whole_and_not_its_parts_beside_it() -> None:
    for provider in ("helios", "atlas"):
        storm(Story(), since=300, until=0, provider=provider).store()
    look("dev", NOW)
    read_reach("dev", NOW)
    client = signed_in(Role.RESPONDER)
    arrange(client, "merge", number=list(CapacityEvent.objects.values_list("pk", flat=True)))
    page = client.get("/")
    assert untold(page.context["sentence"], "atlas / large", "helios / large") == []
    whole = min(CapacityEvent.objects.values_list("pk", flat=True))
    items = [key for key in Shown(page).values("key") if key.startswith(("outage-", "capacity-"))]
    assert items == [f"outage-{whole}"]


def test_a_merge_is_taken_back_and_what_was_found_meanwhile_stays() -> None:
    large, small = two_backends()
    client = signed_in(Role.RESPONDER)
    arrange(client, "merge", number=[large.pk, small.pk])
    storm(Story(), since=195, until=100, provider="atlas", model="small").store()
    look("dev", NOW)
    made = CapacityArrangement.objects.get()
    assert arrange(client, "undo", arrangement=made.pk).status_code == 303
    assert spans() == [("helios / large", 400, 300, 21), ("atlas / small", 380, 100, 57)]
    for one in (large, small):
        [line] = Shown(client.get(f"/capacity/{one.pk}")).having("ended")
        assert (line.data["arranged"], {line.data["event"], line.data["other"]}) == (
            "merge",
            {str(large.pk), str(small.pk)},
        )
    arrange(client, "undo", arrangement=made.pk)
    assert AuditEntry.objects.filter(verb="capacity.undo").count() == 1, "what is so already is no second deed"


def test_every_arrangement_and_undo_is_a_step() -> None:
    large, small = two_backends()
    client, seen = signed_in(Role.RESPONDER), [steps_of("dev")]
    merge = {"reason": REASON, "numbers": [large.pk, small.pk]}
    for path, body in (("events/merge", merge), ("arrangements/{}/undo", {"reason": REASON})) * 2:
        made = CapacityArrangement.objects.order_by("pk").last()
        place = f"/api/v1/capacity/{path.format(made and made.pk)}"
        for step in seen:
            answer = client.post(place, body, "application/json", headers={"If-Match": f'"{step}"'})
            assert answer.status_code == (200 if step == seen[-1] else 409)
        seen.append(client.get("/api/v1/capacity/events").json()["step"])
    assert seen == sorted(set(seen))


def test_what_was_split_is_not_merged_again_by_any_look_and_comes_together_when_undone() -> None:
    storm(Story(), since=600, until=400).store()
    storm(Story(), since=300, until=100).store()
    look("dev", NOW)
    [event] = CapacityEvent.objects.all()
    client = signed_in(Role.RESPONDER)
    assert Shown(client.get(f"/capacity/arrange/split?number={event.pk}")).fields["number"] == str(event.pk)
    arrange(client, "split", number=event.pk, at=f"{ago(350):%Y-%m-%dT%H:%M:%S}")
    parted = [("helios / large", 600, 400, 41), ("helios / large", 300, 100, 41)]
    assert spans() == parted

    assert look("dev", NOW) == 0
    look_back("dev", NOW)
    assert spans() == parted
    storm(Story(), since=398, until=355).store()
    storm(Story(), since=345, until=305).store()
    look_back("dev", NOW)
    assert spans() == [("helios / large", 600, 358, 50), ("helios / large", 345, 100, 50)], "each half grows by itself"

    arrange(client, "undo", arrangement=CapacityArrangement.objects.get().pk)
    assert spans() == [("helios / large", 600, 100, 100)]
    assert look("dev", NOW) == 0


def test_two_cuts_are_undone_in_any_order() -> None:
    storm(Story(), since=590, until=100).store()
    look("dev", NOW)
    client = signed_in(Role.RESPONDER)
    for at in (300, 450):
        first = CapacityEvent.objects.order_by("started_us").first()
        assert first is not None
        arrange(client, "split", number=first.pk, at=f"{ago(at):%Y-%m-%dT%H:%M:%S}")
    assert [(began, last) for _, began, last, _ in spans()] == [(590, 455), (450, 305), (300, 100)]
    for made in CapacityArrangement.objects.order_by("pk"):
        arrange(client, "undo", arrangement=made.pk)
    assert spans() == [("helios / large", 590, 100, 99)]


def test_late_facts_that_bring_a_part_together_with_another_keep_the_merge() -> None:
    storm(Story(), since=7200, until=7000).store()
    storm(Story(), since=6200, until=6000).store()
    storm(Story(), since=6300, until=6100, provider="other").store()
    look_back("dev", NOW)
    first, _, second = CapacityEvent.objects.order_by("started_us")
    other = CapacityEvent.objects.get(provider="other")
    arrange(signed_in(Role.RESPONDER), "merge", number=[second.pk, other.pk])
    storm(Story(), since=6995, until=6205).store()
    look_back("dev", NOW)
    [row] = shown()
    assert row.id == min(first.pk, other.pk)
    assert {part.name for part in row.parts} == {"helios / large", "other / large"}


@pytest.mark.parametrize(
    ("verb", "fields", "status", "problem", "at_fault"),
    [
        ("merge", {}, 400, "invalid", "numbers"),
        ("split", {"at": "2026-11-21T10:00:00"}, 400, "invalid", "at"),
        ("split", {"at": "soon"}, 422, None, "at"),
        ("split", {}, 422, None, "at"),
        ("split", {"reason": "x" * 501}, 422, None, "reason"),
    ],
)
def test_what_cannot_be_says_why(
    verb: str, fields: dict[str, Any], status: int, problem: str | None, at_fault: str
) -> None:
    large, _ = two_backends()
    answer = arrange(signed_in(Role.RESPONDER), verb, **{"number": large.pk, **fields})
    assert answer.status_code == status
    assert Shown(answer).values("problem") == ([] if problem is None else [problem])
    assert at_fault in {*answer.context["form"].errors, *re.findall(r"\w+", answer.context["problem"])}
    assert not CapacityArrangement.objects.exists()


def test_a_merged_one_is_not_split_and_a_viewer_arranges_nothing() -> None:
    large, small = two_backends()
    client = signed_in(Role.RESPONDER)
    arrange(client, "merge", number=[large.pk, small.pk])
    answer = arrange(client, "split", number=large.pk, at=f"{ago(350):%Y-%m-%dT%H:%M:%S}")
    assert answer.status_code == 409
    assert Shown(answer).values("problem") == ["merged"]
    assert arrange(signed_in(Role.VIEWER, "vera"), "merge", number=[large.pk, small.pk]).status_code == 403


def test_whoever_looked_before_somebody_arranged_is_told() -> None:
    large, small = two_backends()
    client = signed_in(Role.RESPONDER)
    arrange(client, "merge", number=[large.pk, small.pk], seen=0)
    answer = arrange(client, "undo", arrangement=CapacityArrangement.objects.get().pk, seen=0)
    assert answer.status_code == 409
    assert Shown(answer).values("problem") == ["stale"]


def test_when_failures_are_an_outage_is_what_the_live_policy_says() -> None:
    editor = person(Role.EDITOR, "eva")
    storm(Story(), since=300, until=240).store()
    policy = document_of(Policy(capacity_events=OutageBounds(least_failures=10, within_s=30, quiet_s=600, merge_s=900)))
    made = proposals.propose(**asked(by=editor, document=policy, title="fewer events")).object
    proposals.release_proposal(**asked(by=editor, number=made.number))
    assert look("dev", NOW) == 0, "seven in thirty seconds are not ten"
    storm(Story(), since=200, until=150, every=2.0).store()
    look("dev", NOW)
    assert [(row.is_over, round((NOW - row.started).total_seconds())) for row in shown()] == [(False, 200)]
    rule = signed_in(Role.VIEWER).get("/capacity").context["rule"]
    assert untold(rule, 10, "30 s", 2) == []
    releases.roll_back(**asked(by=editor, version=0))
    look("dev", NOW)
    assert [round((NOW - row.started).total_seconds()) for row in shown()] == [300]
    assert document_of(BUILT_IN)["capacity_events"]["least_failures"] == 5

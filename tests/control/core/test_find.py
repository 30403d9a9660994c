"""The search: everything by its name, nothing of another environment, no act that the role does not allow."""

from __future__ import annotations

import re
from html import unescape

import pytest

from events.capacity.models import CapacityEvent
from events.ingest.cardinality import Kind
from events.models import KnownName
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import RunStarted
from recovery_ops.rules.roles import Role
from tests.support.escalations import one_open
from tests.support.pages import HOSTILE, signed_in, text_of, troubled_fleet
from tests.support.stories import Story, failed, heartbeat

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def links(path: str, role: Role = Role.OPERATOR) -> list[str]:
    """Where the hits of a page lead."""
    body = signed_in(role).get(path, headers={"x-fragment": "find-results"}).content.decode()
    return re.findall(r'<a href="([^"]+)"', body)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("search", "/breakers/search_web"),
        ("SEARCH", "/policies/operations/search_web"),
        ("r-0", "/agents/settings?service=research&amp;instance=r-0"),
        ("report", "/report"),
        ("degradations", "/degradations"),
        ("amplification", "/amplification"),
        ("playbook", "/policies?tab=playbook"),
        ("jobs", "/jobs"),
        ("effective settings", "/explain"),
        ("try a failure", "/policies/try"),
        ("run-1", "/runs/run-1"),
        ("n-1", "/runs/run-1"),
        ("changes with user", "/audit"),
        ("password", "/settings/you"),
        ("trip search", "/breakers/search_web/trip"),
        ("reset calm", "/breakers/calm/reset"),
        ("close calm", "/breakers/calm/reset"),
        ("open search", "/breakers/search_web/trip"),
        ("stop research", "/agents/act/stop?whole=research"),
        ("pause research", "/agents/act/pause?whole=research"),
        ("abort run-1", "/runs/run-1/abort"),
        ("shed", "/shed"),
        ("maintenance window", "/named"),
        ("mute", "/settings/notifications/snoozes/new"),
        ("silence", "/settings/notifications/snoozes/new"),
        ("wildcard", "/named"),
        ("user", "/settings/access"),
        ("team", "/settings/access"),
        ("role", "/settings/access"),
        ("key", "/settings/keys"),
        ("token", "/settings/keys"),
        ("mttr", "/report"),
        ("rollback", "/policies/releases"),
        ("2fa", "/settings/you/sign-in"),
        ("dark", "/settings/you"),
        ("install", "/connect"),
        ("", "/wallboard"),
    ],
)
def test_what_has_a_name_is_found_by_it(asked: str, found: str) -> None:
    troubled_fleet()
    assert found in links(f"/find?q={asked}")


@pytest.mark.parametrize("written", ["CE-{}", "ce-{}", "{}"])
def test_a_capacity_event_is_found_by_its_number(written: str) -> None:
    event = CapacityEvent.objects.create(environment="dev", provider="helios", started_us=1, last_us=2)
    other = CapacityEvent.objects.create(environment="prod", provider="helios", started_us=1, last_us=2)
    assert f"/capacity/{event.pk}" in links(f"/find?q={written.format(event.pk)}")
    assert links(f"/find?q=CE-{other.pk}") == []


def test_incidents_are_found_by_their_backend_the_newest_first() -> None:
    whole = {"provider": "helios", "started_us": 1}
    old, new = (CapacityEvent.objects.create(environment="dev", last_us=at, **whole) for at in (2, 3))
    CapacityEvent.objects.create(environment="dev", last_us=4, part_of=new, **whole)
    CapacityEvent.objects.create(environment="dev", last_us=4, merged_into=new, **whole)
    CapacityEvent.objects.create(environment="prod", last_us=4, **whole)
    CapacityEvent.objects.create(environment="dev", model="large", started_us=1, last_us=1)
    assert links("/find?q=HELI") == [f"/capacity/{new.pk}", f"/capacity/{old.pk}"]


def test_runs_are_found_by_a_part_of_their_id_or_name() -> None:
    story = Story()
    for number in range(8):
        story.tell(RunStarted(name="due diligence"), at=60 - number, run=f"7f3a-{number}")
    story.tell(RunStarted(name="other"), at=5, run="9b").store()
    Story("prod").tell(RunStarted(name="due diligence"), at=1, run="7f3a-prod").store()
    newest = [f"/runs/7f3a-{number}" for number in (7, 6, 5, 4, 3, 2)]
    assert links("/find?q=f3a") == newest
    assert links("/find?q=DILIGENCE") == newest
    assert links("/find?q=7f3a-0") == ["/runs/7f3a-0"]
    assert [one for one in links("/find?q=abort+7f3a-0", Role.ADMIN) if "abort" in one] == ["/runs/7f3a-0/abort"]
    assert links("/find?q=7f") == [], "too short"


def test_an_agent_is_found_by_its_service_the_exact_one_first() -> None:
    story = Story()
    for number in range(7):
        story.tell(heartbeat(), at=5, instance=f"x-{number}", service="num-agent-2")
    for name in ("a-0", "a-1"):
        story.tell(heartbeat(), at=60, instance=name, service="num-agent")
    story.store()
    found = [one for one in links("/find?q=num-agent") if one.startswith("/agents")]
    assert found[:2] == ["/agents?service=num-agent", "/agents?service=num-agent-2"]
    assert {one.partition("instance=")[2] for one in found[2:4]} == {"a-0", "a-1"}
    assert len(found) == 2 + 6
    assert [one for one in links("/find?q=a-1") if one.startswith("/agents")] == [
        "/agents/settings?service=num-agent&amp;instance=a-1"
    ]


def test_every_hit_leads_somewhere() -> None:
    troubled_fleet()
    client = signed_in(Role.ADMIN)
    acts = ("trip calm", "stop research", "resume research", "abort run-1", f"ack {one_open().pk}")
    for asked in ("", "search", "key", "r-0", "new", "window", *acts):
        for href in links(f"/find?q={asked}", Role.ADMIN):
            assert client.get(unescape(href)).status_code == 200, href


def test_an_act_is_offered_to_who_may() -> None:
    troubled_fleet()
    assert "/breakers/search_web/trip" not in links("/find?q=search", Role.VIEWER)
    assert "/settings/keys/new" not in links("/find?q=key", Role.OPERATOR)
    assert "/settings/keys/new" in links("/find?q=key", Role.ADMIN)
    for asked, address in (
        ("webhook", "/settings/notifications/channels/new/webhook"),
        ("alert", "/settings/notifications/rules/new"),
        ("teammate", "/settings/access/new"),
    ):
        assert address not in links(f"/find?q={asked}", Role.VIEWER)
        assert address in links(f"/find?q={asked}", Role.ADMIN)


def test_verb_and_number_lead_to_the_action() -> None:
    number = one_open().pk
    for typed, verb in (("ack {}", "acknowledge"), ("assign esc-{}", "assign"), ("resolve ESC-{}", "resolve")):
        asked = typed.format(number)
        assert f"/escalations/act/{verb}?number={number}" in links(f"/find?q={asked}", Role.RESPONDER)
        assert not [one for one in links(f"/find?q={asked}", Role.VIEWER) if "/act/" in one]
    assert f"/escalations/{number}" in links(f"/find?q=ack {number}", Role.VIEWER)


def test_nothing_of_another_environment_is_found_and_nothing_typed_is_markup() -> None:
    troubled_fleet(environment="prod", name="secret_tool")
    assert not [href for href in links("/find?q=secret") if "secret" in href]
    page = signed_in().get("/find", {"q": HOSTILE})
    assert HOSTILE not in page.content.decode()
    assert page.context["groups"] == []
    assert signed_in().get("/find", {"q": "a\0b"}).status_code == 400


def test_the_wallboard_shows_the_worst_and_says_when_nothing_is_known() -> None:
    assert not signed_in(Role.VIEWER).get("/wallboard").context["is_known"]
    troubled_fleet()
    page = signed_in(Role.VIEWER).get("/wallboard")
    assert page.context["is_known"]
    assert "search_web" in text_of(page)
    assert "<button" not in page.content.decode()
    assert "<form" not in page.content.decode()


def test_a_cause_that_is_found_by_its_fingerprint_goes_by_what_it_says() -> None:
    Story().tell(failed(Category.TIMEOUT, fingerprint="f00dbeef", message="Read <b>timed</b> out"), at=30).store()
    for name in ("f00dbeef", "f00d-of-last-year"):
        KnownName.objects.create(environment="dev", kind=Kind.FINGERPRINT.value, name=name, seen_day=1)
    said = text_of(signed_in(Role.VIEWER).get("/find?q=f00d", headers={"x-fragment": "find-results"}))
    assert "timeout “Read" in said
    assert "fingerprint f00dbeef" in said
    assert "f00d-of-last-year fingerprint" in said, "what is not known any more goes by its fingerprint"

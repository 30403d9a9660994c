"""The search: everything by its name, nothing of another environment, no act that the role does not allow."""

from __future__ import annotations

import re
from html import unescape

import pytest

from events.capacity.models import CapacityEvent
from events.cardinality import Kind
from events.models import KnownName
from recovery_ops.control.roles import Role
from recovery_ops.rules.words import Category
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
        ("which rule", "/explain"),
        ("try a failure", "/policies/try"),
        ("run-1", "/runs/run-1"),
        ("who changed", "/audit"),
        ("password", "/settings/you"),
        ("trip search", "/breakers/search_web/trip"),
        ("reset calm", "/breakers/calm/reset"),
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
    for asked in ("", "search", "trip calm", "key", "r-0"):
        for href in links(f"/find?q={asked}", Role.ADMIN):
            assert client.get(unescape(href)).status_code == 200, href


def test_an_act_is_offered_to_who_may() -> None:
    troubled_fleet()
    assert "/breakers/search_web/trip" not in links("/find?q=search", Role.VIEWER)
    assert "/settings/keys/new" not in links("/find?q=key", Role.OPERATOR)
    assert "/settings/keys/new" in links("/find?q=key", Role.ADMIN)


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

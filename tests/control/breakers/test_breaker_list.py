"""The list of breakers: what narrows and sorts it, which columns it shows, and what is done to the chosen ones."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest

from events.models import Agent
from events.moments import to_us
from recovery_ops.rules.enums import Category, State, Trigger
from recovery_ops.rules.events import DesiredStateApplied
from recovery_ops.rules.roles import Role
from tests.support.html import Shown
from tests.support.pages import REASON, held, signed_in, text_of, troubled_fleet
from tests.support.stories import Story, ago, counted, failed, heartbeat, moved
from tests.support.told import untold

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def listed(path: str = "/breakers") -> list[str]:
    """The breakers that a page shows, in its order."""
    return re.findall(r'data-key="breaker-([^"]+)"', signed_in().get(path).content.decode())


def two_services() -> None:
    story = Story()
    for service, name, calls in (
        ("research", "search_web", 90),
        ("billing", "charge_card", 30),
        ("billing", "crm", 60),
    ):
        given: dict[str, Any] = {"service": service, "instance": f"{service}-0"}
        story.tell(heartbeat(), moved(State.CLOSED, breaker=name), counted(calls, name), at=30, **given)
    story.store()


def test_words_and_a_service_narrow_the_list_and_say_what_they_keep_out() -> None:
    two_services()
    assert listed("/breakers?q=CARD") == ["charge_card"]
    assert sorted(listed("/breakers?service=billing")) == ["charge_card", "crm"]
    page = Shown(signed_in().get("/breakers?service=research&q=card"))
    assert page.fields["q"] == "card", "the next choice keeps it"
    empty = page.one("why", "nothing matches")
    assert untold(empty.text, 0, 3, "card", 1) == [], "of how many none is left, and what keeps how many out"
    [link] = Shown(empty).links
    assert listed(f"/breakers{link}") == ["search_web"]


def test_calls_of_a_breaker_that_nobody_reports_are_not_known() -> None:
    two_services()
    Agent.objects.filter(service="billing").update(last_seen_us=to_us(ago(600)))
    rows = {row["breaker"]: row for row in signed_in().get("/breakers?format=json").json()["rows"]}
    assert {name: row["refused per min"] for name, row in rows.items()} == {
        "search_web": 0,
        "charge_card": None,
        "crm": None,
    }
    page = signed_in().get("/breakers?service=billing").content.decode()
    assert re.findall(r'<td class="num">([^<]*)</td>', page) == ["–"] * 6


def test_a_provider_narrows_the_list_the_file_and_the_api_and_says_how_many_it_leaves() -> None:
    two_services()
    Story().tell(counted(5, "crm", provider="sol"), counted(5, "search_web", provider="helios"), at=20).store()
    assert listed("/breakers?provider=sol") == ["crm"]
    client = signed_in()
    page = client.get("/breakers?service=billing&provider=sol").content.decode()
    assert '<option value="sol" selected>sol (1)</option>' in page
    assert '<option value="helios">helios (0)</option>' in page, "of the service that is asked for, too"
    file = client.get("/breakers?provider=sol&format=json").json()
    told = client.get("/api/v1/breakers?provider=sol&environment=dev").json()
    assert [row["name"] for row in told["breakers"]] == [row["breaker"] for row in file["rows"]] == ["crm"]


def test_what_a_chip_shows_a_program_is_told_too() -> None:
    two_services()
    client = signed_in()

    def told(show: str) -> list[str]:
        found = client.get(f"/api/v1/breakers?environment=dev&show={show}").json()
        return [row["name"] for row in found["breakers"]]

    assert told("closed") == sorted(listed("/breakers?show=closed")) == ["charge_card", "crm", "search_web"]
    for show in ("blocking", "late", "drifted", "held"):
        assert told(show) == sorted(listed(f"/breakers?show={show}")), show
    refused = client.get("/api/v1/breakers?environment=dev&show=moon")
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["show"])


def test_a_chip_keeps_the_words_and_counts_what_they_leave() -> None:
    two_services()
    page = signed_in().get("/breakers?q=c&service=billing").content.decode()
    [chips] = re.findall(r'<nav class="filters" aria-label="Show breakers">(.*?)</nav>', page, re.DOTALL)
    assert "All 2" in chips
    assert 'href="?show=closed&amp;q=c&amp;service=billing"' in chips


def test_a_column_sorts_both_ways_and_stays_in_the_address() -> None:
    two_services()
    assert listed("/breakers?sort=-calls") == ["search_web", "crm", "charge_card"]
    assert listed("/breakers?sort=calls") == ["charge_card", "crm", "search_web"]
    page = signed_in().get("/breakers?sort=-calls").content.decode()
    assert 'aria-sort="descending"><a href="?sort=calls"' in page
    assert listed("/breakers?sort=moon") == listed()


def test_columns_that_are_not_chosen_are_left_out() -> None:
    two_services()
    page = signed_in().get("/breakers?column=state&column=calls").content.decode()
    assert 'data-hide="4 5 6 7 9 10 11"' in page  # one more than their place: the boxes come first
    assert (
        'data-hide="3 4 5 6 8 9 10"'
        in signed_in(Role.VIEWER, "eva").get("/breakers?column=state&column=calls").content.decode()
    )
    assert 'data-hide="10"' in signed_in().get("/breakers").content.decode()


def test_the_form_above_keeps_every_column_that_was_chosen() -> None:
    two_services()
    page = signed_in().get("/breakers?column=state&column=calls").content.decode()
    [form] = re.findall(r'<form class="filters".*?</form>', page, re.DOTALL)
    assert re.findall(r'name="column" value="(\w+)"', form) == ["state", "calls"]


def cell(path: str, breaker: str, column: int) -> str:
    """What a viewer reads in the row of a breaker, in the column of this number."""
    page = signed_in(Role.VIEWER, "eva").get(path).content.decode()
    [row] = re.findall(rf'<tr data-key="breaker-{breaker}"[^>]*>(.*?)</tr>', page, re.DOTALL)
    cells = re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", cells[column - 1])).split())


def blocked() -> None:
    """One breaker of each kind that blocks calls, and one of somebody who does not say how long it waits."""
    story = Story()
    for instance in ("r-0", "r-1"):
        story.tell(heartbeat(), at=5, instance=instance)
    story.tell(moved(State.OPEN, breaker="soon", wait_s=60.0), at=20, instance="r-0")
    story.tell(moved(State.OPEN, breaker="soon", wait_s=60.0), at=50, instance="r-1")
    story.tell(moved(State.OPEN, breaker="due", wait_s=30.0), at=40)
    story.tell(moved(State.OPEN, breaker="unsaid"), at=40)
    story.tell(moved(State.OPEN, breaker="absurd", wait_s=1e300), at=40)
    story.tell(moved(State.HALF_OPEN, breaker="probing", trigger=Trigger.WAIT_ELAPSED), at=40)
    tripped: dict[str, Any] = {"trigger": Trigger.OPERATOR_TRIP, "wait_s": 3600.0}
    story.tell(moved(State.FORCED_OPEN, breaker="tripped", **tripped), at=40)
    story.tell(moved(State.CLOSED, breaker="calm", wait_s=60.0), at=40).store()


def test_the_next_probe_is_that_of_the_first_instance_as_it_said_when_it_opened() -> None:
    blocked()
    page = Shown(signed_in().get("/breakers"))
    names = ("soon", "due", "unsaid", "absurd", "probing", "tripped", "calm")
    told = {name: page.within("key", f"breaker-{name}").one("probe") for name in names}
    assert {name: one.data["probe"] for name, one in told.items()} == {
        "soon": "moment",
        "due": "next_call",
        "unsaid": "none",
        "absurd": "none",
        "probing": "now",
        "tripped": "trip_end",
        "calm": "none",
    }
    assert untold(told["soon"].text, "10 s") == []
    assert listed("/breakers?sort=probe")[:2] == ["due", "soon"]


def test_an_instance_that_fell_silent_promises_no_probe() -> None:
    story = Story().tell(heartbeat(), at=300).tell(moved(State.OPEN, wait_s=600.0), at=310).store()
    story.tell(heartbeat(), moved(State.CLOSED), at=5, instance="well").store()
    assert cell("/breakers", "search_web", 6) == "–"


def test_calls_under_way_are_shown_to_those_who_choose_the_column() -> None:
    two_services()
    story = Story().tell(counted(4, "crm", in_flight=9), at=14, service="billing", instance="billing-0")
    story.tell(counted(4, "crm", in_flight=3), at=4, service="billing", instance="billing-0")
    story.tell(counted(4, "crm", in_flight=2), at=6, service="billing", instance="billing-1").store()
    shown = "/breakers?column=in_flight"
    assert cell(shown, "crm", 9) == "5"
    assert cell(shown, "charge_card", 9) == "–", "nobody counted it within 15 s"
    assert cell("/breakers", "crm", 9) == "–"
    assert listed("/breakers?sort=-in_flight")[0] == "crm"


def groups(path: str) -> list[tuple[str, str]]:
    """What the rows of each group have in common, with how many rows stand under its heading."""
    return [(one.data["group"], one.data["breakers"]) for one in Shown(signed_in().get(path)).having("group")]


def test_the_table_is_grouped_by_service_provider_or_group() -> None:
    two_services()
    overloaded = failed(Category.OVERLOADED, "crm", provider="helios", model="large")
    story = Story().tell(overloaded, at=7200, service="billing", instance="billing-0")
    story.tell(moved(State.CLOSED, breaker="search_web"), at=20, service="billing", instance="billing-0").store()
    assert groups("/breakers") == []
    assert groups("/breakers?by=moon") == []
    assert groups("/breakers?by=service&sort=name") == [("billing", "2"), ("billing,research", "1")]
    assert groups("/breakers?by=provider&sort=name") == [("", "2"), ("helios", "1")], "without a provider: nobody said"
    assert listed("/breakers?by=provider&sort=name") == ["charge_card", "search_web", "crm"]
    page = signed_in().get("/breakers?by=service").content.decode()
    assert '<option value="service" selected>' in page
    assert '<option value="group"' not in page, "nobody is in one"


def test_a_file_and_the_api_tell_the_same_of_probes_providers_and_calls_under_way() -> None:
    blocked()
    Story().tell(counted(4, "soon", in_flight=3, provider="helios"), at=4, instance="r-0").store()
    client = signed_in()
    rows = {row["breaker"]: row for row in client.get("/breakers?format=json").json()["rows"]}
    told = {row["name"]: row for row in client.get("/api/v1/breakers").json()["breakers"]}
    assert rows["soon"]["next probe"] == "2026-11-21T14:26:28.000Z"
    assert told["soon"]["next_probe"].startswith("2026-11-21T14:26:28")
    assert (rows["soon"]["in flight"], rows["soon"]["providers"]) == (3, "helios")
    assert (told["soon"]["in_flight"], told["soon"]["providers"]) == (3, ["helios"])
    assert (rows["unsaid"]["next probe"], rows["unsaid"]["in flight"]) == (None, None)
    one = client.get("/api/v1/breakers/soon").json()["breaker"]
    assert (one["next_probe"], one["in_flight"]) == (told["soon"]["next_probe"], 3)


def test_who_obeys_another_state_shows_and_can_be_looked_for() -> None:
    troubled_fleet()
    client = signed_in()
    held(client)
    Story().tell(DesiredStateApplied(revision=9, config_hash="of nobody"), at=1, instance="r-0").store()
    assert sorted(listed("/breakers?show=drifted")) == ["calm", "search_web"]
    assert sorted(listed("/breakers?show=held")) == ["search_web"]
    late = Shown(client.get("/breakers?show=late"))
    assert (late.values("drifted"), late.values("late")) == (["1", "1"], ["1", "1"]), "of both"


def test_what_is_chosen_is_taken_along_and_back() -> None:
    two_services()
    client = signed_in()
    page = client.get("/bulk?name=crm&verb=release&back=%2Fbreakers%3Fservice%3Dbilling").content.decode()
    assert 'value="crm" checked' in page
    assert 'value="release" checked' in page
    assert 'href="/breakers?service=billing&amp;chosen=crm"' in page
    back = client.get("/breakers?service=billing&chosen=crm").content.decode()
    assert re.findall(r'name="name" value="([^"]+)" checked', back) == ["crm"]
    assert 'href="//evil' not in client.get("/bulk?name=crm&back=//evil").content.decode()


def test_a_viewer_is_offered_nothing_to_choose() -> None:
    two_services()
    page = signed_in(Role.VIEWER).get("/breakers").content.decode()
    assert 'name="name"' not in page
    assert "/release" not in page


def test_why_one_is_held_stands_in_its_row_and_in_the_file() -> None:
    troubled_fleet()
    client = signed_in(Role.OPERATOR)
    held(client)
    page = client.get("/breakers")
    assert REASON in text_of(page)
    assert any("format=ndjson" in link for link in Shown(page).links)
    lines = client.get("/breakers?format=ndjson").content.decode().splitlines()
    told = {one["breaker"]: one["held because"] for one in map(json.loads, lines)}
    assert told.pop("search_web") == REASON
    assert set(told.values()) <= {None}

"""The capacity pages: one outage is one row, whose it is stands first, and an old address still leads there."""

from __future__ import annotations

import csv
import re
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from events.capacity.detection import look, look_back
from events.capacity.following import follow_runs
from events.capacity.models import CapacityEvent
from events.capacity.reach import read_reach
from events.capacity.rows import OWNER_CHIPS, OWNER_WORDS, Owner, owner_of
from events.models import MinuteSum, SpanSum
from events.moments import to_us
from events.queries.weekly import capacity_week
from events.wording import rate_text
from recovery_ops.control.capacity.views.week import DAYS, SPANS
from recovery_ops.rules.enums import Category, DelaySource, RunStatus, State
from recovery_ops.rules.events import RetryScheduled, RunFinished
from recovery_ops.rules.roles import Role
from tests.support.api_client import Program
from tests.support.capacity import storm
from tests.support.html import Element, Shown
from tests.support.pages import HOSTILE, REASON, signed_in, text_of
from tests.support.query_counts import asked_of
from tests.support.stories import NOW, Story, heartbeat, moved
from tests.support.told import untold

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def outage(**more: Any) -> CapacityEvent:
    """An outage that began five minutes ago and goes on."""
    storm(Story(), since=300, until=0, **more).tell(moved(State.OPEN, breaker="model:large"), at=200).store()
    look("dev", NOW)
    read_reach("dev", NOW)
    return CapacityEvent.objects.get(merged_into=None)


def fact(client: Client, event: CapacityEvent, name: str) -> Element:
    """What its page says under one heading."""
    return Shown(client.get(f"/capacity/{event.pk}")).one("fact", name)


def moves(client: Client, event: CapacityEvent) -> Element:
    """What its page says of what model:large did."""
    return Shown(client.get(f"/capacity/{event.pk}")).one("key", "moves-model:large")


def listed(client: Client, query: str) -> list[CapacityEvent]:
    """The events in the list, so narrowed."""
    rows = Shown(client.get(f"/capacity?{query}")).values("key")
    numbers = [int(key.removeprefix("event-")) for key in rows if key.startswith("event-")]
    return [CapacityEvent.objects.get(pk=number) for number in numbers]


@pytest.mark.parametrize(
    ("categories", "is_ours", "owner"),
    [
        ({Category.OVERLOADED: 9, Category.RATE_LIMITED: 2}, True, Owner.PROVIDER),
        ({Category.SERVER_ERROR: 9, Category.NETWORK: 5}, True, Owner.PROVIDER),
        ({Category.RATE_LIMITED: 9, Category.OVERLOADED: 2}, False, Owner.QUOTA),
        ({Category.NETWORK: 5, Category.TIMEOUT: 5, Category.OVERLOADED: 6}, False, Owner.UNREACHABLE),
        ({Category.NETWORK: 5, Category.TIMEOUT: 5, Category.OVERLOADED: 6}, True, Owner.NETWORK),
    ],
)
def test_whose_it_is(categories: dict[Category, int], is_ours: bool, owner: Owner) -> None:
    assert owner_of(categories, is_ours=is_ours) is owner


@pytest.mark.parametrize(
    ("said", "owner"),
    [
        ({}, Owner.UNREACHABLE),
        ({"message": "[Errno 111] Connection refused"}, Owner.UNREACHABLE),
        ({"exception_type": "socket.gaierror"}, Owner.NETWORK),
        ({"message": "[Errno -3] Temporary failure in name resolution"}, Owner.NETWORK),
    ],
)
def test_whose_it_is_follows_from_its_own_failures_whatever_else_fails(said: dict[str, str], owner: Owner) -> None:
    """Alone, in the list, on its page, and after other backends failed in the same minute."""
    event = outage(category=Category.NETWORK, **said)
    client = signed_in(Role.VIEWER)

    def owners() -> set[str]:
        listed = client.get("/api/v1/capacity/events").json()["events"]
        told = [one["owner"] for one in listed if one["number"] == event.pk]
        row = Shown(client.get("/capacity")).one("key", f"event-{event.pk}")
        return {*told, row.data["owner"], fact(client, event, "owner").data["value"]}

    assert owners() == {owner}
    assert OWNER_WORDS[owner] in fact(client, event, "owner").text
    storm(Story(), since=290, until=0, provider="atlas", model="x", category=Category.NETWORK).store()
    storm(Story(), since=290, until=0, provider="boreas", model="y").store()
    look("dev", NOW)
    read_reach("dev", NOW)
    assert owners() == {owner}
    assert untold(fact(client, event, "beside").text, "atlas / x", "boreas / y") == []


def test_the_list_the_page_and_programs_say_the_same_of_how_long_it_lasts() -> None:
    """Its last failure is 40 s old, but it is not over: it lasts to now."""
    storm(Story(), since=300, until=40).store()
    look("dev", NOW)
    read_reach("dev", NOW)
    event = CapacityEvent.objects.get()
    client = signed_in(Role.VIEWER)
    assert untold(Shown(client.get("/capacity")).one("key", f"event-{event.pk}").text, "5m 00s") == []
    assert untold(text_of(client.get(f"/capacity/{event.pk}")), "5m 00s") == []
    assert client.get(f"/api/v1/capacity/events/{event.pk}").json()["event"]["lasted_s"] == 300
    [row] = csv.DictReader(StringIO(client.get("/capacity?format=csv").content.decode()))
    assert row["lasted s"] == "300.0"


def test_who_waits_and_what_its_runs_used_is_told_or_that_it_is_not_known() -> None:
    event = outage()
    client = signed_in(Role.VIEWER)
    waiting, tokens = (fact(client, event, name) for name in ("waiting", "tokens"))
    assert (waiting.data["value"], untold(tokens.text, 3)) == ("0", [])
    assert "value" not in tokens.data, "not known"
    story = Story().tell(
        RunFinished(status=RunStatus.SUCCEEDED, duration_s=9.0, input_tokens=900, output_tokens=100, cost_usd=0.25),
        at=0,
        run="run-0",
    )
    retry = RetryScheduled(
        operation="model:large",
        attempt=2,
        delay_s=30.0,
        delay_source=DelaySource.RETRY_AFTER,
        category=Category.OVERLOADED,
    )
    story.tell(retry, at=0, run="run-1").store()
    follow_runs("dev", NOW)
    waiting, tokens, cost = (fact(client, event, name) for name in ("waiting", "tokens", "cost"))
    assert (waiting.data["value"], tokens.data["value"], cost.data["value"]) == ("1", "3000", "0.75")
    assert (untold(tokens.text, "3,000", 1, 3), untold(cost.text, "$0.75", 1, 3)) == ([], [])
    assert untold(Shown(client.get("/capacity")).one("outlook", "going_on").text, 3, 2, 1) == []
    found = client.get(f"/api/v1/capacity/events/{event.pk}").json()["event"]
    assert (found["runs_waiting"], found["estimated_tokens"], found["estimated_tokens_by_runs"]) == (1, 3000, 1)
    assert (found["estimated_cost_usd"], found["estimated_cost_by_runs"]) == (0.75, 1)


def test_the_page_says_who_is_overloaded_since_when_and_that_there_is_nothing_to_do() -> None:
    event = outage(retry_after_s=20.0)
    page = Shown(signed_in(Role.VIEWER).get("/capacity"))
    assert untold(page.one("outlook", "going_on").text, "helios / large", "14:21:18", 3, 2) == []
    row = page.one("key", f"event-{event.pk}")
    assert row.data["owner"] == Owner.PROVIDER
    assert untold(row.text, f"CE-{event.pk}", "61 × overloaded", "20 s") == []


def test_its_three_pages_lead_to_each_other() -> None:
    outage()
    for path in ("/capacity", "/degradations", "/amplification"):
        page = signed_in(Role.VIEWER).get(path).content.decode()
        assert [word for word in ("Incidents", "Degradations", "Amplification") if f">{word}</a>" not in page] == [], (
            path
        )


def test_when_all_is_well_it_says_since_when() -> None:
    client = signed_in(Role.VIEWER)
    assert Shown(client.get("/capacity")).values("outlook") == ["none"]
    storm(Story(), since=7200, until=7100).store()
    look_back("dev", NOW)
    Story().tell(heartbeat(), at=1).store()
    last = Shown(client.get("/capacity?range=15m")).one("outlook", "over")
    assert untold(last.text, "helios / large", "1h 58m 20s") == []


def test_while_nobody_reports_nobody_knows_whether_an_outage_goes_on() -> None:
    storm(Story(), since=7200, until=7100).store()
    look_back("dev", NOW)
    client = signed_in(Role.VIEWER)
    assert "helios" in Shown(client.get("/capacity?range=6h")).one("outlook", "unknown").text
    Story().tell(heartbeat(), at=1).store()
    assert "helios" in Shown(client.get("/capacity?range=6h")).one("outlook", "over").text


def test_events_are_chosen_by_whose_they_are() -> None:
    event = outage()
    client = signed_in(Role.VIEWER)
    assert listed(client, "show=provider") == [event]
    assert listed(client, "show=quota") == []
    empty = Shown(client.get("/capacity?show=quota")).one("why")
    assert untold(empty.text, 0, 1, OWNER_CHIPS[Owner.QUOTA]) == []


def test_regions_stand_in_the_list_on_the_page_and_in_the_export_and_are_chosen() -> None:
    for region, until in (("eu-west-1", 0), ("us-east-1", 100)):
        storm(Story(), since=300, until=until, region=region).store()
    storm(Story(), since=300, until=0, provider="atlas").store()
    look("dev", NOW)
    read_reach("dev", NOW)
    event = CapacityEvent.objects.get(region="eu-west-1")
    client = signed_in(Role.RESPONDER)
    row = Shown(client.get("/capacity")).one("key", f"event-{event.pk}")
    assert untold(row.text, "helios / large", "eu-west-1", "us-east-1") == []
    assert (row.data["maker"], row.data["parts"]) == ("rule", "2")
    assert listed(client, "region=us-east-1&provider=helios") == [event]
    assert untold(Shown(client.get("/capacity?region=nowhere")).one("why").text, 0, 2) == []
    assert untold(fact(client, event, "regions").text, "eu-west-1", 61, "us-east-1", 41) == []
    rows = list(
        csv.DictReader(StringIO(client.get("/capacity?format=csv&region=eu-west-1").content.decode("utf-8-sig")))
    )
    assert [row["regions"] for row in rows] == ["eu-west-1, us-east-1"]
    failures = text_of(client.get("/failures?range=1h"))
    assert "us-east-1" in failures
    part = CapacityEvent.objects.get(region="us-east-1")
    assert Shown(client.get(f"/capacity/arrange/apart?number={part.pk}")).fields["number"] == str(part.pk)
    given = {"environment": "dev", "reason": REASON, "number": part.pk}
    assert client.post("/capacity/arrange/apart", given).headers["Location"] == f"/capacity/{part.pk}"
    apart = Shown(client.get(f"/capacity/{part.pk}")).one("arranged", "apart")
    assert (apart.data["event"], apart.data["other"]) == (str(part.pk), str(event.pk))


def test_one_event_tells_what_it_reached_and_what_was_like_it() -> None:
    storm(Story(), since=7200, until=7100).store()
    look_back("dev", NOW)
    storm(Story(), since=300, until=200, status_code=529, message="Overloaded").store()
    look("dev", NOW)
    read_reach("dev", NOW + timedelta(minutes=5))
    before, event = CapacityEvent.objects.order_by("started_us")
    client = signed_in(Role.VIEWER)
    assert re.findall(r"\d+", fact(client, event, "failures").text) == ["21", "21", "0"], "foreground and background"
    assert untold(fact(client, event, "codes").text, 529, 21) == []
    assert untold(fact(client, event, "agents").text, "research", 2) == []
    said = text_of(client.get(f"/capacity/{event.pk}"))
    assert "Overloaded" in said
    assert f"CE-{before.pk}" in said
    assert "model:large" in said


def test_what_each_breaker_did_stands_on_the_page_in_the_export_and_in_the_api_and_is_added_up_in_a_whole() -> None:
    large = outage()
    storm(Story(), since=300, until=0, model="small").store()
    story = Story().tell(moved(State.HALF_OPEN, breaker="model:large"), at=180)
    for instance in ("a-2", "a-3"):
        story.tell(moved(State.OPEN, breaker="model:large"), at=190, instance=instance)
    story.tell(moved(State.CLOSED, breaker="model:large"), at=170)
    story.tell(moved(State.CLOSED, breaker="model:large"), at=150, instance="a-2").store()
    look("dev", NOW)
    look_back("dev", NOW)
    read_reach("dev", NOW)
    follow_runs("dev", NOW)
    client = signed_in(Role.RESPONDER)
    row = moves(client, large)
    assert row.text.split()[:6] == ["model:large", "14:22:58", "3", "3", "1", "2"]
    assert Shown(row).values("open") == ["1"], "the instances in which it was not closed"
    Story().tell(moved(State.CLOSED, breaker="model:large"), at=100, instance="a-3").store()
    follow_runs("dev", NOW + timedelta(seconds=11))
    assert moves(client, large).text == "model:large 14:22:58 3 3 1 3 14:24:38"
    rows = list(csv.DictReader(StringIO(client.get("/capacity?format=csv").content.decode("utf-8-sig"))))
    [cell] = {row["breakers moved"] for row in rows if "model:large" in row["breakers moved"]}
    assert untold(cell, 3, "14:22:58", 1, "14:24:38") == []
    [told] = client.get(f"/api/v1/capacity/events/{large.pk}").json()["event"]["breakers_moved"]
    assert (told["openings"], told["not_closed"], told["closed_at"]) == (3, 0, "2026-11-21T14:24:38.000+00:00")
    small = CapacityEvent.objects.get(model="small")
    numbers = [large.pk, small.pk]
    client.post("/capacity/arrange/merge", {"environment": "dev", "reason": REASON, "number": numbers})
    whole = CapacityEvent.objects.get(pk=min(numbers))
    assert Shown(client.get(f"/capacity/{whole.pk}")).values("least") == ["2"], "counts are at least, of two parts"
    assert moves(client, whole).text == "model:large 14:22:58 3 3 1 3 14:24:38", "the same moves are not counted twice"


def test_an_event_that_became_part_of_another_leads_there() -> None:
    first = outage()
    second = CapacityEvent.objects.create(environment="dev", started_us=1, last_us=2, merged_into=first)
    answer = signed_in(Role.VIEWER).get(f"/capacity/{second.pk}")
    assert (answer.status_code, answer.headers["Location"]) == (302, f"/capacity/{first.pk}")


def test_an_unknown_event_and_one_of_another_environment_are_not_there() -> None:
    event = outage()
    CapacityEvent.objects.filter(pk=event.pk).update(environment="prod")
    client = signed_in(Role.VIEWER)
    assert client.get(f"/capacity/{event.pk}").status_code == 404
    assert client.get("/capacity/987654").status_code == 404


def test_an_event_outlives_its_facts() -> None:
    event = outage()
    CapacityEvent.objects.filter(pk=event.pk).update(started_us=1_000_000, last_us=2_000_000)
    page = Shown(signed_in(Role.VIEWER).get(f"/capacity/{event.pk}"))
    assert "expired" in page.values("empty")
    assert [key for key in page.values("key") if key.startswith("failure-")] == []


def test_names_from_outside_are_shown_and_never_run() -> None:
    event = outage(provider="", model="", operation=HOSTILE)
    client = signed_in(Role.VIEWER)
    for path in ("/capacity", f"/capacity/{event.pk}"):
        page = client.get(path).content.decode()
        assert "<img" not in page
        assert "&lt;img" in page


def test_the_navigation_counts_what_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    outage()
    client = signed_in(Role.VIEWER)
    headers = {"X-Fragment": "nav"}
    assert "ongoing: 1" in text_of(client.get("/counts", headers=headers))
    monkeypatch.setattr(timezone, "now", lambda: NOW + timedelta(minutes=3))
    assert "ongoing" not in text_of(client.get("/counts", headers=headers))


def test_an_outage_that_goes_on_says_how_its_breakers_stand_also_those_that_opened_after_its_last_failure() -> None:
    event = outage()
    client = signed_in(Role.VIEWER)
    assert untold(fact(client, event, "breakers").text, "model:large", State.OPEN, 1) == []
    Story().tell(moved(State.HALF_OPEN, before=State.OPEN, breaker="model:large"), at=0).store()
    assert untold(fact(client, event, "breakers").text, "model:large", "half-open", 1) == []


# -- narrowed, and folded onto a week ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("query", "is_there"),
    [
        ("", True),
        ("provider=helios", True),
        ("provider=moon", False),
        ("model=large", True),
        ("model=lar", False),
        ("code=529", True),
        ("code=429", False),
        ("owner=provider", True),
        ("owner=quota", False),
        ("state=going_on", True),
        ("state=over", False),
        ("breaker=model:large", True),
        ("service=moon", False),
        ("runs=100000", False),
        ("lasted_s=200", True),
        ("lasted_s=4000", False),
        ("runs=nan&owner=moon&state=moon", True),
    ],
)
def test_events_are_narrowed_on_the_page_in_files_and_for_programs_alike(query: str, is_there: bool) -> None:
    made = outage(status_code=529)
    page = signed_in(Role.VIEWER).get(f"/capacity?{query}")
    assert (f'data-key="event-{made.pk}"' in page.content.decode()) is is_there
    assert ('data-why="nothing matches"' in page.content.decode()) is not is_there
    told = signed_in(Role.VIEWER).get(f"/capacity?{query}&format=json").json()["rows"]
    assert len(told) == is_there
    assert len(Program("read").get(f"capacity/events?{query}")[1]["events"]) == is_there


def test_a_chip_goes_with_what_narrows_the_list() -> None:
    outage()
    page = signed_in().get("/capacity?provider=helios&range=1h").content.decode()
    assert 'href="?show=provider&amp;provider=helios&amp;range=1h"' in page


def test_four_weeks_are_folded_onto_one_and_what_nobody_told_is_unknown() -> None:
    week = 7 * 86_400
    story = Story()
    for ago_s in (2 * week, week, 0):  # three Saturdays, the span from 14 h
        storm(story, since=ago_s + 300, until=ago_s)
        story.tell(heartbeat(), at=ago_s + 400, instance="a-1").tell(heartbeat(), at=ago_s + 10, instance="a-1")
    story.store()
    found = capacity_week("dev", end=NOW)
    saturday, span = 5, 14 // 2
    total = sum(map(sum, found.counts))
    assert total == found.counts[saturday][span] > 0
    assert found.per_week(saturday, span) == total / found.known[saturday][span]
    page = signed_in().get("/capacity?heat=week")
    assert untold(page.context["week"].words, DAYS[saturday], SPANS[span]) == []
    assert page.content.decode().count("<rect") >= 7 * 12
    assert page.context["week"].table[saturday][1][span].split()[0] == rate_text(total / found.known[saturday][span])


def test_a_week_of_which_nothing_is_known_says_so() -> None:
    week = signed_in().get("/capacity?heat=week").context["week"]
    assert untold(week.words, 0, 7 * len(SPANS)) == [], "of how many spans of the week anything is known"
    assert not any(re.search(r"\d", cell) for _, cells in week.table for cell in cells)
    assert not any(re.search(r"\d", row.value) for row in week.rows)


def test_the_page_asks_as_often_whether_outages_go_on_are_over_or_lie_before_the_range() -> None:
    """Over it was two questions more, and the list of a seeded store went beyond what a page may ask."""
    client = signed_in(Role.VIEWER)
    Story().tell(heartbeat(), at=0).store()
    look_back("dev", NOW)
    ranges = ("range=6h", "range=1h", "from=2026-07-01T00:00:00Z&to=2026-07-02T00:00:00Z")

    def asked(path: str) -> int:
        client.get(path)  # the range that is chosen is noted in the session, once
        return asked_of(client, path)

    none = {words: asked(f"/capacity?{words}") for words in ranges}
    for hours_ago in (2, 4):
        storm(Story(), since=3600 * hours_ago, until=3600 * hours_ago - 300).store()
        look_back("dev", NOW)
    assert Shown(client.get("/capacity?range=6h")).values("outlook") == ["over"]
    assert all(asked(f"/capacity?{words}") <= none[words] for words in ranges)


@pytest.mark.parametrize("named", [{}, {"provider": "", "model": ""}], ids=["a backend", "one that nobody names"])
def test_two_events_are_drawn_over_each_other_from_their_beginnings_on(named: dict[str, Any]) -> None:
    storm(Story(), since=7200, until=6900, **named).store()
    look_back("dev", NOW)
    storm(Story(), since=300, until=200, status_code=529, **named).store()
    look("dev", NOW)
    read_reach("dev", NOW + timedelta(minutes=5))
    before, event = CapacityEvent.objects.order_by("started_us")
    client = signed_in(Role.VIEWER)
    plain = client.get(f"/capacity/{event.pk}").content.decode()
    assert "data-line" not in plain
    assert f'href="?with={before.pk}#compared"' in plain
    page = client.get(f"/capacity/{event.pk}?with={before.pk}").content.decode()
    drawn = re.findall(r'data-line="(\d)" points="([^"]+)"/>(?=<polyline|<rect class="catch"|</svg><)', page)
    assert [line for line, _ in drawn[:2]] == ["0", "1"]
    table = re.search(r'id="compared".*?<table>(.*?)</table>', page, re.DOTALL)
    assert table is not None
    rows = [re.findall(r"<t[hd][^>]*>([^<]+)</t[hd]>", row) for row in re.findall(r"<tr>.*?</tr>", table[1])[1:]]
    # Every failure of each stands in a row, and the one that was over sooner says so.
    sums = [sum(int(row[place]) for row in rows if row[place] != "ended") for place in (1, 2)]
    assert sums == [event.failures, before.failures]
    assert (rows[-1][1], rows[-1][2].isdigit()) == ("ended", True)
    for asked in ("999", "x", str(event.pk)):
        assert "data-line" not in client.get(f"/capacity/{event.pk}?with={asked}").content.decode()
    earlier = to_us(NOW) // 60_000_000 - 60
    SpanSum.objects.filter(span__lt=earlier, minutes=1).delete()
    MinuteSum.objects.filter(minute__lt=earlier).delete()
    compared = Shown(client.get(f"/capacity/{event.pk}?with={before.pk}"))
    assert compared.values("missing") == [f"CE-{before.pk}"], "its sums are not kept"


def test_an_outage_that_opened_many_breakers_names_few_of_them_in_the_list() -> None:
    event = outage()
    CapacityEvent.objects.filter(pk=event.pk).update(breakers={f"operation_{number}": 1 for number in range(5)})
    page = signed_in().get("/capacity").content.decode()
    [cell] = re.findall(r'<td class="wrap" data-narrow>(?=<a href="/breakers)(.*?)</td>', page)
    assert re.findall(r"<code>([^<]+)<", cell) == ["operation_0", "operation_1", "operation_2"]
    [rest] = re.findall(r"<small>([^<]+)<", cell)
    assert untold(rest, 2) == [], "how many more there are"

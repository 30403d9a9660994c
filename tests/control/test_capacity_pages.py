"""The capacity pages: one outage is one row, whose it is stands first, and an old address still leads there."""

from __future__ import annotations

import csv
import re
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
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
from recovery_ops.control.roles import Role
from recovery_ops.rules.facts import RetryScheduled, RunFinished
from recovery_ops.rules.words import Category, DelaySource, RunStatus, State
from tests.support.api_client import Program
from tests.support.capacity import storm
from tests.support.pages import HOSTILE, REASON, signed_in, text_of
from tests.support.query_counts import asked_of
from tests.support.stories import NOW, Story, heartbeat, moved

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def outage(**more: Any) -> CapacityEvent:
    """An outage that began five minutes ago and goes on."""
    storm(Story(), since=300, until=0, **more).tell(moved(State.OPEN, breaker="model:large"), at=200).store()
    look("dev", NOW)
    read_reach("dev", NOW)
    return CapacityEvent.objects.get(merged_into=None)


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
    ("said", "word"),
    [
        ({}, "not reachable"),
        ({"message": "[Errno 111] Connection refused"}, "not reachable"),
        ({"exception_type": "socket.gaierror"}, "our network"),
        ({"message": "[Errno -3] Temporary failure in name resolution"}, "our network"),
    ],
)
def test_whose_it_is_follows_from_its_own_failures_whatever_else_fails(said: dict[str, str], word: str) -> None:
    """Alone, in the list, on its page, and after other backends failed in the same minute."""
    event = outage(category=Category.NETWORK, **said)
    client = signed_in(Role.VIEWER)

    def words() -> set[str]:
        listed = client.get("/api/v1/capacity/events").json()["events"]
        page = text_of(client.get(f"/capacity/{event.pk}"))
        told = [one["owner_words"] for one in listed if one["number"] == event.pk]
        return {*told, *(one for one in OWNER_WORDS.values() if f"Whose {one}" in page)}

    assert words() == {next(OWNER_WORDS[one] for one, chip in OWNER_CHIPS.items() if chip == word)}
    before = words()
    storm(Story(), since=290, until=0, provider="atlas", model="x", category=Category.NETWORK).store()
    storm(Story(), since=290, until=0, provider="boreas", model="y").store()
    look("dev", NOW)
    read_reach("dev", NOW)
    assert words() == before
    assert "Failed beside it atlas / x and boreas / y" in text_of(client.get(f"/capacity/{event.pk}"))


def test_the_list_the_page_and_programs_say_the_same_of_how_long_it_lasts() -> None:
    """Its last failure is 40 s old, but it is not over: it lasts to now."""
    storm(Story(), since=300, until=40).store()
    look("dev", NOW)
    read_reach("dev", NOW)
    event = CapacityEvent.objects.get()
    client = signed_in(Role.VIEWER)
    assert "5m 00s so far" in text_of(client.get("/capacity"))
    assert "Lasted 5m 00s so far" in text_of(client.get(f"/capacity/{event.pk}"))
    assert client.get(f"/api/v1/capacity/events/{event.pk}").json()["event"]["lasted_s"] == 300
    [row] = csv.DictReader(StringIO(client.get("/capacity?format=csv").content.decode()))
    assert row["lasted s"] == "300.0"


def test_who_waits_and_what_its_runs_used_is_told_or_that_it_is_not_known() -> None:
    event = outage()
    client = signed_in(Role.VIEWER)
    said = text_of(client.get(f"/capacity/{event.pk}"))
    assert "Runs waiting none now" in said
    assert "Estimated tokens not known: none of its 3 runs has said so" in said
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
    said = text_of(client.get(f"/capacity/{event.pk}"))
    assert "Runs waiting 1 run now" in said
    assert "Estimated tokens about 3,000, by the 1 of 3 runs that said so" in said
    assert "Estimated cost about $0.75, by the 1 of 3 runs that said so" in said
    assert "3 runs on 2 instances, 1 run waits" in text_of(client.get("/capacity"))
    found = client.get(f"/api/v1/capacity/events/{event.pk}").json()["event"]
    assert (found["runs_waiting"], found["estimated_tokens"], found["estimated_tokens_by_runs"]) == (1, 3000, 1)
    assert (found["estimated_cost_usd"], found["estimated_cost_by_runs"]) == (0.75, 1)


def test_the_page_says_who_is_overloaded_since_when_and_that_there_is_nothing_to_do() -> None:
    event = outage(retry_after_s=20.0)
    said = text_of(signed_in(Role.VIEWER).get("/capacity"))
    assert "helios / large: provider overloaded, nothing for us to do, since 14:21:18; 3 runs on 2 instances" in said
    assert f"CE-{event.pk}" in said
    assert "61 × overloaded" in said
    assert "20 s" in said


def test_its_three_pages_lead_to_each_other() -> None:
    outage()
    for path in ("/capacity", "/degradations", "/amplification"):
        page = signed_in(Role.VIEWER).get(path).content.decode()
        assert [word for word in ("Events", "Degradations", "Amplification") if f">{word}</a>" not in page] == [], path


def test_when_all_is_well_it_says_since_when() -> None:
    client = signed_in(Role.VIEWER)
    assert "No outage or overload has been seen here." in text_of(client.get("/capacity"))
    storm(Story(), since=7200, until=7100).store()
    look_back("dev", NOW)
    assert "The last, of helios / large, ended 1h 58m 20s ago." in text_of(client.get("/capacity?range=15m"))


def test_while_nobody_reports_nobody_knows_whether_an_outage_goes_on() -> None:
    storm(Story(), since=7200, until=7100).store()
    look_back("dev", NOW)
    client = signed_in(Role.VIEWER)
    assert "Whether an outage goes on is not known: nobody reports. The last, of helios" in text_of(
        client.get("/capacity?range=6h")
    )
    Story().tell(heartbeat(), at=1).store()
    assert "No outage or overload goes on. The last, of helios" in text_of(client.get("/capacity?range=6h"))


def test_events_are_chosen_by_whose_they_are() -> None:
    outage()
    client = signed_in(Role.VIEWER)
    assert "helios / large" in text_of(client.get("/capacity?show=provider")).partition("Events")[2]
    said = text_of(client.get("/capacity?show=quota"))
    assert "0 of 1 event" in said
    assert "None is our quota." in said


def test_regions_stand_in_the_list_on_the_page_and_in_the_export_and_are_chosen() -> None:
    for region, until in (("eu-west-1", 0), ("us-east-1", 100)):
        storm(Story(), since=300, until=until, region=region).store()
    storm(Story(), since=300, until=0, provider="atlas").store()
    look("dev", NOW)
    read_reach("dev", NOW)
    event = CapacityEvent.objects.get(region="eu-west-1")
    client = signed_in(Role.RESPONDER)
    said = text_of(client.get("/capacity"))
    assert "helios / large in eu-west-1, us-east-1" in said
    assert "of 2 by the rule" in said
    chosen = text_of(client.get("/capacity?region=us-east-1&provider=helios"))
    assert "atlas / large" not in chosen.partition("one outage is one event")[2]
    assert "0 of 2 events" in text_of(client.get("/capacity?region=nowhere"))
    page = text_of(client.get(f"/capacity/{event.pk}"))
    assert "Regions eu-west-1 (61 failures) and us-east-1 (41 failures)" in page
    assert "one event by the rule" in page
    rows = list(
        csv.DictReader(StringIO(client.get("/capacity?format=csv&region=eu-west-1").content.decode("utf-8-sig")))
    )
    assert [row["regions"] for row in rows] == ["eu-west-1, us-east-1"]
    failures = text_of(client.get("/failures?range=1h"))
    assert "us-east-1" in failures
    part = CapacityEvent.objects.get(region="us-east-1")
    form = text_of(client.get(f"/capacity/arrange/apart?number={part.pk}"))
    assert "It is an event of its own" in form
    given = {"environment": "dev", "reason": REASON, "number": part.pk}
    assert client.post("/capacity/arrange/apart", given).headers["Location"] == f"/capacity/{part.pk}"
    assert "is apart from" in text_of(client.get(f"/capacity/{part.pk}"))


def test_one_event_tells_what_it_reached_and_what_was_like_it() -> None:
    storm(Story(), since=7200, until=7100).store()
    look_back("dev", NOW)
    storm(Story(), since=300, until=200, status_code=529, message="Overloaded").store()
    look("dev", NOW)
    read_reach("dev", NOW + timedelta(minutes=5))
    before, event = CapacityEvent.objects.order_by("started_us")
    said = text_of(signed_in(Role.VIEWER).get(f"/capacity/{event.pk}"))
    assert "21: 21 foreground, 0 background" in said
    assert "Codes 529 (21 times)" in said
    assert "Agents research (2 instances)" in said
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
    said = text_of(client.get(f"/capacity/{large.pk}"))
    assert "model:large 14:22:58 3 3 1 2 not in 1 instance" in said
    Story().tell(moved(State.CLOSED, breaker="model:large"), at=100, instance="a-3").store()
    follow_runs("dev", NOW + timedelta(seconds=11))
    said = text_of(client.get(f"/capacity/{large.pk}"))
    assert "model:large 14:22:58 3 3 1 3 14:24:38" in said
    words = "opened 3 times in 3 instances from 14:22:58 UTC, half-open 1 time, closed in all at 14:24:38 UTC"
    rows = list(csv.DictReader(StringIO(client.get("/capacity?format=csv").content.decode("utf-8-sig"))))
    assert f"model:large: {words}" in {row["breakers moved"] for row in rows}
    [told] = client.get(f"/api/v1/capacity/events/{large.pk}").json()["event"]["breakers_moved"]
    assert (told["openings"], told["not_closed"], told["closed_at"]) == (3, 0, "2026-11-21T14:24:38.000+00:00")
    small = CapacityEvent.objects.get(model="small")
    numbers = [large.pk, small.pk]
    client.post("/capacity/arrange/merge", {"environment": "dev", "reason": REASON, "number": numbers})
    whole = text_of(client.get(f"/capacity/{min(numbers)}"))
    assert "counts are at least" in whole
    assert "model:large 14:22:58 3 3 1 3 14:24:38" in whole, "the same moves are not counted twice"


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
    said = text_of(signed_in(Role.VIEWER).get(f"/capacity/{event.pk}"))
    assert "The failures themselves are not kept any more" in said


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
    assert "going on: 1" in text_of(client.get("/counts", headers=headers))
    monkeypatch.setattr(timezone, "now", lambda: NOW + timedelta(minutes=3))
    assert "going on" not in text_of(client.get("/counts", headers=headers))


def test_an_outage_that_goes_on_says_how_its_breakers_stand_also_those_that_opened_after_its_last_failure() -> None:
    event = outage()
    client = signed_in(Role.VIEWER)
    assert "Breakers now model:large is open on 1 of" in text_of(client.get(f"/capacity/{event.pk}"))
    Story().tell(moved(State.HALF_OPEN, before=State.OPEN, breaker="model:large"), at=0).store()
    assert "Breakers now model:large is half_open on 1 of" in text_of(client.get(f"/capacity/{event.pk}"))


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
    said = text_of(page)
    assert "Worst on Saturday 14–16 h" in said
    assert page.content.decode().count("<rect") >= 7 * 12
    assert f"Saturday 14–16 h: {rate_text(total / found.known[saturday][span])} a week" in page.content.decode()


def test_a_week_of_which_nothing_is_known_says_so() -> None:
    said = text_of(signed_in().get("/capacity?heat=week"))
    assert "as far as it is known: 0 of 84 spans" in said
    assert "0 in all" not in said


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
    assert "The last, of" in text_of(client.get("/capacity?range=6h"))
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
    drawn = re.findall(r'data-line="(\d)" points="([^"]+)"/>(?=<polyline|</svg><)', page)
    assert [line for line, _ in drawn[:2]] == ["0", "1"]
    table = re.search(r"Failed attempts from the beginning on(.*?)</table>", page, re.DOTALL)
    assert table is not None
    rows = [re.findall(r"<t[hd][^>]*>([^<]+)</t[hd]>", row) for row in re.findall(r"<tr>.*?</tr>", table[1])[1:]]
    assert rows[0][0] == "its beginning"
    # Every failure of each stands in a row, and the one that was over sooner says so.
    sums = [sum(int(row[place]) for row in rows if row[place] != "over") for place in (1, 2)]
    assert sums == [event.failures, before.failures]
    assert (rows[-1][1], rows[-1][2].isdigit()) == ("over", True)
    for asked in ("999", "x", str(event.pk)):
        assert "data-line" not in client.get(f"/capacity/{event.pk}?with={asked}").content.decode()
    earlier = to_us(NOW) // 60_000_000 - 60
    SpanSum.objects.filter(span__lt=earlier, minutes=1).delete()
    MinuteSum.objects.filter(minute__lt=earlier).delete()
    assert f"Of CE-{before.pk} the sums are not kept" in text_of(client.get(f"/capacity/{event.pk}?with={before.pk}"))


def test_an_outage_that_opened_many_breakers_names_few_of_them_in_the_list() -> None:
    event = outage()
    CapacityEvent.objects.filter(pk=event.pk).update(breakers={f"operation_{number}": 1 for number in range(5)})
    page = signed_in().get("/capacity").content.decode()
    [cell] = re.findall(r'<td class="wrap" data-narrow>(?=<a href="/breakers)(.*?)</td>', page)
    assert re.findall(r">([^<]+)<", cell) == [
        "operation_0",
        ", ",
        "operation_1",
        ", ",
        "operation_2",
        " ",
        "and 2 more",
    ]

"""The six figures of the overview: what they say, what they do not know, and where they lead."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client

from events.capacity.detection import look
from events.queries.trends import Ranges, trend_of_moments
from recovery_ops.control.models import Escalation, FailureCase, NotifyLook, SeenFailure
from recovery_ops.rules.words import Category, State
from tests.support.capacity import storm
from tests.support.escalation_pages import questions
from tests.support.pages import signed_in, text_of
from tests.support.stories import NOW, Story, ago, counted, failed, heartbeat, moved

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

TILE = re.compile(r'<a class="tile" href="([^"]*)" data-press="(\d)"><h2>([^<]*)</h2>(.*?)</a>', re.DOTALL)


def tiles(client: Client, path: str = "/?range=1h") -> dict[str, tuple[str, str]]:
    """Title → what the tile says, and its link; in the order of its keys."""
    page = client.get(path).content.decode()
    found = TILE.findall(page)
    assert [key for _, key, _, _ in found] == list("123456")
    words = {title: " ".join(re.sub(r"<svg.*?</svg>|<[^>]+>", " ", told).split()) for _, _, title, told in found}
    return {title: (words[title], href.replace("&amp;", "&")) for href, _, title, _ in found}


def fleet() -> Story:
    return Story().tell(heartbeat(), at=7300).tell(heartbeat(runs_in_flight=2), counted(13), at=5)


def test_an_outage_stands_above_the_breaker_that_tries_whether_it_is_over() -> None:
    storm(Story(), since=200, until=1).store()
    story = fleet().tell(moved(State.OPEN), at=100).tell(moved(State.OPEN, breaker="crm"), at=90)
    story.tell(moved(State.HALF_OPEN, before=State.OPEN, breaker="crm"), at=20).store()
    look("dev", NOW)
    page = signed_in().get("/").content.decode()
    places = [page.index(words) for words in (">search_web is open on", "is overloaded</a>", ">crm is half_open on")]
    assert places == sorted(places)


def test_each_figure_has_what_came_of_it_and_a_link_to_what_it_counts() -> None:
    story = fleet().tell(moved(State.OPEN), at=100).tell(moved(State.OPEN, breaker="crm"), at=5000)
    story.tell(moved(State.CLOSED, breaker="crm"), at=4900)
    for at in (4000, 20, 10):
        story.tell(failed(Category.OVERLOADED, status_code=529, provider="helios", model="large"), at=at)
    story.store()
    SeenFailure.objects.bulk_create(
        SeenFailure(environment="dev", fingerprint=name, first_at=ago(at), last_at=ago(at))
        for name, at in (("f-old", 4000), ("f-new", 50), ("f-newer", 40))
    )
    NotifyLook.objects.create(environment="dev", failures_at=ago(5))
    FailureCase.objects.create(
        environment="dev", fingerprint="f-back", state=FailureCase.REGRESSED, decided_at=ago(30), decided_by="ana"
    )
    told = tiles(signed_in())
    assert told["Breakers not flowing"] == (
        "1 of 2 search_web open 1 opened in 1h, as many as before",
        "/breakers?show=blocking",
    )
    words, href = told["Capacity errors"]
    assert "worst helios / large" in words
    assert words.endswith("2 in 1h, 1 more than before")
    assert href == "/capacity?range=1h"
    assert told["Failures new or back"][0] == "3 causes 1 back after being resolved 2 new in 1h, 1 more than before"
    assert told["Escalations"][0].startswith("0 not taken of 0 nobody is asked anything 0 asked in 1h")
    assert told["Runs waiting on capacity"][1] == "/runs?show=running&status=waiting_on_capacity&range=1h"
    assert told["Agents reporting"][0] == "1 of 1 2 runs in flight as many as 1h ago"


def test_a_cause_that_is_new_and_back_is_one_cause() -> None:
    fleet().store()
    SeenFailure.objects.create(environment="dev", fingerprint="f-1", first_at=ago(50), last_at=ago(5))
    NotifyLook.objects.create(environment="dev", failures_at=ago(5))
    FailureCase.objects.create(
        environment="dev", fingerprint="f-1", state=FailureCase.REGRESSED, decided_at=ago(30), decided_by="ana"
    )
    assert tiles(signed_in())["Failures new or back"][0].startswith("1 cause 1 back after being resolved 1 new in 1h")


def test_the_next_deadline_is_the_soonest_whatever_matters_more() -> None:
    fleet().store()
    questions("one", category=Category.POLICY_DENIED)
    [soon] = questions("two")
    Escalation.objects.filter(pk=soon.pk).update(acknowledge_by=NOW + timedelta(minutes=3))
    client = signed_in()
    assert f"ESC-{soon.pk} is due in 3m 00s" in tiles(client)["Escalations"][0]
    assert "2 questions wait for a person, the next deadline is in 3m 00s." in text_of(client.get("/"))


def test_what_was_merged_into_another_question_is_not_counted_beside_it() -> None:
    fleet().store()
    [one] = questions("one")
    [two] = questions("two")
    Escalation.objects.update(opened_at=ago(100))
    Escalation.objects.filter(pk=two.pk).update(
        merged_into=one, resolution=Escalation.MERGED, resolved_at=NOW, resolved_by="ana"
    )
    assert " 1 asked in 1h" in tiles(signed_in())["Escalations"][0]


def test_an_overview_for_a_screen_on_the_wall_is_the_wallboard() -> None:
    answer = signed_in().get("/?kiosk=1")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/wallboard")


def test_a_cause_just_before_the_range_is_not_new_in_it() -> None:
    """The first bin of the range begins before it."""
    ranges = Ranges(ago(6 * 3600), ago(0), ago(10 * 86_400))
    told = trend_of_moments([ago(6 * 3600 + 1), ago(6 * 3600 - 1), ago(12 * 3600 + 1)], ranges)
    assert (told.total, told.before) == (1, 1)


def test_what_cannot_be_known_is_no_zero() -> None:
    Story().tell(heartbeat(), moved(State.OPEN), at=900).store()
    told = tiles(signed_in())
    for title in ("Breakers not flowing", "Capacity errors", "Runs waiting on capacity", "Failures new or back"):
        assert told[title][0].startswith("–"), title
    assert "not looked for: no rule tells of them" in told["Failures new or back"][0]
    assert "than before" not in "".join(words for words, _ in told.values()), "nobody lived in the hour before"
    assert told["Agents reporting"][1] == "/agents?state=unreachable"


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (State.CLOSED, "0 of 3 of 2 not known, the other lets calls through"),
        (State.OPEN, "1 of 3 search_web open; of 2 not known"),
    ],
)
def test_breakers_of_which_nobody_tells_do_not_pass_for_those_that_flow(state: State, words: str) -> None:
    story = fleet().tell(moved(state), at=100)
    gone = [moved(State.CLOSED, breaker=name) for name in ("crm", "ledger")]
    story.tell(*gone, at=900, instance="r-gone").store()
    client = signed_in()
    assert tiles(client)["Breakers not flowing"][0].startswith(words)
    assert words in text_of(client.get("/wallboard"))
    assert "All 3 breakers flow" not in text_of(client.get("/"))
    assert "report, 3 breakers let calls through" not in text_of(client.get("/"))


def test_when_all_is_good_it_says_when_it_was_not() -> None:
    fleet().tell(moved(State.OPEN), at=4000).tell(moved(State.CLOSED), at=3900).store()
    page = re.sub(r"<[^>]+>", "", signed_in().get("/").content.decode())
    assert "Nothing needs you" in page
    assert "Last incident 1h 06m 40s ago. The one breaker flows" in page


def test_the_list_of_now_says_how_many_there_are_and_leads_to_the_rest() -> None:
    story = fleet()
    for number in range(13):
        story.tell(moved(State.OPEN, breaker=f"b-{number:02}"), at=100)
    story.store()
    client = signed_in()
    page = client.get("/?range=1h")
    told = text_of(page)
    assert "10 of 13 items, worst first" in told
    [link] = re.findall(r'href="([^"]+)">Show all 13<', page.content.decode())
    everything = client.get(f"/{link.replace('&amp;', '&')}")
    assert "Now 13 items, worst first" in text_of(everything)
    assert everything.content.decode().count('data-key="breaker-b-') == 13
    assert "Show the worst 10" in text_of(everything)
    assert "and 9 others" in text_of(client.get("/wallboard"))


def test_what_is_late_of_one_kind_does_not_hide_the_rest_and_is_not_lost_either() -> None:
    fleet().tell(moved(State.OPEN), at=100).store()
    questions(*(f"crm-{number}" for number in range(6)))
    Escalation.objects.update(acknowledge_by=ago(60), resolve_by=ago(30))
    page = signed_in().get("/?range=1h").content.decode()
    keys = re.findall(r'data-key="(escalation|breaker)-', page)
    assert keys[:7] == [*["escalation"] * 4, "breaker", *["escalation"] * 2]

"""The six figures of the overview: what they say, what they do not know, and where they lead."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from django.test import Client

from events.capacity.detection import look
from events.queries.trends import Ranges, trend_of_moments
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.issues.models import FailureCase
from recovery_ops.control.notifications.models.notifications import NotifyLook, SeenFailure
from recovery_ops.rules.enums import Category, State
from tests.support.capacity import storm
from tests.support.escalation_pages import questions
from tests.support.html import Shown
from tests.support.pages import signed_in, text_of
from tests.support.stories import NOW, Story, ago, counted, failed, heartbeat, moved

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a tile tells: its figure, what it came to in the range (`total`) and in the one before, how many are not
    known, its words, and where it leads. Empty: not known.
    """

    figure: str
    total: str
    before: str
    unknown: str
    words: str
    href: str


def tiles(client: Client, path: str = "/?range=1h") -> dict[str, Told]:
    """Name → what the tile tells; in the order of its keys."""
    page = Shown(client.get(path))
    links = [one for one in page.root.all() if one.attributes.get("class") == "tile"]
    assert [one.data["press"] for one in links] == list("123456")
    found = {}
    for link in links:
        data = Shown(link).one("tile").data
        figures = {name: data[name] for name in ("figure", "total", "before", "unknown")}
        found[data["tile"]] = Told(**figures, words=link.text, href=link.attributes["href"])
    return found


def fleet() -> Story:
    return Story().tell(heartbeat(), at=7300).tell(heartbeat(runs_in_flight=2), counted(13), at=5)


def test_an_outage_stands_above_the_breaker_that_tries_whether_it_is_over() -> None:
    storm(Story(), since=200, until=1).store()
    story = fleet().tell(moved(State.OPEN), at=100).tell(moved(State.OPEN, breaker="crm"), at=90)
    story.tell(moved(State.HALF_OPEN, before=State.OPEN, breaker="crm"), at=20).store()
    look("dev", NOW)
    keys = Shown(signed_in().get("/")).values("key")
    [outage] = [key for key in keys if key.startswith("outage-")]
    places = [keys.index(key) for key in ("breaker-search_web", outage, "breaker-crm")]
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
    breakers = told["breakers"]
    assert (breakers.figure, breakers.total, breakers.before) == ("1", "1", "1")
    assert "search_web" in breakers.words
    assert breakers.href == "/breakers?show=blocking"
    capacity = told["capacity"]
    assert (capacity.total, capacity.before, capacity.href) == ("2", "1", "/capacity?range=1h")
    assert "helios / large" in capacity.words
    causes = told["failures"]
    assert (causes.figure, causes.total, causes.before) == ("3", "2", "1"), "two are new, and one is back"
    assert (told["escalations"].figure, told["escalations"].total) == ("0", "0")
    assert told["waiting"].href == "/runs?show=running&status=waiting_on_capacity&range=1h"
    agents = told["agents"]
    assert (agents.figure, agents.total, agents.before) == ("1", "1", "1")
    assert "2 runs" in agents.words


def test_a_cause_that_is_new_and_back_is_one_cause() -> None:
    fleet().store()
    SeenFailure.objects.create(environment="dev", fingerprint="f-1", first_at=ago(50), last_at=ago(5))
    NotifyLook.objects.create(environment="dev", failures_at=ago(5))
    FailureCase.objects.create(
        environment="dev", fingerprint="f-1", state=FailureCase.REGRESSED, decided_at=ago(30), decided_by="ana"
    )
    causes = tiles(signed_in())["failures"]
    assert (causes.figure, causes.total) == ("1", "1")
    assert "1 regressed" in causes.words


def test_the_next_deadline_is_the_soonest_whatever_matters_more() -> None:
    fleet().store()
    questions("one", category=Category.POLICY_DENIED)
    [soon] = questions("two")
    Escalation.objects.filter(pk=soon.pk).update(acknowledge_by=NOW + timedelta(minutes=3))
    client = signed_in()
    words = tiles(client)["escalations"].words
    assert all(word in words for word in (f"ESC-{soon.pk}", "3m 00s"))
    sentence = client.get("/").context["sentence"]
    assert all(word in sentence for word in ("2 ", "3m 00s"))


def test_what_was_merged_into_another_question_is_not_counted_beside_it() -> None:
    fleet().store()
    [one] = questions("one")
    [two] = questions("two")
    Escalation.objects.update(opened_at=ago(100))
    Escalation.objects.filter(pk=two.pk).update(
        merged_into=one, resolution=Escalation.MERGED, resolved_at=NOW, resolved_by="ana"
    )
    assert tiles(signed_in())["escalations"].total == "1"


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
    for name in ("breakers", "capacity", "waiting", "failures"):
        assert told[name].figure == "–", name
    assert told["failures"].total == "", "nobody looks for new ones"
    assert {told[name].before for name in ("breakers", "capacity", "waiting")} == {""}, "nobody lived in that hour"
    assert told["agents"].href == "/agents?state=unreachable"


@pytest.mark.parametrize(
    ("state", "blocking"),
    [(State.CLOSED, "0"), (State.OPEN, "1")],
)
def test_breakers_of_which_nobody_tells_do_not_pass_for_those_that_flow(state: State, blocking: str) -> None:
    story = fleet().tell(moved(state), at=100)
    gone = [moved(State.CLOSED, breaker=name) for name in ("crm", "ledger")]
    story.tell(*gone, at=900, instance="r-gone").store()
    client = signed_in()
    told = tiles(client)["breakers"]
    assert (told.figure, told.unknown) == (blocking, "2")
    on_the_wall = Shown(client.get("/wallboard")).one("tile", "breakers").data
    assert (on_the_wall["figure"], on_the_wall["unknown"]) == (blocking, "2")
    page = client.get("/").context
    if state is State.CLOSED:
        assert all("2 unknown" in page[said] for said in ("calm", "sentence"))


def test_when_all_is_good_it_says_when_it_was_not() -> None:
    fleet().tell(moved(State.OPEN), at=4000).tell(moved(State.CLOSED), at=3900).store()
    page = signed_in().get("/")
    last = Shown(page).one("last-incident").data["last-incident"]
    assert datetime.fromisoformat(last) == ago(4000)
    assert "1h 06m 40s" in text_of(page)


def test_the_list_of_now_says_how_many_there_are_and_leads_to_the_rest() -> None:
    story = fleet()
    for number in range(13):
        story.tell(moved(State.OPEN, breaker=f"b-{number:02}"), at=100)
    story.store()
    client = signed_in()
    page = client.get("/?range=1h")
    items = page.context["items"]
    assert (len(items.shown), items.total) == (10, 13)
    [link] = [one for one in Shown(page).links if "items=all" in one]
    everything = client.get(f"/{link}")
    assert sum(key.startswith("breaker-b-") for key in Shown(everything).values("key")) == 13
    assert "?range=1h" in Shown(everything).links, "back to the worst ten"
    on_the_wall = client.get("/wallboard")
    assert sum(key.startswith("breaker-b-") for key in Shown(on_the_wall).values("key")) == 4
    assert on_the_wall.context["items"].rest == 9


def test_what_is_late_of_one_kind_does_not_hide_the_rest_and_is_not_lost_either() -> None:
    fleet().tell(moved(State.OPEN), at=100).store()
    questions(*(f"crm-{number}" for number in range(6)))
    Escalation.objects.update(acknowledge_by=ago(60), resolve_by=ago(30))
    page = signed_in().get("/?range=1h").content.decode()
    keys = re.findall(r'data-key="(escalation|breaker)-', page)
    assert keys[:7] == [*["escalation"] * 4, "breaker", *["escalation"] * 2]

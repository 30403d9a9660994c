"""The pages of failures: causes, what narrows them, and one cause by itself."""

from __future__ import annotations

import csv
import re
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.capacity.detection import look
from events.capacity.models import CapacityEvent
from events.capacity.reach import read_reach
from events.failures.rows import Field, Sample, Seen
from events.moments import Grid, to_us
from events.pages.empties import Why
from events.pages.window import Window
from recovery_ops.control.issues.models import FailureCase
from recovery_ops.control.issues.views.histogram import counts_of
from recovery_ops.rules.enums import Category, RunStatus, StopReason
from recovery_ops.rules.events import Exhausted, RunFinished, RunStarted
from recovery_ops.rules.roles import Role
from tests.support.capacity import storm
from tests.support.html import Shown
from tests.support.pages import HOSTILE, signed_in, text_of, troubled_fleet
from tests.support.stories import NOW, Story, ago, failed, heartbeat

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def met(fingerprint: str = "f00d", *, times: int = 3, message: str = "helios says 529", operation: str = "crm") -> None:
    story = Story()
    for number in range(times):
        run = f"{fingerprint}-{number}"
        given: dict[str, Any] = {"run": run, "instance": "r-0", "source": "main_agent", "is_foreground": True}
        story.tell(RunStarted(name="due diligence"), at=100, **given)
        told = failed(Category.OVERLOADED, operation, fingerprint=fingerprint, message=message, status_code=529)
        story.tell(told, at=90 + number, **given)
        story.tell(RunFinished(status=RunStatus.SUCCEEDED, duration_s=20.0), at=80, **given)
    story.store()


def told(page: Any) -> dict[str, str]:
    """What the head of the list counts."""
    head = Shown(page).one("causes").data
    return {name: head[name] for name in ("failures", "causes", "total")}


def drawn(page: Any) -> int:
    """How many failures its bars show."""
    return sum(span.count for span in page.context["histogram"].rows)


def tabs(page: Any) -> dict[str, int]:
    """How many causes each tab counts."""
    return {name: count for name, _, count, _ in page.context["tabs"]}


def logged(page: Any) -> list[tuple[str, str, str, str]]:
    """The log of a cause: who did what to which cause, and why."""
    entries = [one.entry for one in page.context["log"]]
    return [(one.actor_name, one.verb, one.object, one.reason) for one in entries]


def place_of(page: Any) -> tuple[int, int, bool]:
    """Which failure of a cause is shown, of how many, and whether it is the one that tells most."""
    one = page.context["one"]
    return one.place, one.of, one.is_recommended


def test_the_list_names_causes_and_leads_to_them() -> None:
    met()
    met("beef", times=1, message="Read timed out", operation="search_web")
    page = signed_in(Role.VIEWER).get("/failures")
    assert told(page) == {"failures": "4", "causes": "2", "total": "4"}
    assert "helios says 529" in Shown(page).one("causes").text, "the most frequent"
    assert re.findall(r'href="(/failures/(?!unclassified)[^"]+)"', page.content.decode()) == [
        "/failures/f00d",
        "/failures/beef",
    ]


def test_the_list_shows_what_became_of_the_runs_and_so_do_its_file_and_the_api() -> None:
    met()
    story = Story()
    given: dict[str, Any] = {"run": "f00d-lost", "instance": "r-0"}
    told = failed(Category.OVERLOADED, "crm", fingerprint="f00d", message="helios says 529", status_code=529)
    story.tell(told, at=70, **given)
    story.tell(RunFinished(status=RunStatus.FAILED, duration_s=20.0), at=60, **given)
    story.tell(failed(Category.TIMEOUT, "crm", fingerprint="beef"), at=50, instance="r-0")
    story.store()
    client = signed_in()
    page = client.get("/failures")
    [bar] = [one for one in Shown(page).root.all() if one.attributes.get("class") == "shares"]  # one without runs: none
    assert [one.attributes["fill"] for one in bar.children] == ["url(#p-closed)", "url(#p-open)"]
    first, last = (row.mix for row in page.context["rows"])
    assert ((first.alone, first.lost, first.total), last.total) == ((3, 1, 4), 0)
    assert 'class="shares"' not in client.get("/failures?column=count").content.decode()
    rows = list(csv.reader(client.get("/failures?format=csv").content.decode().splitlines()))
    rows = rows[next(at for at, row in enumerate(rows) if "fingerprint" in row) :]
    place = rows[0].index("runs recovered alone")
    assert [row[place:] for row in rows[1:]] == [["3", "0", "0", "1"], ["0", "0", "0", "0"]]
    [first, _] = client.get("/api/v1/failures").json()["failures"]
    assert first["became"] == {"alone": 3, "second_best": 0, "helped": 0, "lost": 1}


def test_a_facet_chooses_and_lets_go() -> None:
    met()
    met("beef", times=1, operation="search_web")
    client = signed_in()
    page = client.get("/failures").content.decode()
    [choice] = [unescape(one) for one in re.findall(r'href="(\?operation=crm)"', page)]
    narrowed = client.get(f"/failures{choice}")
    assert told(narrowed) == {"failures": "3", "causes": "1", "total": "4"}
    assert 'href="?"' in narrowed.content.decode()  # lets go of it
    assert "search_web" in text_of(narrowed)  # what else might be chosen stays in sight


def test_a_search_looks_into_messages() -> None:
    met()
    met("beef", times=1, message="Read timed out")
    client = signed_in()
    assert "/failures/f00d" not in client.get("/failures?q=TIMED").content.decode()
    empty = client.get("/failures?q=moon").context["empty"]
    assert (empty.why, empty.total, empty.left, empty.href) == (Why.NO_MATCH, 2, 2, "?")


def test_one_cause_says_why_it_is_one_and_how_it_ended() -> None:
    met()
    met("beef", times=9, operation="search_web")
    page = signed_in().get("/failures/f00d")
    cause = page.context["found"]
    assert (cause.category, cause.status_code) == (Category.OVERLOADED, 529)
    assert (cause.count, cause.runs, cause.instances) == (3, 3, 1)
    assert not page.context["is_unnamed"]
    assert [one.count for one in page.context["outcomes"].heads] == [3]
    [trait] = [one for _, one, _, _ in page.context["traits"] if one.name is Field.OPERATION]
    assert (trait.value, trait.share, trait.baseline) == ("crm", 1.0, 0.25)
    assert 'href="/runs?fingerprint=f00d"' in page.content.decode()
    assert 'href="/runs/f00d-0"' in page.content.decode()


def test_a_cause_whose_name_has_line_ends_has_pages_too() -> None:
    name = "first line\r\nsecond"
    Story().tell(failed(Category.TIMEOUT, "search_web", fingerprint=name), at=60, run="run-7").store()
    client = signed_in()
    [link] = re.findall(r'href="(/failures/first[^"]*)"', client.get("/failures").content.decode())[:1]
    assert client.get(link).status_code == 200
    of_run = client.get("/runs/run-7").content.decode()
    assert f'<a href="{link.partition("?")[0]}" title="first line' in of_run, "it leads there by what it says"
    assert "search_web attempt 1 failed: timeout</a>" in of_run


def test_a_cause_without_a_fingerprint_says_so() -> None:
    met("")
    client = signed_in()
    [address] = re.findall(r'href="(/failures/(?!unclassified)[^"]+)"', client.get("/failures").content.decode())
    assert client.get(address).context["is_unnamed"]


def test_what_was_not_met_is_not_there() -> None:
    met()
    client = signed_in()
    for name in ("nothing", "a/b"):
        assert client.get(f"/failures/{name}").status_code == 404
        assert client.get(f"/failures/{name}?from=now-3h&to=now-2h").status_code == 404


def test_a_cause_that_did_not_fail_in_a_range_is_still_there_with_what_people_said_of_it() -> None:
    met()
    Story().tell(heartbeat(), at=3 * 3600).store()
    client = signed_in()
    note = {"fingerprint": "f00d", "reason": "asked helios about it", "version": "0"}
    assert client.post("/failures/act/note", note).status_code == 303
    client.get("/failures")  # where it is said that it was noted
    with CaptureQueriesContext(connection) as asked:
        page = client.get("/failures/f00d?from=now-3h&to=now-2h")
    assert page.status_code == 200
    assert len(asked) <= 15
    said = text_of(page)
    assert "Overloaded (529) “helios says 529”" in said
    assert Shown(page).one("owner").data["state"] == "open"
    assert "asked helios about it" in said
    assert any(link.startswith("/failures/act/resolve?") for link in Shown(page).links)
    [entry] = logged(client.get("/failures/f00d?from=now-3h&to=now-2h&tab=log"))
    assert entry == ("ana", "failure.note", "f00d", "asked helios about it")
    part = client.get("/failures/f00d?from=now-3h&to=now-2h", headers={"X-Fragment": "failure"}).content.decode()
    assert part.startswith('<div class="page" id="failure"')


def test_a_cause_that_is_known_by_what_was_decided_alone_is_there() -> None:
    case = {"state": FailureCase.RESOLVED, "decided_at": ago(90 * 86_400), "decided_by": "ana"}
    FailureCase.objects.create(environment="dev", fingerprint="long-gone", **case)
    page = signed_in().get("/failures/long-gone")
    head = Shown(page).one("owner").data
    assert "long-gone" in text_of(page)
    assert (head["state"], head["owner"]) == ("resolved", "")


def test_nothing_from_outside_runs_in_it() -> None:
    met(HOSTILE, message=HOSTILE, operation=HOSTILE)
    client = signed_in()
    listed = client.get("/failures").content.decode()
    [address] = {unescape(one) for one in re.findall(r'href="(/failures/(?!unclassified)[^"]+)"', listed)}
    for text in (listed, client.get(address).content.decode()):
        assert HOSTILE not in text
        assert "<img src=x" not in text


def test_an_empty_list_does_not_say_that_all_is_good() -> None:
    Story().tell(heartbeat(), at=5).store()
    assert Shown(signed_in().get("/failures")).values("why") == [Why.UNKNOWN]


def test_environments_do_not_see_each_others_failures() -> None:
    met()
    troubled_fleet(environment="prod")
    client = signed_in(environment="prod", name="bob")
    assert "f00d" not in client.get("/failures?environment=prod").content.decode()


def many(count: int = 53) -> None:
    """So many causes, each of one failure of its own; more than a page holds."""
    story = Story()
    for number in range(count):
        told = failed(
            Category.OVERLOADED, "crm", fingerprint=f"c-{number:02}", message=f"cause {chr(97 + number % 26)}"
        )
        story.tell(told, at=100 + number)
    story.store()


def test_tabs_and_the_search_know_what_is_behind_the_first_page() -> None:
    many()
    client = signed_in()
    page = client.get("/failures")
    assert tabs(page)["open"] == 53
    assert told(page) == {"failures": "53", "causes": "53", "total": "53"}
    assert len(page.context["rows"]) == 50
    [further] = [unescape(one) for one in re.findall(r'href="([^"]+)">Next', page.content.decode())]
    rest = client.get(f"/failures{further}")
    assert len(re.findall(r'data-key="failure-', rest.content.decode())) == 3
    assert tabs(rest)["open"] == 53
    last = client.get("/failures?q=c-52")
    assert "/failures/c-52" in last.content.decode()
    assert client.get("/failures?q=moon").context["empty"].total == 53


def test_another_choice_of_what_to_see_begins_with_its_first_row() -> None:
    many()
    client = signed_in()
    page = client.get("/failures").content.decode()
    [further] = [unescape(one) for one in re.findall(r'href="([^"]+)">Next', page)]
    behind = client.get(f"/failures{further}&q=cause&before=7").content.decode()
    addresses = [unescape(one) for one in re.findall(r'href="([^"]*[?&](?:cursor|before)=[^"]*)"', behind)]
    # A file, a saved view, and the width of a column are of what is seen now.
    kept = re.compile(r"format=|^/saved|[?&](?:narrow|wide)=")
    assert [one for one in addresses if not kept.search(one)] == []
    assert re.findall(r'<input type="hidden" name="(?:cursor|before)"', behind) == []
    runs = client.get("/runs?before=7&range=1h").content.decode()
    assert re.findall(r'<input type="hidden" name="before"', runs) == []
    ranges = re.findall(r'<nav class="segments" aria-label="Time range">(.*?)</nav>', runs)
    assert len(ranges) == 1
    assert "before=" not in ranges[0]


def test_failures_over_time_are_bars_and_rows_that_lead_to_their_range() -> None:
    met(times=3)
    met("beef", times=1, operation="search_web")
    html = signed_in().get("/failures?range=15m").content.decode()
    [bars] = re.findall(r'<svg class="histogram".*?</svg>', html, re.DOTALL)
    assert bars.count("<a href=") == 16, "no bar is shorter than a minute, and two are in the range in part"
    rows = re.findall(
        r'<tr><th scope="row"><a href="(\?from=[^"]+)">.*?<td class="num">(\d+)</td></tr>', html, re.DOTALL
    )
    assert sum(int(count) for _, count in rows) == 4
    for href, count in rows:
        page = signed_in().get(f"/failures{unescape(href)}")
        assert told(page)["failures"] == count, "the range of a bar holds what the bar shows"


def test_a_failure_that_was_told_before_anybody_was_known_to_be_there_is_drawn_where_it_was() -> None:
    """Old facts may come late; the list has them, and the drawing says no other thing."""
    window = Window(start=ago(3600), end=NOW, began=ago(60))
    grid = Grid(to_us(window.start) // 1_000_000, 900, 4)
    at_us = to_us(ago(1800))
    early = Seen(b"k", 0, "f00d", {}, 1, at_us, at_us, {2: 1})
    counts = counts_of(Sample(seen=[early], grid=grid), window)
    assert counts == [None, None, 1, 0]


def test_bars_show_what_is_chosen_and_nothing_where_nobody_was() -> None:
    met(times=3)
    met("beef", times=1, operation="search_web")
    assert drawn(signed_in().get("/failures?range=1h&operation=crm")) == 3
    window = signed_in().get("/failures?range=1h").context["window"]
    assert window.start < window.began, "before the first sign of life nothing is known"
    assert 'fill="url(#p-unknown)"' in signed_in().get("/failures?range=1h").context["histogram"].drawing


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("timed", ["beef"]),
        ('"read timed"', ["beef"]),
        ('"timed read"', []),
        ("-timed", ["f00d"]),
        ("operation:crm", ["f00d"]),
        ("-operation:crm out", ["beef"]),
        ("status:529 helios", ["beef", "f00d"]),
        ("helios:", ["f00d"]),
    ],
)
def test_a_search_knows_exact_words_fields_and_what_is_not_meant(typed: str, found: list[str]) -> None:
    met(message="helios: says 529")
    met("beef", times=1, message="Read timed out by helios", operation="search_web")
    page = signed_in().get("/failures", {"q": typed}).content.decode()
    assert sorted(set(re.findall(r'data-key="failure-([^"]+)"', page))) == found


def test_one_failure_of_a_cause_has_neighbours_and_the_one_that_tells_most_comes_first() -> None:
    Story().tell(failed(Category.OVERLOADED, "crm", fingerprint="f00d"), at=70, instance="r-0").store()
    met(times=2)
    client = signed_in()
    page = client.get("/failures/f00d")
    assert place_of(page) == (2, 3, True)
    newer, older = (Shown(page).one("press", key).attributes["href"] for key in "[]")
    assert place_of(client.get(f"/failures/f00d{newer}")) == (1, 3, False)
    last = client.get(f"/failures/f00d{older}").content.decode()
    assert 'data-press="]"' not in last
    assert place_of(client.get("/failures/f00d?one=moon"))[:2] == (2, 3)


def test_the_log_of_a_cause_tells_who_did_what_and_why() -> None:
    met()
    client = signed_in()
    empty = client.get("/failures/f00d?tab=log")
    assert (logged(empty), Shown(empty).values("why")) == ([], [Why.NEVER])
    archived = {"fingerprint": "f00d", "until": "3600", "reason": "helios mends it", "version": "0"}
    client.post("/failures/act/archive", archived)
    page = client.get("/failures/f00d?tab=log")
    assert logged(page) == [("ana", "failure.archive", "f00d", "helios mends it")]
    assert "helios mends it" in text_of(page)
    assert "trend" not in [one.attributes.get("class") for one in Shown(page).root.all()]


def test_its_runs_are_told_by_rung_and_its_failures_by_the_outage_they_are_part_of() -> None:
    storm(Story(), since=400, until=300, fingerprint="f00d").store()
    story = Story()
    for number, status in enumerate((RunStatus.SUCCEEDED, RunStatus.SUCCEEDED, RunStatus.FAILED)):
        story.tell(RunFinished(status=status, duration_s=20.0), at=90, run=f"run-{number}", instance="a-0")
    gave_up = Exhausted(operation="model:large", reason=StopReason.ATTEMPTS, attempts=3)
    story.tell(gave_up, at=100, run="run-2", instance="a-0")
    # Fails alike, of another backend: no part of that outage.
    story.tell(failed(Category.OVERLOADED, "crm", fingerprint="f00d"), at=350, run="alone", instance="a-0").store()
    look("dev", NOW)
    read_reach("dev", NOW)
    event = CapacityEvent.objects.get()
    page = signed_in().get("/failures/f00d?range=1h")
    outcomes = page.context["outcomes"]
    assert {one.word: one.count for one in outcomes.heads}["recovered"] == 2
    assert [(sum(numbers), all_) for _, numbers, all_ in outcomes.rows] == [(3, 3), (1, 1)]
    assert [(one.id, count) for one, count in page.context["outages"]] == [(event.pk, 21)]
    assert f"CE-{event.pk}" in text_of(page)


@pytest.mark.parametrize("also", ["", "&operation=crm", "&tab=all", "&asked=no"])
def test_all_of_the_page_speaks_of_what_is_looked_for(also: str) -> None:
    met(times=3)
    met("beef", times=2, message="Read timed out")
    page = signed_in().get(f"/failures?range=1h&q=helios{also}")
    assert told(page) == {"failures": "3", "causes": "1", "total": "5"}
    assert drawn(page) == 3
    counts = re.findall(r'<span class="count">([^<]*)</span>', page.content.decode())
    assert set(counts) == {"3"}, "no facet counts what the list leaves out"
    assert tabs(page)["all"] == 1


def test_nothing_is_counted_where_nothing_matches() -> None:
    met(times=3)
    page = signed_in().get("/failures?range=1h&q=moon")
    assert told(page) == {"failures": "0", "causes": "0", "total": "3"}
    assert page.context["histogram"] is None
    assert re.findall(r'<span class="count">([^<]*)</span>', page.content.decode()) == []
    archived = signed_in().get("/failures?range=1h&tab=archived")
    assert told(archived) == {"failures": "0", "causes": "0", "total": "3"}
    assert archived.context["empty"].why is Why.NO_MATCH


def test_what_is_archived_is_not_counted_among_the_open() -> None:
    met(times=3)
    met("beef", times=2, message="Read timed out")
    client = signed_in()
    archived = {"fingerprint": "beef", "until": "3600", "reason": "helios mends it", "version": "0"}
    client.post("/failures/act/archive", archived)
    page = client.get("/failures?range=1h")
    assert told(page) == {"failures": "3", "causes": "1", "total": "5"}
    assert drawn(page) == 3
    assert tabs(page)["archived"] == 1

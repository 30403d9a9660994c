"""The evidence of one move of a breaker, the runs that met its failures, and what an address keeps of a figure."""

from __future__ import annotations

import csv
import re
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from events.models import Fact
from recovery_ops.rules.enums import Category, State
from recovery_ops.rules.roles import Role
from tests.support.html import Shown
from tests.support.pages import HOSTILE, signed_in, text_of, troubled_fleet
from tests.support.stories import Story, failed, moved

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


@pytest.fixture
def viewer() -> Client:
    return signed_in(Role.VIEWER)


def opening() -> Fact:
    return Fact.objects.get(event="breaker_state_changed", state="open")


def test_a_move_shows_what_decided_it_and_the_failures_before_it(viewer: Client) -> None:
    troubled_fleet()
    fact = opening()
    viewer.get("/timelines")  # the first visit of a session asks a little more
    with CaptureQueriesContext(connection) as queries:
        answer = viewer.get(f"/moves/{fact.pk}")
    assert len(queries) <= 12
    said = text_of(answer)
    move = answer.context["move"]
    assert (move.breaker, move.state, move.failure_rate, move.threshold) == ("search_web", "open", 0.65, 0.5)
    assert all(word in said for word in ("search_web open", "13 of 20", "65 %", "50 %", "overloaded 529", "2 failures"))
    assert {value for _, value in answer.context["facts"]} >= {13, 20}
    page = answer.content.decode()
    assert page.count('href="/runs/run-1"') == 2
    for path in re.findall(r'href="(/(?:timelines|runs|breakers)\\?[^"]*)"', page):
        assert viewer.get(unescape(path)).status_code == 200, path


def test_only_failures_of_that_instance_up_to_then_are_its_evidence(viewer: Client) -> None:
    troubled_fleet()
    late = failed(Category.TIMEOUT, "search_web")
    Story().tell(late, at=5, instance="r-0").tell(late, at=25, instance="r-2").tell(
        failed(Category.TIMEOUT, "calm"), at=25, instance="r-0"
    ).store()
    table = (
        viewer.get(f"/moves/{opening().pk}")
        .content.decode()
        .partition('id="before-title"')[2]
        .partition("</section>")[0]
    )
    assert table.count("overloaded") == 2
    assert "timeout" not in table


def test_what_a_person_moved_has_no_failures_to_show(viewer: Client) -> None:
    Story().tell(moved(State.FORCED_OPEN, override_id="ov-1", failures=None, calls=None), at=5).store()
    answer = viewer.get(f"/moves/{Fact.objects.get().pk}")
    assert Shown(answer).values("moved-by") == ["decision"]
    assert "ov-1" in text_of(answer)


@pytest.mark.parametrize("number", [0, 10**6, 2**63, 10**30])
def test_what_is_no_move_is_not_found(viewer: Client, number: int) -> None:
    assert viewer.get(f"/moves/{number}").status_code == 404


def test_a_failure_and_a_move_of_elsewhere_are_no_moves_here(viewer: Client) -> None:
    troubled_fleet()
    troubled_fleet(environment="prod")
    elsewhere = Fact.objects.get(environment="prod", event="breaker_state_changed", state="open")
    failure = Fact.objects.filter(environment="dev", event="failure_classified").latest("id")
    assert viewer.get(f"/moves/{elsewhere.pk}").status_code == 404
    assert viewer.get(f"/moves/{failure.pk}").status_code == 404


def test_a_hostile_failure_is_text(viewer: Client) -> None:
    Story().tell(failed(message=HOSTILE), at=6).tell(moved(State.OPEN), at=5).store()
    assert "<img" not in viewer.get(f"/moves/{opening().pk}").content.decode()


def test_the_rows_of_a_table_lead_to_evidence_to_their_time_and_to_the_runs_of_their_breaker(viewer: Client) -> None:
    story = Story().tell(failed(), at=30, run="run-9").tell(failed(Category.OVERLOADED, "calm"), at=30, run="run-8")
    story.tell(moved(State.OPEN), at=20).store()
    page = viewer.get("/timelines?range=15m&view=table").content.decode()
    hrefs = Shown(page).within("id", "tables").links
    assert f"/moves/{opening().pk}" in hrefs
    runs = next(one for one in hrefs if one.startswith("/runs?breaker=search_web&from="))
    assert any(one.startswith("/timelines?from=") for one in hrefs)
    assert viewer.get(runs).status_code == 200
    wider = viewer.get("/runs?breaker=search_web&range=15m").content.decode()
    assert "run-9" in wider
    assert "run-8" not in wider
    assert "run-8" in viewer.get("/runs?range=15m").content.decode()


def test_what_was_picked_is_in_the_address_of_the_figure_and_of_the_link(viewer: Client) -> None:
    troubled_fleet()
    query = "compare=day&match=search&band=breakers&band=failures&lane=breakers%3Asearch_web&range=1h"
    page = viewer.get(f"/timelines?{query}").content.decode()
    figure = unescape(re.findall(r'data-figure-url="([^"]+)"', page)[0])
    assert figure == f"/timelines/figure?{query}"
    assert "compare=day&amp;match=search&amp;band=breakers" in page.partition("data-copy-link")[2][:200]
    assert page.count(" checked>") == 3
    drawn = viewer.get(figure).json()["figure"]["data"]
    assert {name for trace in drawn if trace.get("orientation") == "h" for name in trace["y"]} == {"search_web"}
    assert [trace["name"] for trace in drawn if trace["type"] == "scatter"] == ["a day earlier"]
    answer = viewer.get(f"/timelines?{query}")
    asked = answer.context["asked"]
    assert (set(asked.choice.bands), asked.choice.match, asked.compare) == ({"breakers", "failures"}, "search", "day")
    assert list(asked.choice.lanes) == [("breakers", "search_web")]
    assert asked.words in text_of(answer), "beside the form that is folded away"


def test_a_search_that_finds_no_lane_says_so(viewer: Client) -> None:
    troubled_fleet()
    page = Shown(viewer.get("/timelines?match=moon&band=breakers"))
    assert "moon" in page.one("lanes", "0").text


@pytest.mark.parametrize("compare", ["before", "day", "week"])
def test_an_earlier_time_is_counted_in_the_same_bins(viewer: Client, compare: str) -> None:
    back_s = {"before": 3600, "day": 86_400, "week": 604_800}[compare]
    story = Story().tell(failed(), at=back_s + 300).tell(failed(), failed(), at=300)
    story.tell(failed(), at=back_s + 7200).store()
    viewer.get("/timelines?range=1h")  # from now on the session remembers it
    with CaptureQueriesContext(connection) as queries:
        answer = viewer.get(f"/timelines?range=1h&compare={compare}")
    assert len(queries) <= 15
    assert "1 instead of 2" in text_of(answer)
    data: list[dict[str, Any]] = viewer.get(f"/timelines/figure?range=1h&compare={compare}").json()["figure"]["data"]
    line = next(trace for trace in data if trace["type"] == "scatter" and 1 in trace["y"])
    bars = next(trace for trace in data if trace.get("name") == "transient")
    peak = bars["x0"] + bars["dx"] * bars["y"].index(2)
    assert line["x"][line["y"].index(1)] == peak


def test_the_tables_of_a_breaker_are_files_with_the_time_in_each_state(viewer: Client) -> None:
    troubled_fleet()
    page = viewer.get("/breakers/search_web/tables?range=1h").content.decode()
    found = re.findall(r'href="([^"]*format=csv[^"]*)"', page)
    files = [viewer.get(f"/breakers/search_web/tables{unescape(one)}").content.decode() for one in found]
    times = next(one for one in files if one.startswith('"Observed","State","Time","Seconds"'))
    rows = list(csv.reader(times.splitlines()))[1:]
    assert {row[0] for row in rows} == {"Observed, majority"}
    shares = [float(row[4].removesuffix(" %")) for row in rows if row[1] != "unknown"]
    assert sum(shares) == pytest.approx(100, abs=1)
    assert viewer.get("/breakers/search_web/tables?format=csv&table=99").status_code == 404


def test_the_legend_of_a_breaker_says_how_long_each_state_lasted(viewer: Client) -> None:
    troubled_fleet()
    page = viewer.get("/breakers/search_web?range=1h").content.decode()
    legend = page.partition('data-times="states"')[2].partition("</p>")[0]
    told = dict(re.findall(r'data-word="([a-z_]+)"[^>]*>.*?<small>([^<]*)</small>', legend))
    figure = viewer.get("/breakers/search_web/figure?range=1h").json()
    assert told == dict(figure["legend"])
    assert told["closed"].endswith("%")


def test_a_refresh_draws_what_the_browser_has_not_drawn_itself(viewer: Client) -> None:
    troubled_fleet()
    for drawn, missing in (("", set()), ("states", {"states"}), ("states counts", {"states", "counts"})):
        headers = {"X-Fragment": "breaker"} | ({"X-Drawn": drawn} if drawn else {})
        page = viewer.get("/breakers/search_web", headers=headers).content.decode()
        for name in ("states", "counts"):
            host = page.partition(f'id="{name}"')[2].partition("</figure>")[0]
            assert ("data-still" in host) == (name not in missing), (drawn, name)

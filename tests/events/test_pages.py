"""The timelines page and its figure, the window that pages look at, and what a fragment answers."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import plotly.graph_objects as go
import pytest
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest, HttpResponse, QueryDict
from django.test import RequestFactory
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from events.pages.rendering import with_tag
from events.pages.window import LONGEST, PRESETS, Window, carried, window_in, window_of
from events.timelines import views
from recovery_ops.rules.enums import Category, State
from tests.support.stories import NOW, Story, counted, failed, heartbeat, moved


def asked(query: str, remembered: str = "") -> HttpRequest:
    """A request for a window, in a session that remembers one."""
    request = HttpRequest()
    request.GET = QueryDict(query)
    request.session = _Session({"range": remembered} if remembered else {})
    return request


class _Session(SessionBase):
    """A session that lives in memory."""

    def __init__(self, kept: dict[str, Any]) -> None:
        super().__init__()
        self._session_cache = kept


def window(query: str, remembered: str = "", *, began: datetime | None = None) -> Window:
    return window_of(asked(query, remembered), now=NOW, began=began)


# -- the window -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "length"), PRESETS.items())
def test_a_preset_ends_now(name: str, length: timedelta) -> None:
    found = window(f"range={name}")
    assert (found.start, found.end, found.name) == (NOW - length, NOW, name)
    assert found.query == f"range={name}"


@pytest.mark.parametrize(
    ("age", "name"),
    [
        (timedelta(0), "15m"),
        (timedelta(minutes=15), "15m"),
        (timedelta(minutes=15, seconds=1), "1h"),
        (timedelta(hours=2), "6h"),
        (timedelta(hours=7), "6h"),
        (timedelta(days=400), "6h"),
    ],
)
def test_without_a_word_it_is_the_shortest_that_holds_everything_and_six_hours_at_most(
    age: timedelta, name: str
) -> None:
    found = window("", began=NOW - age)
    assert (found.name, found.is_default) == (name, True)


@pytest.mark.parametrize(
    ("age", "length"),
    [
        (timedelta(minutes=5), timedelta(minutes=6)),
        (timedelta(minutes=60), timedelta(minutes=60)),
        (timedelta(minutes=61), timedelta(minutes=67, seconds=6)),
        (timedelta(hours=7), timedelta(hours=6)),
    ],
)
def test_default_begins_shortly_before_first_event(age: timedelta, length: timedelta) -> None:
    first = NOW - age
    assert window_of(asked(""), now=NOW, began=NOW, first=first).length == length
    assert window_of(asked("range=6h"), now=NOW, began=NOW, first=first).length == timedelta(hours=6)


@pytest.mark.django_db
def test_default_holds_what_came_late() -> None:
    told = failed(Category.TIMEOUT, "crm", fingerprint="f00d")
    Story().tell(heartbeat(), at=60).tell(told, at=1500, received=50, instance="offline").store()
    found = window_in(asked(""), "dev", now=NOW)
    assert found.start < NOW - timedelta(seconds=1500)
    assert (found.length < timedelta(minutes=30), found.began) == (True, NOW - timedelta(seconds=60))


def test_before_anybody_reported_it_is_six_hours() -> None:
    assert window("").name == "6h"


def test_what_a_person_chose_wins_over_the_age_of_the_store() -> None:
    young = NOW - timedelta(minutes=3)
    assert window("", remembered="1h", began=young).name == "1h"
    assert window("range=6h", began=young).name == "6h"
    assert window("from=now-2h", began=young).length == timedelta(hours=2)


def test_the_default_is_in_no_address_so_that_it_grows_with_the_store() -> None:
    found = window("", began=NOW)
    assert (found.query, found.link, found.also, found.fields) == ("", "", "", [])
    chosen = window("range=15m", began=NOW)
    assert (chosen.query, chosen.link, chosen.also) == ("range=15m", "?range=15m", "&range=15m")


@pytest.mark.django_db
def test_a_session_asks_once_when_an_environment_began(django_assert_max_num_queries: Any) -> None:
    request = asked("")
    assert window_in(request, "dev", now=NOW).began is None
    Story().tell(heartbeat(), at=3000, received=3000).store()
    with django_assert_max_num_queries(1):
        found = [window_in(request, "dev", now=NOW) for _ in range(3)]
    assert {(one.name, one.began) for one in found} == {("1h", NOW - timedelta(seconds=3000))}
    assert window_in(request, "prod", now=NOW).began is None


@pytest.mark.parametrize("name", ["24h", "7d", "30d"])
def test_a_long_range_is_not_remembered(name: str) -> None:
    request = asked(f"range={name}")
    window_of(request, now=NOW)
    assert window_of(asked("", remembered=request.session.get("range", "")), now=NOW).name == "6h"


@pytest.mark.parametrize(
    ("query", "start", "end"),
    [
        ("from=2026-11-21T13:00:00Z&to=2026-11-21T14:00:00Z", datetime(2026, 11, 21, 13, tzinfo=UTC), None),
        ("from=2026-11-21T14:00:00%2B01:00&to=2026-11-21T14:00:00Z", datetime(2026, 11, 21, 13, tzinfo=UTC), None),
        ("from=2026-11-21T13:00:00&to=2026-11-21T14:00:00", datetime(2026, 11, 21, 13, tzinfo=UTC), None),
        ("from=now-90m", NOW - timedelta(minutes=90), NOW),
        ("from=now-2d&to=now-1d", NOW - timedelta(days=2), NOW - timedelta(days=1)),
    ],
)
def test_two_instants_are_read(query: str, start: datetime, end: datetime | None) -> None:
    found = window(query)
    assert (found.start, found.end) == (start, end or datetime(2026, 11, 21, 14, tzinfo=UTC))
    assert (found.name, found.problem) == ("", "")


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("range=moon", "There is no range moon"),
        ("from=yesterday", "could not be read"),
        ("from=now&to=now-1h", "has to end at least a minute after it begins"),
        ("from=0001-01-01T00:00:00Z", "could not be read"),
        ("from=now-999999d", "could not be read"),
    ],
)
def test_what_cannot_be_read_is_said_and_the_usual_is_shown(query: str, problem: str) -> None:
    found = window(query)
    assert problem in found.problem
    assert found.name == "6h"


def test_a_range_is_cut_to_its_newest_month() -> None:
    found = window("from=now-60d")
    assert (found.end, found.length) == (NOW, LONGEST)
    assert "Only the last 31 days" in found.problem


@pytest.mark.parametrize(
    ("query", "taken_along"),
    [
        ("", ""),
        ("show=failed", ""),
        ("range=30d&show=failed", "range=30d"),
        ("from=now-2d&to=now-1d", "from=now-2d&to=now-1d"),
        ("from=2026-11-21T13:00:00Z&to=2026-11-21T14:00:00Z", "from=2026-11-21T13:00:00Z&to=2026-11-21T14:00:00Z"),
        ("range=moon", ""),
        ("from=yesterday", ""),
    ],
)
def test_links_to_other_screens_take_along_what_was_asked_for(query: str, taken_along: str) -> None:
    assert carried(asked(query)) == taken_along


def test_a_range_that_moves_with_the_clock_stays_one_that_does() -> None:
    found = window("from=now-90m")
    assert found.query == "from=now-90m&to=now"
    assert window(found.query) == found
    assert found.absolute_query.startswith("from=2026-11-21T")
    assert found.typed == ("now-90m", "now")
    assert window("range=7d").typed == ("now-7d", "now")


@given(st.text(max_size=40), st.text(max_size=40))
def test_what_is_taken_along_is_never_a_range_that_cannot_be_read(start: str, end: str) -> None:
    found = carried(asked(urlencode({"from": start, "to": end}, errors="replace")))
    assert not found or not window(found).problem


@given(st.text(max_size=40), st.text(max_size=40))
def test_nothing_that_is_typed_breaks_a_page(start: str, end: str) -> None:
    found = window(urlencode({"from": start, "to": end}, errors="replace"))
    assert timedelta(0) < found.length <= LONGEST


@pytest.mark.parametrize("query", ["range=1h", "from=now-3h&to=now-1h"])
def test_shifting_by_one_window_and_back_is_the_same_window(query: str) -> None:
    found = window(query)
    earlier = window(urlencode(dict(zip(("from", "to"), found.earlier, strict=True))))
    back = window(urlencode(dict(zip(("from", "to"), earlier.later, strict=True))))
    assert back.absolute_query == found.absolute_query


@pytest.mark.parametrize(
    ("query", "start", "end"),
    [
        ("range=1h", 7_200, 0),
        ("from=now-90m&to=now", 10_800, 0),
        ("from=now-3h&to=now-1h", 4 * 3_600, 0),
        ("range=30d", 31 * 86_400, 0),
    ],
)
def test_a_window_is_made_twice_as_long_and_never_too_long(query: str, start: int, end: int) -> None:
    found = window(urlencode(dict(zip(("from", "to"), window(query).wider, strict=True))))
    assert (found.start, found.end) == (NOW - timedelta(seconds=start), NOW - timedelta(seconds=end))
    assert not found.problem


def test_a_window_of_the_past_is_brought_up_to_now_and_a_moving_one_stays() -> None:
    past = window("from=2026-11-20T10:00:00Z&to=2026-11-20T12:00:00Z")
    now = window(urlencode(dict(zip(("from", "to"), past.up_to_now, strict=True))))
    assert (now.start, now.end) == (NOW - timedelta(hours=2), NOW)
    still = window(urlencode(dict(zip(("from", "to"), now.instants, strict=True))))
    assert (still.start, still.end, still.relative) == (now.start, now.end, None)


# -- the page and its figure ------------------------------------------------------------------------------------------
@pytest.fixture
def storm(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance whose search_web opened two minutes ago; the clock stands."""
    monkeypatch.setattr(timezone, "now", lambda: NOW)
    story = Story().tell(heartbeat(), at=3000).tell(moved(State.CLOSED), moved(State.CLOSED, breaker="calm"), at=2900)
    story.tell(failed(), failed(), counted(40), at=130).tell(moved(State.OPEN), at=120).tell(heartbeat(), at=1)
    story.store()


def get(view: Any, query: str = "", **headers: str) -> HttpResponse:
    request = RequestFactory().get("/timelines", QueryDict(query).dict(), headers=headers)
    request.session = _Session({})
    answer: HttpResponse = view(request, environment="dev")
    return answer


@pytest.mark.usefixtures("storm")
def test_the_figure_is_one_that_plotly_takes() -> None:
    answer = get(views.figure, "range=1h")
    found = _json(answer)
    colours_are_tokens = str(found["figure"]).count("token:--")
    assert colours_are_tokens > 10
    go.Figure(_without_tokens(found["figure"]))
    assert found["caption"].startswith("0 × 429 and 2 × 529")


@pytest.mark.usefixtures("storm")
def test_the_figure_of_one_breaker_has_no_other() -> None:
    figure = str(_json(get(views.figure, "range=1h&breaker=search_web"))["figure"])
    assert "search_web" in figure
    assert "calm" not in figure


@pytest.mark.usefixtures("storm")
def test_a_figure_that_did_not_change_is_not_sent_again() -> None:
    tag = get(views.figure, "from=now-1h&to=now").headers["ETag"]
    again = get(views.figure, "from=now-1h&to=now", **{"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.usefixtures("storm")
def test_the_bars_of_the_figure_and_the_rows_of_its_table_tell_the_same() -> None:
    chart = views.chart_of("dev", window("range=1h"), breaker="", now=NOW)
    [table] = [one for one in chart.tables if one.columns[0] == "Lane"]
    axis = next(trace["yaxis"] for trace in chart.figure["data"] if trace.get("name") == "closed")
    bars = [trace for trace in chart.figure["data"] if trace["yaxis"] == axis]
    drawn = sorted((lane, trace["name"]) for trace in bars for lane in trace["y"])
    told = sorted((str(row[0]), str(row[1])) for row in table.rows)
    assert drawn == told


@pytest.mark.django_db
@pytest.mark.parametrize(("name", "days"), [("7d", 6.5), ("30d", 29.5)])
def test_a_long_range_counts_every_failure_and_shows_every_move(name: str, days: float) -> None:
    story = Story().tell(heartbeat(), at=days * 86_400)
    for day in range(int(days) + 1):
        story.tell(failed(), failed(), counted(40), at=day * 86_400 + 7200)
        story.tell(moved(State.OPEN), at=day * 86_400 + 7100).tell(moved(State.CLOSED), at=day * 86_400 + 600)
    story.tell(heartbeat(), at=1).store()
    chart = views.chart_of("dev", window(f"range={name}"), breaker="", now=NOW)
    number = int(days) + 1
    assert f"{2 * number} failures" in chart.caption
    assert f"{2 * number} × 529" in chart.caption
    [table] = [one for one in chart.tables if one.columns[0] == "Lane"]
    assert sum(row[1] == "open" for row in table.rows) == number
    counts = next(one for one in chart.tables if one.title.startswith("Failures per"))
    assert len(counts.rows) <= 120
    assert sum(cell for row in counts.rows for cell in row[1:] if isinstance(cell, int)) == 2 * number


def _json(answer: HttpResponse) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.content)
    return found


def _without_tokens(value: Any) -> Any:
    """The figure with a colour, or a font, where the page's script puts one."""
    if isinstance(value, str) and value.startswith("token:"):
        return "Arial" if value == "token:--sans" else "#123456"
    if isinstance(value, list):
        return [_without_tokens(one) for one in value]
    return {key: _without_tokens(one) for key, one in value.items()} if isinstance(value, dict) else value


# -- tags -------------------------------------------------------------------------------------------------------------
def test_only_what_ticks_is_left_out_of_a_tag() -> None:
    def tag(body: str) -> str:
        return str(with_tag(HttpRequest(), HttpResponse(body)).headers["ETag"])

    ticking = '<time datetime="x" data-tick="age" title="t">{}</time>'
    assert tag(ticking.format("3 s ago")) == tag(ticking.format("4 s ago"))
    assert tag('<time datetime="x">14:26:04</time>') != tag('<time datetime="x">14:26:05</time>')
    assert tag(ticking.format("1") + "a") != tag(ticking.format("1") + "b")

"""A run is told from its facts: which rungs it climbed, why, how it ended; and runs are found without reading all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from xml.etree import ElementTree as ET

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.runs import ladder, selectors
from events.runs.models import Run
from events.runs.narrowing import Narrow
from events.runs.rows import RUNG_WORDS, RUNGS, Kind
from events.runs.selectors import Show, run_of
from recovery_ops.rules.enums import Category, Rung, RunStatus
from recovery_ops.rules.events import (
    Escalated,
    Event,
    RunStarted,
)
from tests.support.runs import SEARCH, ended, known, listed, page, retry, tell_run
from tests.support.sentences import left_out
from tests.support.stories import NOW, Story, ago, counted, failed

pytestmark = pytest.mark.django_db
BY_RUN = ("fact_by_run (environment=? AND run=? AND at_us>?)", "_environment_run_at_us_idx")
"""As SQLite and PostgreSQL name the index of a run in a plan."""


def ids(found: selectors.RunPage) -> list[str]:
    return [row.run for row in found.rows]


# -- the story --------------------------------------------------------------------------------------------------------
def test_a_run_is_told_from_its_first_fact_to_its_last() -> None:
    tell_run()
    story = known()
    assert (story.name, story.instance, story.source, story.is_foreground) == (
        "due diligence",
        "a-1",
        "main_agent",
        True,
    )
    assert (story.started, story.ended, story.status) == (ago(60), ago(30), RunStatus.DEGRADED)
    assert story.failures == {Category.OVERLOADED: 2, Category.TIMEOUT: 2}
    assert (story.retries, story.waited_s, story.questions) == (1, 3.0, 1)
    assert story.stood_in == {SEARCH: "search_cache"}
    assert story.gave_up == ("publish",)
    assert story.numbers == {"turns": 4.0, "cost_usd": 0.41}
    assert (story.rung, story.level) == (Rung.FAIL, 5)
    assert [words for _, words in story.moves] == ["search_web open"]


R0, R1, B0 = ("research", "r-0"), ("research", "r-1"), ("billing", "b-0")


@pytest.mark.parametrize(
    ("begun", "holder"), [((R0,), R0), ((R0, R1), R1), ((R0, B0), R0), ((R0, B0, R1), R1), ((B0, R0), B0)]
)
def test_holder_is_newest_of_first_service(begun: tuple[tuple[str, str], ...], holder: tuple[str, str]) -> None:
    for number, (service, instance) in enumerate(begun):
        at = 100 - number
        Story().tell(RunStarted(name="billing"), at=at, service=service, instance=instance, run="run-1").store()
    row = Run.objects.select_related("holder").get()
    assert (row.holder.service, row.holder.instance) == holder
    assert known().holder == holder[1]


def test_every_piece_lies_on_its_rung_and_within_the_run() -> None:
    tell_run()
    pieces = known().pieces
    assert [(piece.rung, piece.kind, piece.operation) for piece in pieces] == [
        (Rung.RETRY, Kind.FAILED, SEARCH),
        (Rung.RETRY, Kind.WAITING, SEARCH),
        (Rung.RETRY, Kind.FAILED, SEARCH),
        (Rung.FALLBACK, Kind.SECOND_BEST, SEARCH),
        (Rung.RETRY, Kind.FAILED, "fetch_prices"),
        (Rung.DEGRADE, Kind.SECOND_BEST, "fetch_prices"),
        (Rung.RETRY, Kind.FAILED, "send_mail"),
        (Rung.RETRY, Kind.SUCCEEDED, "send_mail"),
        (Rung.ASK, Kind.ASKED, "publish"),
        (Rung.FAIL, Kind.GAVE_UP, "publish"),
    ]
    assert all(piece.end is not None and piece.start < piece.end <= ago(29.9) for piece in pieces)
    first, wait = pieces[0], pieces[1]
    assert (first.end, first.start) == (ago(59), ago(59.5))
    assert (wait.start, wait.end) == (ago(59), ago(56))


def test_a_wait_ends_with_the_attempt_that_it_was_for() -> None:
    tell_run(told=[(60, RunStarted()), (50, failed()), (50, retry(2, 20.0)), (45, failed(attempt=2, duration_s=1.0))])
    [_, wait, _] = known().pieces
    assert (wait.start, wait.end) == (ago(50), ago(46))


def test_what_still_goes_on_has_no_end() -> None:
    tell_run(told=[(60, RunStarted()), (45, Escalated(operation="publish", queue="editors", reason="unclear"))])
    story = known()
    assert (story.ended, story.took, story.pieces[0].end) == (None, None, None)
    assert story.length(NOW) == timedelta(seconds=60)


def test_the_steps_say_what_was_done_about_each_failure() -> None:
    tell_run()
    steps = known().steps
    failure = steps[1]
    [fallback] = [step for step in steps if "search_cache" in step.title]
    assert (failure.operation, fallback.operation) == (SEARCH, SEARCH)
    assert left_out(failure.title, "1", "overloaded (529)") == []
    assert left_out(failure.detail, "500 ms", "3 s", "helios says 529", "3.0 s") == []
    assert left_out(fallback.title, "2") == []
    assert left_out(fallback.detail, "overloaded") == []
    [budget] = [step for step in steps if "failures of one tool" in step.title]
    assert (budget.operation, budget.detail) == ("", "")
    assert left_out(steps[-1].title, "degraded") == []


def test_facts_of_a_stranger_tell_a_run_as_well() -> None:
    """Somebody's own SDK sends a failure with a session and nothing else."""
    tell_run(told=[(20, failed(Category.TIMEOUT))])
    story = known()
    assert (story.is_start_known, story.started, story.status) == (False, ago(20), None)
    assert story.level == 1


def test_a_run_that_nobody_named_is_none() -> None:
    tell_run()
    assert run_of("dev", "run-2") is None
    assert run_of("prod", "run-1") is None


def test_of_a_run_of_many_facts_the_first_are_read_and_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    tell_run()
    whole = known()
    monkeypatch.setattr(selectors, "EVENTS_OF_ONE", 3)
    story = known()
    assert (story.is_cut, len(story.steps)) == (True, 3)  # the retry stands with its failure
    assert len(whole.steps) > 3
    assert (story.ended, story.status) == (whole.ended, whole.status)
    assert story.ended is not None


# -- lists ------------------------------------------------------------------------------------------------------------
@pytest.fixture
def several() -> None:
    tell_run("calm", [(500, RunStarted()), (400, ended(RunStatus.SUCCEEDED))])
    tell_run("saved", [(450, RunStarted()), (440, failed(fingerprint="f1")), (430, ended(RunStatus.SUCCEEDED))])
    tell_run("lost", [(350, RunStarted()), (340, failed(operation="crm")), (330, ended(RunStatus.FAILED))])
    tell_run("asking", [(250, RunStarted()), (240, Escalated(operation="p", queue="q", reason="r"))])
    Story().tell(failed(), counted(5), at=10).store()  # outside of any run


@pytest.mark.usefixtures("several")
@pytest.mark.parametrize(
    ("show", "expected"),
    [
        (Show.TROUBLED, ["lost", "saved"]),
        (Show.FAILED, ["lost"]),
        (Show.ASKED, ["asking"]),
        (Show.RUNNING, ["asking"]),
        (Show.ALL, ["asking", "lost", "saved", "calm"]),
    ],
)
def test_each_choice_shows_its_runs_newest_first(show: Show, expected: list[str]) -> None:
    assert ids(page(show)) == expected


@pytest.mark.usefixtures("several")
def test_runs_are_narrowed_by_operation_and_by_failure() -> None:
    assert ids(page(operation="crm")) == ["lost"]
    assert ids(page(fingerprint="f1")) == ["saved"]
    assert ids(page(operation="crm", fingerprint="f1")) == []


@pytest.mark.usefixtures("several")
def test_only_the_window_is_looked_at() -> None:
    assert ids(page(Show.ALL, end=ago(300))) == ["lost", "saved", "calm"]
    assert ids(page(Show.ALL, start=ago(300))) == ["asking"]


@pytest.mark.usefixtures("several")
def test_the_facts_of_a_run_are_found_by_its_index() -> None:
    with CaptureQueriesContext(connection) as queries:
        run_of("dev", "lost")
    sql = queries[-1]["sql"]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {'QUERY PLAN ' if connection.vendor == 'sqlite' else ''}{sql}")
        plan = str(cursor.fetchall())
    assert any(one in plan for one in BY_RUN)


@pytest.mark.parametrize("is_start_known", [True, False])
def test_a_run_that_took_many_days_is_told_whole(is_start_known: bool) -> None:
    """Its newest facts are looked for first, in a few days; its beginning lies before them."""
    day_s = 86_400
    begun = RunStarted(name="thesis") if is_start_known else failed(Category.TIMEOUT, "read")
    tell_run(told=[(9 * day_s, begun), (5 * day_s, failed(Category.BUG, "write")), (60, failed(Category.TIMEOUT))])
    tell_run("run-2", [(120, RunStarted(name="short")), (50, failed(Category.TIMEOUT))])
    for story in (known(), next(one for one in page().rows if one.run == "run-1")):
        assert (story.started, story.is_start_known) == (ago(9 * day_s), is_start_known)
    assert len(known().steps) == 3
    assert ids(page()) == ["run-2", "run-1"]


@pytest.mark.parametrize("show", list(Show))
def test_pages_hold_as_many_as_asked(show: Show) -> None:
    for number in range(7):
        told: list[tuple[float, Event]] = [(500 - number % 3, RunStarted()), (490, failed())]
        told.append((480, Escalated(queue="q", reason="r")))
        tell_run(f"run-{number}", [*told, (300, ended(RunStatus.FAILED))] if show is Show.FAILED else told)
    tell_run("long", [(9 * 86_400, RunStarted()), (60, failed())])
    seen: list[list[str]] = []
    after = None
    while not seen or after is not None:
        found = page(show, limit=3, after=after)
        seen.append(ids(found))
        after = found.further
    listed_once = [run for one in seen for run in one]
    assert [len(one) for one in seen[:-1]] == [3] * (len(seen) - 1)
    assert len(set(listed_once)) == len(listed_once) == listed(show).count().value


@pytest.mark.parametrize("show", list(Show))
def test_a_list_asks_little_of_many_runs(show: Show) -> None:
    for number in range(60):
        tell_run(f"run-{number}", [(500 - number, RunStarted()), (490 - number, failed())])
    with CaptureQueriesContext(connection) as queries:
        page(show)
    assert len(queries) <= 5


def test_a_run_of_many_failures_counts_all() -> None:
    tell_run("long", [(500, RunStarted()), *((490 - n, failed()) for n in range(40)), (300, ended(RunStatus.FAILED))])
    [story] = page(narrow=Narrow(failures=40.0)).rows
    assert (story.failed_attempts, story.status, story.is_cut) == (40, RunStatus.FAILED, False)
    assert not page(narrow=Narrow(failures=41.0)).rows


def test_count_stops_behind_its_limit() -> None:
    for number in range(5):
        tell_run(f"run-{number}", [(500 - number, failed())])
    assert listed().count(3) == (3, True)
    assert listed().count(5) == (5, False)


def skewed(*told: tuple[float, Event], received: Sequence[float]) -> None:
    """Events of one instance whose clock is two hours ahead, received at these moments."""
    numbers = range(1, len(told) + 1)
    for (at, fact), when, number in sorted(zip(told, received, numbers, strict=True), key=lambda one: -one[1]):
        Story().tell(fact, at=at - 7200, received=when, run="run-1", sequence_number=number).store()


@pytest.mark.parametrize("received", [(50, 40, 30), (10, 20, 30), (20, 40, 30)])
def test_skewed_clock_in_any_order_ends_run(received: tuple[float, ...]) -> None:
    skewed((60, RunStarted()), (55, failed()), (50, ended(RunStatus.SUCCEEDED)), received=received)
    [story] = page(Show.ALL).rows
    assert story.status is RunStatus.SUCCEEDED
    assert not page(Show.RUNNING).rows


def test_corrected_clock_ends_run_by_number() -> None:
    Story().tell(RunStarted(), at=-7100, received=10, run="run-1", sequence_number=7).store()
    Story().tell(ended(RunStatus.SUCCEEDED), at=40, run="run-1", sequence_number=9).store()
    assert known().status is RunStatus.SUCCEEDED


def test_run_begun_again_goes_on() -> None:
    tell_run(told=[(300, RunStarted()), (200, ended(RunStatus.FAILED)), (100, RunStarted())])
    assert (known().ended, known().last_begun) == (None, ago(100))
    tell_run(told=[(50, ended(RunStatus.SUCCEEDED))])
    assert (known().ended, known().status) == (ago(50), RunStatus.SUCCEEDED)


# -- the drawing ------------------------------------------------------------------------------------------------------
def test_the_ladder_draws_each_piece_within_its_width() -> None:
    tell_run()
    story = known()
    svg = ET.fromstring(ladder.drawn(story, NOW))
    bars = svg.findall("rect")
    assert len(bars) == len(story.pieces)
    for bar in bars:
        x, width = (float(bar.attrib[name].removesuffix("%")) for name in ("x", "width"))
        assert 0 <= x <= 100
        assert width > 0
        assert x + width <= 100.5
    sprite = (settings.BASE_DIR / "templates" / "_sprite.html").read_text()
    fills = {bar.attrib["fill"] for bar in bars}
    assert all(f'id="{fill.removeprefix("url(#").removesuffix(")")}"' in sprite for fill in fills)
    arrows = [line for line in svg.findall("line") if "marker-end" in line.attrib]
    assert len(arrows) == 3  # search to its cache, prices to nothing, publishing from a person to failure
    assert 'id="arrow"' in sprite


def test_names_from_outside_are_escaped() -> None:
    tell_run("<script>", [(20, failed(operation="<img src=x>"))])
    story = known("<script>")
    svg = ladder.drawn(story, NOW)
    assert "<script>" not in svg
    assert "<img" not in svg
    ET.fromstring(svg)


def test_of_very_many_pieces_the_first_and_the_last_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder, "MOST_PIECES", 4)
    tell_run(told=[(60 - number, failed(attempt=number + 1)) for number in range(20)])
    svg = ET.fromstring(ladder.drawn(known(), NOW))
    titles = [str(bar.findtext("title")) for bar in svg.findall("rect")]
    assert [left_out(title, SEARCH, str(n)) for title, n in zip(titles, (1, 2, 19, 20), strict=True)] == [[]] * 4


def test_the_column_beside_it_counts() -> None:
    tell_run()
    lines = ladder.rung_lines(known())
    assert [(line.number, line.word) for line in lines] == [
        (number, RUNG_WORDS[rung]) for number, rung in enumerate(RUNGS, start=1)
    ]
    counts = [re.findall(r"\d+", line.detail) for line in lines]
    assert counts == [["4", "1"], ["1"], ["1"], ["1"], ["1"]], "four failed, of which one was saved"
    tell_run("calm", [(20, failed())])
    calm = [line.detail for line in ladder.rung_lines(known("calm"))]
    assert [re.findall(r"\d+", detail) for detail in calm] == [["1"], [], [], [], []]

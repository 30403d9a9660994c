"""A run is told from its facts: which rungs it climbed, why, how it ended; and runs are found without reading all."""

from __future__ import annotations

import re
from datetime import timedelta
from xml.etree import ElementTree as ET

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.moments import to_us
from events.runs import asking, ladder
from events.runs.asking import Show, run_of
from events.runs.rows import RUNG_WORDS, RUNGS, Kind
from recovery_ops.rules.facts import (
    Escalated,
    RunStarted,
)
from recovery_ops.rules.words import Category, Rung, RunStatus
from tests.support.runs import SEARCH, ended, known, page, retry, tell_run
from tests.support.sentences import left_out
from tests.support.stories import NOW, Story, ago, counted, failed

pytestmark = pytest.mark.django_db
BY_RUN = ("fact_by_run (environment=? AND run=? AND at_us>?)", "_environment_run_at_us_idx")
"""As SQLite and PostgreSQL name the index of a run in a plan."""


def ids(found: asking.Runs) -> list[str]:
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
    monkeypatch.setattr(asking, "FACTS_OF_ONE", 3)
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


def test_page_after_page_shows_each_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "PAGE", 2)
    for number in range(5):
        tell_run(f"run-{number}", [(500 - number, failed()), (300 - number, failed())])
    seen: list[str] = []
    before: int | None = None
    for _ in range(10):
        found = page(before_us=before)
        seen += ids(found)
        before = found.older_us
        if before is None:
            break
    assert sorted(seen) == [f"run-{number}" for number in range(5)]


@pytest.mark.parametrize("show", list(Show))
def test_what_is_read_does_not_grow_with_the_store(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "READ", 3)
    for number in range(6):
        tell_run(f"run-{number}", [(500 - number, RunStarted()), (490 - number, failed())])
    with CaptureQueriesContext(connection) as queries:
        found = page(show)
    assert len(queries) <= 4
    assert len(found.rows) <= 3
    assert (found.older_us is not None) == (show not in (Show.FAILED, Show.ASKED))


def test_a_run_with_very_many_facts_hides_no_other_and_shows_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "NEWEST_OF_LISTED", 3)
    tell_run("long", [(500, RunStarted()), *((490 - n, failed()) for n in range(30)), (300, ended(RunStatus.FAILED))])
    tell_run("next", [(400, RunStarted()), (390, failed()), (380, ended(RunStatus.SUCCEEDED))])
    told = {row.run: row for row in page().rows}
    assert set(told) == {"long", "next"}
    assert [(row.status, row.is_start_known, row.is_cut) for row in (told["long"], told["next"])] == [
        (RunStatus.FAILED, True, True),
        (RunStatus.SUCCEEDED, True, False),
    ]


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
        assert len(story.steps) == 3
    assert ids(page()) == ["run-2", "run-1"]


def test_a_run_that_was_entered_again_after_days_is_told_from_its_first_entry() -> None:
    day_s = 86_400
    entered, again = RunStarted(name="thesis"), RunStarted(name="thesis")
    tell_run(told=[(9 * day_s, entered), (9 * day_s - 5, failed(Category.BUG, "write")), (90, again)])
    tell_run(told=[(60, failed(Category.TIMEOUT))])
    for story in (known(), page().rows[0]):
        assert story.failures == {Category.BUG: 1, Category.TIMEOUT: 1}


def test_as_many_runs_as_anybody_asks_for_are_told() -> None:
    story = Story()
    for number in range(260):
        story.tell(failed(Category.TIMEOUT), at=60 + number / 100, run=f"run-{number}")
    story.store()
    assert len(page(most=300).rows) == 260


def test_a_run_that_began_lately_is_looked_for_in_few_days() -> None:
    tell_run()
    with CaptureQueriesContext(connection) as queries:
        page()
    assert len(queries) <= 3
    assert f"at_us >= {to_us(ago(52)) - asking.LASTS_US}" in queries[-1]["sql"].replace('"', "")


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
    for svg in (ladder.drawn(story, NOW), ladder.small(story, NOW)):
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

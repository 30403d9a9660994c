"""Runs as a file tells them: counted like those of a page, without a word for each fact, and each once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.http import QueryDict
from django.test.utils import CaptureQueriesContext

from events.models import Fact
from events.moments import to_us
from events.queries.readings import LONGEST_S
from events.runs import asking, stored
from events.runs.asking import Show, runs
from events.runs.brief import InBrief
from events.runs.going import Goes, how_it_goes
from events.runs.rows import RunStory
from recovery_ops.control.exporting.lists import Wish
from recovery_ops.control.exporting.runs import RunsFile
from recovery_ops.rules.facts import Escalated, RunStarted
from recovery_ops.rules.facts import Fact as Told
from recovery_ops.rules.words import Category, Rung, RunStatus
from tests.support.runs import CLIMB, SEARCH, ended, known, page, retry, tell_run
from tests.support.stories import NOW, Story, ago, failed

pytestmark = pytest.mark.django_db

_START: list[tuple[float, Told]] = [(600, RunStarted())]
_COURSES: dict[str, list[tuple[float, Told]]] = {
    "climb": CLIMB,
    "waiting": [*_START, (20, failed()), (10, retry(2, 60.0))],
    "waited": [*_START, (50, failed()), (45, retry(2, 3.0)), (30, failed(attempt=2))],
    "asking": [*_START, (40, failed()), (30, Escalated(operation="p", queue="q", reason="r"))],
    "asked after its end": [
        (90, failed()),
        (80, ended(RunStatus.SUCCEEDED)),
        (70, Escalated(operation="p", queue="q", reason="r")),
    ],
    "long": [*_START, *((500 - at, failed(Category.TIMEOUT, f"tool-{at % 3}")) for at in range(40))],
}


@pytest.fixture
def told() -> None:
    for run, facts in _COURSES.items():
        tell_run(run, facts)


def told_in_brief(story: RunStory) -> RunStory:
    """What is told of the same run in brief."""
    waits = tuple(wait for wait in story.waits if wait.until > NOW)
    return replace(story, pieces=(), steps=(), moves=(), backends=(), is_foreground=False, waits=waits)


@pytest.mark.usefixtures("told")
def test_what_is_counted_is_what_the_words_say() -> None:
    in_words = {one.run: one for one in page().rows}
    counted = {one.run: one for one in page(in_words=False).rows}
    assert set(counted) == set(_COURSES)
    for run, story in in_words.items():
        assert story.steps
        assert told_in_brief(story) == counted[run]
        drawn = {piece.rung for piece in story.pieces}
        assert story.rung == max(drawn, key=list(Rung).index, default=None)


@pytest.mark.usefixtures("told")
def test_how_a_run_goes_on_takes_no_words() -> None:
    counted = {one.run: one for one in page(in_words=False).rows}

    def goes(run: str) -> Goes | None:
        one = counted[run]
        return how_it_goes(one, NOW, {(one.service, one.instance)})

    assert (goes("waiting"), goes("waited")) == (Goes.WAITING_ON_CAPACITY, Goes.RUNNING)
    assert (goes("asking"), goes("climb")) == (Goes.PAUSED_FOR_PERSON, None)


@pytest.mark.usefixtures("engine", "told")
def test_many_runs_are_read_at_once_from_both_of_their_ends() -> None:
    with CaptureQueriesContext(connection) as queries:
        whole = {one.run: one for one in asking.stories_of("dev", list(_COURSES))}
    assert (len(queries), len(whole)) == (1, len(_COURSES))
    assert {one.run for one in whole.values() if one.is_cut} == {"long"}
    long = whole["long"]
    assert (long.is_start_known, long.failed_attempts) == (True, asking.NEWEST_OF_LISTED + 1)
    assert long.last_failed == ago(461)


def test_a_file_tells_no_run_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten runs fail in turns: wherever a page of the list ends, each of them is at both of its sides."""
    for run in range(10):
        tell_run(f"run-{run}", [(3000 - 100 * turn - run, failed(operation=SEARCH)) for turn in range(20)])
    monkeypatch.setattr(asking, "READ", 30)
    pages: list[RunStory] = []
    before: int | None = None
    while True:
        found = runs("dev", start=NOW - timedelta(hours=1), end=NOW, before_us=before)
        pages += found.rows
        before = found.older_us
        if before is None:
            break
    read: list[str] = []
    stories_of = asking.stories_of

    def noted(environment: str, ids: list[str], *args: int, in_brief: InBrief) -> list[RunStory]:
        read.extend(ids)
        return stories_of(environment, ids, *args, in_brief=in_brief)

    monkeypatch.setattr(asking, "stories_of", noted)
    given = QueryDict(f"show={Show.TROUBLED}")
    wish = Wish(environment="dev", given=given, start=NOW - timedelta(hours=1), end=NOW, user_id=None, now=NOW)
    rows = [row[0] for batch in RunsFile().batches(wish) for row in batch.rows]
    assert rows == [one.run for one in pages]
    assert sorted(read) == sorted(map(str, rows))


CAUSE, DELAY = "recovery.failure.fingerprint", "recovery.retry.delay"


def hostile(run: str, *said: object) -> None:
    """Failures and retries with these attributes, newest last."""
    for place, attributes in enumerate(said):
        fact = retry(2, 60.0) if DELAY in str(attributes) else failed(fingerprint="rec1:0123")
        Story().tell(fact, at=100 - place, run=run).store()
        newest = Fact.objects.filter(run=run).order_by("-at_us")[:1].get()
        Fact.objects.filter(pk=newest.pk).update(attributes=attributes)


@pytest.mark.usefixtures("engine")
def test_attributes_that_only_look_like_what_is_looked_for_are_read() -> None:
    hostile(
        "run-1",
        {"x": {CAUSE: "inner"}, CAUSE: "rec1:a"},
        {"recovery.message": f'"{CAUSE}":"said"', CAUSE: 'rec1:é"b'},
        {CAUSE: 7},
        [{CAUSE: "listed"}],
        {"x": [{DELAY: 900}], DELAY: 1.5},
        {DELAY: "12"},
        {DELAY: 1e2, "recovery.derived_from": "exception"},
        {DELAY: 50},
    )
    [in_words] = asking.stories_of("dev", ["run-1"])
    [in_brief] = asking.stories_of("dev", ["run-1"], in_brief=InBrief(to_us(NOW), has_models=True))
    assert (in_brief.fingerprints, in_brief.waited_s) == (in_words.fingerprints, in_words.waited_s)
    assert (list(in_words.fingerprints), in_words.waited_s) == (["rec1:a", 'rec1:é"b'], 151.5)
    assert told_in_brief(in_words) == in_brief


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("delay_s", [3e11, 1e308, -3e11, -1e308])
def test_a_wait_that_nobody_can_mean_breaks_no_list(delay_s: float) -> None:
    hostile("run-1", {DELAY: delay_s}, {CAUSE: "rec1:a"}, {DELAY: delay_s, "recovery.derived_from": "exception"})
    in_words, in_brief = page(), page(in_words=False)
    assert [told_in_brief(one) for one in in_words.rows] == in_brief.rows
    assert 0.0 <= in_brief.rows[0].waited_s <= 2 * LONGEST_S
    assert known() == in_words.rows[0]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("length", [stored._FEW // 2, 2 * stored._FEW])
def test_a_long_run_and_a_short_one_are_told_in_brief_by_the_same_facts(length: int) -> None:
    names = ("a", "b")
    for run in names:
        tell_run(run, [*_START, *((500 - at, failed(Category.TIMEOUT, f"tool-{at % 3}")) for at in range(length))])
    in_words = asking.stories_of("dev", names)
    in_brief = asking.stories_of("dev", names, in_brief=InBrief(to_us(NOW), has_models=True))
    assert [told_in_brief(one) for one in in_words] == in_brief
    assert all(one.is_cut for one in in_brief)

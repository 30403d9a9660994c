"""The pages of runs: what they say, what they let nobody do, and how they lead on."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.db.models import F
from django.test import Client

from events import keys
from events.models import Fact, SpanMark
from events.pages.empties import Why
from events.runs import selectors
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.rules.enums import Category, DelaySource, RunStatus
from recovery_ops.rules.events import (
    AttemptSucceeded,
    Escalated,
    FallbackActivated,
    RetryScheduled,
    RunFinished,
    RunStarted,
)
from recovery_ops.rules.events import Event as Told
from recovery_ops.rules.roles import Role
from tests.support.html import Shown
from tests.support.pages import HOSTILE, REASON, signed_in, text_of, troubled_fleet
from tests.support.query_counts import asked_of
from tests.support.sentences import left_out
from tests.support.stories import Story, failed, heartbeat

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def a_run(run: str = "run-7", *, status: RunStatus | None = RunStatus.DEGRADED, instance: str = "r-0") -> None:
    story = Story()
    given: dict[str, Any] = {"run": run, "instance": instance, "source": "main_agent", "is_foreground": True}
    story.tell(RunStarted(name="due diligence"), at=60, **given)
    story.tell(failed(Category.OVERLOADED, status_code=529, duration_s=0.2, fingerprint="f00d"), at=50, **given)
    story.tell(FallbackActivated(operation="search_web", fallback="search_cache", level=1), at=40, **given)
    if status is not None:
        story.tell(RunFinished(status=status, duration_s=40.0, cost_usd=0.41), at=20, **given)
    story.store()


def drawn(answer: Any) -> list[str]:
    """The runs whose ladders the page draws, in its order."""
    climbs = answer.context["climbs"]
    assert answer.content.decode().count('<div class="ladder">') == len(climbs)
    return [climb.story.run for climb in climbs if 'role="img"' in climb.drawing]


def test_the_list_says_how_each_run_went_and_leads_to_it() -> None:
    troubled_fleet()
    a_run()
    page = signed_in(Role.VIEWER).get("/runs")
    assert re.findall(r"\d+", page.context["sentence"]) == ["2", "0", "1", "0"], "in all, recovered, with less, failed"
    rows = {row.story.run: row for row in page.context["rows"]}
    assert (rows["run-7"].standing.word, rows["run-7"].story.failures) == ("degraded", {Category.OVERLOADED: 1})
    assert Shown(page).values("key").count("run-run-7") == 1
    assert "/runs/run-7?list=show%3Dtroubled" in Shown(page).links


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (RunStatus.SUCCEEDED, "recovered"),
        (RunStatus.FAILED, "failed"),
        (RunStatus.STOPPED, "stopped"),
        (RunStatus.CANCELLED, "aborted"),
        (None, "running"),
    ],
)
def test_a_run_says_how_it_stands(status: RunStatus | None, word: str) -> None:
    Story().tell(heartbeat(), at=5, instance="r-0").store()
    a_run(status=status)
    page = signed_in().get("/runs/run-7")
    assert f"run-7 {word}" in text_of(page)
    story, sentence = page.context["story"], page.context["sentence"]
    assert (story.name, story.level, story.failures) == ("due diligence", 2, {Category.OVERLOADED: 1})
    assert story.stood_in == {"search_web": "search_cache"}
    assert left_out(sentence, word.capitalize(), "2", "5", "1", "529", "search_cache", "search_web") == []
    assert (left_out(sentence, "40 s", "$0.41") == []) is (status is not None)


def test_a_run_whose_instance_fell_silent_is_lost_and_not_running() -> None:
    Story().tell(RunStarted(), at=600, received=600, run="gone", instance="r-77").store()
    client = signed_in()
    assert client.get("/runs/gone").context["standing"].word == "lost"
    assert [row.standing.word for row in client.get("/runs?show=running").context["rows"]] == ["lost"]


def test_the_ladder_is_drawn_and_read_as_a_list() -> None:
    a_run()
    answer = signed_in().get("/runs/run-7")
    assert drawn(answer) == ["run-7"]
    page = answer.content.decode()
    steps = re.findall(r'<li data-key="step-.*?</li>', page, flags=re.S)
    assert len(steps) == 4
    assert "+10 s" in steps[1]
    assert "$0.41" in page


def test_a_run_leads_to_those_beside_it_in_the_list_it_was_opened_from() -> None:
    for number, run in enumerate(("run-8", "run-9")):
        a_run(run, instance=f"r-{number}")
    Story().tell(failed(Category.TIMEOUT), at=90, run="run-6", instance="r-0").store()
    client = signed_in()
    listed = [
        unescape(one) for one in re.findall(r'href="(/runs/run[^"]*)"', client.get("/runs?range=1h").content.decode())
    ]
    assert len(listed) == 3
    answer = client.get(listed[1])
    page = answer.content.decode()
    pressed = {key: unescape(href) for href, key in re.findall(r'href="([^"]*)" data-press="([\[\]])"', page)}
    assert pressed == {"[": listed[0], "]": listed[2]}
    assert (answer.context["beside"].place, answer.context["beside"].of) == (2, 3)
    assert 'data-press="["' not in client.get(listed[0]).content.decode()
    assert 'data-press="["' not in client.get("/runs/run-8").content.decode(), "opened from no list"
    assert asked_of(client, listed[1]) <= 15


def test_from_a_run_to_those_that_met_the_same_failure() -> None:
    a_run()
    a_run("run-8")
    troubled_fleet()
    client = signed_in()
    [same] = re.findall(r'href="(/runs\?fingerprint=[^"]+)"', client.get("/runs/run-7").content.decode())
    page = client.get(unescape(same)).content.decode()
    assert "run-8" in page
    assert "run-1" not in page
    assert "fingerprint f00d" in page


@pytest.mark.parametrize("run", ["nothing", "a/b", "%F0%9F%94%A5"])
def test_a_run_that_nobody_named_is_not_there(run: str) -> None:
    troubled_fleet()
    assert signed_in().get(f"/runs/{run}").status_code == 404


@pytest.mark.parametrize("query", ["show=moon", "before=x", "before=-1", "before=99999999999999999999"])
def test_nothing_that_is_typed_breaks_the_list(query: str) -> None:
    troubled_fleet()
    assert signed_in().get(f"/runs?{query}").status_code == 200


def test_a_hostile_run_has_a_page_like_any_other() -> None:
    a_run(HOSTILE)
    client = signed_in()
    listed = client.get("/runs").content.decode()
    [address] = [unescape(one) for one in re.findall(r'href="(/runs/[^"]+)"', listed)]
    page = client.get(address)
    assert page.status_code == 200
    for text in (listed, page.content.decode()):
        assert HOSTILE not in text
        assert "<img src=x" not in text


def test_an_empty_list_says_which_kind_of_empty() -> None:
    Story().tell(heartbeat(), at=5).store()
    client = signed_in()
    assert Shown(client.get("/runs")).values("why") == [Why.GOOD]
    assert Shown(client.get("/runs?show=all")).values("why") == [Why.NEVER], "nobody has told the start of a run"


def test_environments_do_not_see_each_others_runs() -> None:
    a_run()
    client = signed_in(environment="prod", name="bob")
    assert client.get("/runs/run-7").status_code in (403, 404)


@pytest.mark.parametrize(
    ("tab", "part", "said"),
    [
        ("timeline", "lanes-title", "search_web"),
        ("trace", "trace-1", "search_web"),
        ("messages", "said-title", "search_web"),
        ("attributes", "facts-title", "recovery.failure_classified"),
        ("audit", "audit-title", "dev"),
        ("moon", "steps", "search_web"),
    ],
)
def test_every_tab_of_a_run_says_what_it_has(tab: str, part: str, said: str) -> None:
    a_run()
    page = signed_in(Role.EDITOR).get(f"/runs/run-7?tab={tab}")
    parts = {"lanes-title", "trace-1", "said-title", "facts-title", "audit-title", "steps"}
    assert Shown(page).ids & parts == {part}
    assert said in text_of(page)


def test_the_trace_of_a_run_groups_what_was_told_by_span(settings: Any) -> None:
    settings.TRACE_URL = "https://traces.test/{trace_id}?span={span_id}"
    a_run()
    fact = Fact.objects.get(event="failure_classified")
    Fact.objects.filter(pk=fact.pk).update(trace_id="ab" * 16, span_id="cd" * 8)
    page = signed_in().get("/runs/run-7?tab=trace")
    assert f"https://traces.test/{'ab' * 16}?span={'cd' * 8}" in Shown(page).links
    assert Shown(page).values("untraced") == ["3"]


def test_spans_stand_under_each_other_as_far_as_it_is_remembered_and_are_narrowed() -> None:
    a_run()
    outer, inner, silent, other = "aa" * 8, "bb" * 8, "cc" * 8, "dd" * 8
    told = {"run_started": outer, "failure_classified": inner, "run_finished": other}
    for event, span in told.items():
        Fact.objects.filter(event=event).update(trace_id="ab" * 16, span_id=span)
    parents = (
        (inner, silent),
        (silent, outer),
        (other, other),
    )  # one is silent, one its own child
    SpanMark.objects.bulk_create(
        SpanMark(environment="dev", trace_id="ab" * 16, span_id=span, parent_id=parent, seen_us=0)
        for span, parent in parents
    )
    client = signed_in()
    page = client.get("/runs/run-7?tab=trace").content.decode()
    rows = re.findall(r'<th scope="row">((?:<i></i>)*)<code>(\w+)</code>', page)
    assert [(len(inwards) // 7, name) for inwards, name in rows][:6] == [
        (0, outer),
        (1, "run_started"),
        (1, inner),
        (2, "failure_classified"),
        (0, other),
        (1, "run_finished"),
    ]
    errors = client.get("/runs/run-7?tab=trace&only=errors").content.decode()
    assert re.findall(r'<tr data-key="told-\d+"( data-trouble)?', errors) == [" data-trouble"]
    assert client.get("/runs/run-7?tab=trace&find=RUN_FINISHED").context["found"] == 1
    nothing = client.get("/runs/run-7?tab=trace&find=moon")
    assert (nothing.context["found"], Shown(nothing).values("why")) == (0, [Why.NO_MATCH])


def test_the_critical_path_is_marked_told_and_narrowed_to() -> None:
    waits = RetryScheduled(
        operation="search_web", attempt=2, delay_s=2.0, delay_source=DelaySource.BACKOFF, category=Category.TIMEOUT
    )
    told: list[tuple[float, Told]] = [
        (30, RunStarted(name="due diligence")),
        (29, failed(Category.TIMEOUT, "search_web", duration_s=0.5)),
        (29, waits),
        (26.5, AttemptSucceeded(operation="search_web", attempt=2, duration_s=0.5)),
        (26, RunFinished(status=RunStatus.SUCCEEDED, duration_s=4.0)),
    ]
    story = Story()
    for at, fact in told:
        story.tell(fact, at=at, run="run-8", source="main_agent")
    story.store()
    client = signed_in()
    page = client.get("/runs/run-8?tab=trace")
    assert left_out(page.context["critical_words"], "2.0 s", "4.0 s", "search_web", "1.0 s") == []
    assert (page.context["critical"], page.content.decode().count(">critical<")) == (3, 3)
    only = client.get("/runs/run-8?tab=trace&only=critical")
    shown = re.findall(r'<th scope="row">(?:<i></i>)*<code>(\w+)</code>', only.content.decode())
    assert shown == ["failure_classified", "retry_scheduled", "attempt_succeeded"]
    assert 'name="only" value="critical"' in only.content.decode()


def test_two_runs_are_compared_and_an_unknown_one_is_named() -> None:
    a_run()
    a_run("run-8", status=RunStatus.FAILED)
    client = signed_in()
    assert drawn(client.get("/runs/run-7?with=run-8")) == ["run-7", "run-8"]
    unknown = client.get("/runs/run-7?with=moon")
    assert drawn(unknown) == ["run-7"]
    assert "moon" in Shown(unknown).one("unknown-run").text


def test_a_run_is_taken_along_as_a_file() -> None:
    a_run()
    client = signed_in()
    rows = client.get("/runs/run-7?format=csv").content.decode().splitlines()
    assert len(rows) == 5
    assert "search_cache" in rows[3]
    told = client.get("/runs/run-7?format=md").content.decode()
    title, sentence, *_ = told.splitlines()
    assert (title, left_out(sentence, "Degraded", "2", "5")) == ("# Run run-7", [])
    assert "\n## " in told
    assert told.count("| search\\_web |") == 2, "its steps"


def test_a_person_is_asked_about_a_run_and_finds_it_from_there() -> None:
    a_run()
    client = signed_in(Role.RESPONDER)
    mute = client.post("/runs/run-7/ask", {"queue": "editors", "reason": ""})
    assert (mute.status_code, list(mute.context["form"].errors)) == (422, ["reason"])
    asked = {"queue": "editors", "reason": "Was the answer of an hour ago good enough?"}
    answer = client.post("/runs/run-7/ask", asked)
    [one] = Escalation.objects.all()
    assert answer.headers["Location"] == f"/escalations/{one.pk}"
    assert (one.queue, one.runs, one.message, one.ticket) == ("editors", ["run-7"], asked["reason"], "")
    client.post("/runs/run-7/ask", asked)
    assert Escalation.objects.count() == 1, "asked already"
    assert asked["reason"] in text_of(client.get("/escalations"))
    page = client.get("/runs/run-7").content.decode()
    assert f"/escalations/{one.pk}" in Shown(page).links
    entry = AuditEntry.objects.get(result=AuditEntry.OK, verb="escalation.raise")
    assert (entry.object, entry.reason) == ("run run-7", asked["reason"])
    audited = Shown(signed_in(Role.EDITOR, name="eve").get("/runs/run-7?tab=audit"))
    assert f"audit-{entry.number}" in audited.values("key")


def test_who_may_not_ask_people_is_not_offered_to() -> None:
    a_run()
    client = signed_in(Role.VIEWER)
    assert "/runs/run-7/ask" not in Shown(client.get("/runs/run-7")).links
    assert "/runs/run-7/ask" in Shown(signed_in(Role.RESPONDER, "li").get("/runs/run-7")).links
    assert client.post("/runs/run-7/ask", {"queue": "editors", "reason": REASON}).status_code == 403
    assert not Escalation.objects.exists()


def test_programs_list_read_and_ask_about_runs() -> None:
    a_run()
    keys.forget_keys()
    client = Client(headers={"authorization": f"Bearer {keys.create_key('a', ['read', 'act'], 'dev')[1]}"})
    [row] = client.get("/api/v1/runs").json()["runs"]
    assert (row["run"], row["standing"], row["rung"], row["failures"]) == ("run-7", "degraded", 2, {"overloaded": 1})
    assert client.get("/api/v1/runs?operation=moon").json()["runs"] == []
    assert client.get("/api/v1/runs?show=moon").json()["fields"].keys() == {"show"}
    found = client.get("/api/v1/runs/run-7").json()
    assert [step["mark"] for step in found["steps"]] == ["closed", "open", "half_open", "half_open"]
    body = {"queue": "editors", "reason": "Was that good enough for them?"}
    send: dict[str, Any] = {"content_type": "application/json"}
    assert client.post("/api/v1/runs/moon/ask", body, **send).status_code == 404
    assert client.post("/api/v1/runs/run-7/ask", body | {"dry_run": True}, **send).json()["dry_run"]
    assert not Escalation.objects.exists()
    assert client.post("/api/v1/runs/run-7/ask", body, **send).json()["escalation"]["runs"] == ["run-7"]
    assert client.post("/api/v1/runs/run-7/ask", body | {"queue": ""}, **send).json()["fields"].keys() == {"queue"}


# -- narrowed ----------------------------------------------------------------------------------------------------------
def some_runs() -> None:
    """`slow` failed after 300 s and cost 2 dollars, `quick` recovered in 4 s under another policy, `now` goes on."""
    story = Story().tell(heartbeat(), at=5)
    slow, quick, runs_now = (dict[str, Any](run=name, instance="r-0") for name in ("slow", "quick", "now"))
    limited = failed(Category.RATE_LIMITED, "crm.update", provider="helios", model="small")
    overloaded = failed(Category.OVERLOADED, "search_web", provider="borealis", model="large")
    story.tell(RunStarted(name="due diligence"), at=400, policy_version="7", **slow)
    story.tell(overloaded, overloaded, at=390, policy_version="7", **slow)
    story.tell(RunFinished(status=RunStatus.FAILED, duration_s=300.0, cost_usd=2.0), at=100, **slow)
    story.tell(RunStarted(name="greeting"), at=90, policy_version="8", **quick)
    story.tell(limited, at=89, policy_version="8", **quick)
    story.tell(RunFinished(status=RunStatus.SUCCEEDED, duration_s=4.0, cost_usd=0.01), at=86, **quick)
    story.tell(RunStarted(name="due diligence"), at=60, **runs_now)
    story.tell(limited, at=50, **runs_now)
    story.store()


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["now", "quick", "slow"]),
        ("status=failed", ["slow"]),
        ("status=recovered", ["quick"]),
        ("status=running", ["now"]),
        ("category=overloaded", ["slow"]),
        ("model=SMALL", ["now", "quick"]),
        ("model=helios / small", ["now", "quick"]),
        ("policy=8", ["quick"]),
        ("agent=research", ["now", "quick", "slow"]),
        ("agent=moon", []),
        ("took_s=59", ["now", "slow"]),
        ("cost_usd=0.5", ["slow"]),
        ("failures=2", ["slow"]),
        ("q=diligence", ["now", "slow"]),
        ("q=QUI", ["quick"]),
        ("status=failed&category=rate_limited", []),
        ("show=all&category=rate_limited", ["now", "quick"]),
        ("show=failed&took_s=301", []),
    ],
)
def test_runs_are_narrowed_on_the_page_in_files_and_for_programs_alike(query: str, names: list[str]) -> None:
    some_runs()
    page = signed_in(Role.VIEWER).get(f"/runs?{query}").content.decode()
    assert re.findall(r'data-key="run-(\w+)"', page) == names
    told = signed_in(Role.VIEWER).get(f"/runs?{query}&format=json").json()["rows"]
    assert [one["run"] for one in told] == names
    _, token = keys.create_key("reader", ["read"], "dev")
    program = Client(headers={"authorization": f"Bearer {token}"})
    asked_since = "from=2026-11-21T00:00:00Z&to=2026-11-21T14:26:18Z"
    assert [one["run"] for one in program.get(f"/api/v1/runs?{query}&{asked_since}").json()["runs"]] == names


@pytest.mark.parametrize(
    ("status", "run", "word"),
    [
        ("waiting_on_capacity", "full", "waiting for capacity"),
        ("retrying", "slow", "retrying"),
        ("paused_for_person", "asks", "needs human input"),
        ("lost", "gone", "lost"),
    ],
)
def test_runs_are_narrowed_by_how_they_go_on(status: str, run: str, word: str) -> None:
    story = Story().tell(heartbeat(), at=5)
    for name, category in (("full", Category.OVERLOADED), ("slow", Category.TIMEOUT), ("over", Category.OVERLOADED)):
        story.tell(RunStarted(), failed(category, fingerprint=f"cause-{name}"), at=60, run=name)
        wait = RetryScheduled(
            operation="search_web",
            category=category,
            attempt=2,
            delay_s=30.0 if name == "over" else 90.0,
            delay_source=DelaySource.BACKOFF,
            max_retries=3,
        )
        story.tell(wait, at=59, run=name)
    story.tell(RunStarted(), Escalated(operation="search_web", queue="ops", reason="doubt"), at=50, run="asks")
    story.tell(RunStarted(), at=600, received=600, run="gone", instance="r-77").store()
    client = signed_in(Role.VIEWER)
    page = client.get(f"/runs?show=running&status={status}")
    assert re.findall(r'data-key="run-(\w+)"', page.content.decode()) == [run]
    assert word in text_of(page)
    told = client.get(f"/runs?show=running&status={status}&format=json").json()["rows"]
    assert [(one["run"], one["stands"]) for one in told] == [(run, word)]
    _, token = keys.create_key("reader", ["read"], "dev")
    answer = Client(headers={"authorization": f"Bearer {token}"}).get(f"/api/v1/runs?show=running&status={status}")
    assert [(one["run"], one["standing"]) for one in answer.json()["runs"]] == [(run, word)]
    tile = "/runs?show=running&amp;status=waiting_on_capacity"
    assert all(tile in client.get(address).content.decode() for address in ("/", "/agents", "/capacity"))
    if run in ("full", "slow"):
        assert f'href="/failures/cause-{run}' in page.content.decode()
        assert told[0]["causes"] == f"cause-{run}"


def test_what_keeps_runs_out_is_named_and_what_cannot_be_read_asks_for_nothing() -> None:
    some_runs()
    empty = signed_in().get("/runs?status=failed&agent=moon").context["empty"]
    assert (empty.why, left_out(empty.title, "0", "3")) == (Why.NO_MATCH, [])
    assert left_out(empty.text, "moon", "1") == []
    assert "status=failed" in empty.href
    assert "moon" not in empty.href
    for query in ("took_s=moon", "status=moon", "rung=nan", "cost_usd=-1", "failures=1e400"):
        assert 'data-key="run-slow"' in signed_in().get(f"/runs?{query}").content.decode()
        _, token = keys.create_key("reader", ["read"], "dev")
        answer = Client(headers={"authorization": f"Bearer {token}"}).get(f"/api/v1/runs?{query}")
        assert (answer.status_code, list(answer.json()["fields"])) == (400, [query.partition("=")[0]])


def test_a_kind_is_chosen_without_losing_what_narrows_the_list() -> None:
    some_runs()
    page = signed_in().get("/runs?agent=research&operation=search_web&cursor=WzEsMV0").content.decode()
    assert 'href="?agent=research&amp;show=failed"' in page


def test_narrow_list_goes_on_to_oldest_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "PAGE", 2)
    story = Story()
    for number in range(12):
        about: dict[str, Any] = {"run": f"n-{number:02}", "instance": "r-0"}
        story.tell(RunStarted(name="often" if number % 2 else "rare"), at=200 - number, **about)
    story.store()
    path, met = "/runs?show=all&q=rare", []
    for _ in range(6):
        page = signed_in().get(path).content.decode()
        met.append(re.findall(r'data-key="run-(n-\d+)"', page))
        further = re.search(r'href="([^"]+)">Older runs', page)
        if further is None:
            break
        path = f"/runs{unescape(further.group(1))}"
    assert met == [["n-10", "n-08"], ["n-06", "n-04"], ["n-02", "n-00"]]


def test_a_queue_is_asked_about_several_runs_at_once() -> None:
    a_run("run-7")
    a_run("run-8")
    client = signed_in(Role.RESPONDER)
    page = client.get("/runs/act/ask?run=run-7&run=run-8")
    assert (page.context["runs"], left_out(page.context["about"], "2")) == (["run-7", "run-8"], [])
    form = {"run": ["run-7", "run-8"], "queue": "editors", "reason": "Were these answers worth their money?"}
    answer = client.post("/runs/act/ask", form)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/escalations?queue=editors")
    assert sorted(Escalation.objects.values_list("runs", flat=True)) == [["run-7"], ["run-8"]]
    client.post("/runs/act/ask", form)
    assert Escalation.objects.count() == 2
    assert client.get("/runs/act/ask?run=moon").status_code == 404
    assert client.get("/runs/act/ask").headers["Location"] == "/runs"
    assert signed_in(Role.VIEWER, name="eva").post("/runs/act/ask", form).status_code == 403


def test_all_that_a_list_has_are_asked_about_and_their_number_is_typed() -> None:
    for number in range(52):
        a_run(f"run-{number}", status=RunStatus.FAILED)
        Fact.objects.filter(run=f"run-{number}").update(at_us=F("at_us") + number)
    a_run("fine", status=RunStatus.SUCCEEDED)
    client = signed_in(Role.RESPONDER)
    page = client.get("/runs?status=failed").content.decode()
    [query] = re.findall(r'name="matching" value="([^"]*)"', page)
    form = client.get("/runs/act/ask", {"matching": unescape(query), "run": "fine"}).content.decode()
    named = re.findall(r'name="run" value="([^"]+)"', form)
    assert sorted(named) == sorted(f"run-{number}" for number in range(52))
    said: dict[str, Any] = {"run": named, "queue": "editors", "reason": "Were these answers worth their money?"}
    refused = client.post("/runs/act/ask", said)
    assert (refused.status_code, list(refused.context["form"].errors)) == (422, ["confirm"])
    assert not Escalation.objects.exists()
    assert client.post("/runs/act/ask", said | {"confirm": "52"}).status_code == 303
    assert Escalation.objects.count() == 52


def test_runs_are_added_up_by_rung_and_outcome_as_they_are_narrowed() -> None:
    for number in range(3):
        a_run(f"run-{number}")
    a_run("lost", status=RunStatus.FAILED)
    client = signed_in()
    page = client.get("/runs?view=flows")
    assert left_out(page.context["flows"].sentence, "4", "Fallback", "degraded", "3") == []
    rows = re.findall(r'<th scope="row">(\w+)</th><td>(\w+)</td><td class="num">(\d+)</td>', page.content.decode())
    assert rows == [("Fallback", "degraded", "3"), ("Fallback", "failed", "1")]
    failed_alone = client.get("/runs?view=flows&status=failed").context["flows"]
    assert [(one.outcome, one.count) for one in failed_alone.rows] == [("failed", 1)]
    assert 'class="sankey"' not in client.get("/runs").content.decode()
    assert "view=flows" in client.get("/runs").content.decode()

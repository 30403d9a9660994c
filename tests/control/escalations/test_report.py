"""The report: times, deadlines kept, load and noise, by week; the page and the CSV say the same."""

from __future__ import annotations

import csv
import re
from datetime import date, timedelta
from io import StringIO
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from events.charts.boxes import Box, Scale, limit_of, lying, upright
from events.recoveries.asking import recoveries, today_of
from events.recoveries.summing import sum_days
from recovery_ops.control.escalations.durations import Times
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.selectors.answer_times import answering
from recovery_ops.control.escalations.selectors.report import report_of, week_with, weeks_before
from recovery_ops.control.escalations.services.actions import respond
from recovery_ops.control.escalations.services.due import keep_deadlines
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.escalations.terms import matter_of
from recovery_ops.rules.enums import Category, StopReason
from recovery_ops.rules.events import BudgetExhausted, Exhausted
from recovery_ops.rules.roles import Role
from tests.support.api_client import Program
from tests.support.escalations import asked, person
from tests.support.html import Shown
from tests.support.pages import signed_in, text_of
from tests.support.recovered_weeks import week
from tests.support.sentences import left_out
from tests.support.stories import NOW, Story, ago, failed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

DAY_S = 86_400


def question(days: float, *, operation: str = "charge_card", take_s: float = 0, resolve_s: float = 0) -> Escalation:
    """Asked so many days ago; taken and resolved so many seconds later, 0 for never."""
    at = ago(days * DAY_S)
    Story().tell(asked(operation=operation), at=days * DAY_S, run="run-1").store()
    open_escalations("dev", at)
    one = Escalation.objects.latest("pk")
    for verb, after_s in (("acknowledge", take_s), ("resolve", resolve_s)):
        if after_s:
            who = person("bob" if verb == "resolve" else "ana")
            now = at + timedelta(seconds=after_s)
            respond(verb, number=one.pk, by=who, environment="dev", reason="mended for good", now=now)
    keep_deadlines("dev", at + timedelta(hours=1))
    return one


def test_times_deadlines_and_defaults_stand_in_the_week_in_which_was_asked() -> None:
    question(9, take_s=300, resolve_s=1200)  # Thursday of the week before
    question(8, take_s=1200, resolve_s=2400)
    into = question(1, operation="search_web")
    merged = question(1.01, operation="search_page")
    Escalation.objects.filter(pk=merged.pk).update(merged_into=into)
    start, end = weeks_before(NOW, 2)
    found = report_of("dev", start=start, end=end, now=NOW)
    before, this = found.weeks
    assert (before.opened, this.opened, found.total.opened) == (2, 1, 3)
    assert (before.acknowledging.mean_s, before.acknowledging.p90_s) == (750, 1200)
    assert (before.resolving.mean_s, before.resolving.median_s) == (1800, 1800)
    assert (before.acknowledged_in_time.kept, before.acknowledged_in_time.of) == (1, 2)
    assert (before.resolved_in_time.kept, before.resolved_in_time.of) == (1, 2)
    assert (this.acknowledged_in_time.kept, this.acknowledged_in_time.of) == (0, 1), "nobody took it, and it is late"
    assert (this.by_default, this.resolving.count) == (1, 0)


def test_who_did_how_much_and_what_was_noise() -> None:
    for days in (4, 3, 2):
        question(days, take_s=60, resolve_s=660)
    question(1, operation="search_web", resolve_s=60)
    start, end = weeks_before(NOW, 1)
    found = report_of("dev", start=start, end=end, now=NOW)
    people = {one.name: one for one in found.total.people}
    assert (people["ana"].taken, people["ana"].resolved) == (3, 0)
    assert (people["bob"].resolved, people["bob"].held_s) == (4, 1800)
    [noise] = found.total.noisy
    assert (noise.operation, noise.kind, noise.asked, noise.facts) == ("charge_card", "unknown", 3, 3)


def test_noise_of_whole_runs_is_told_apart_by_their_service() -> None:
    story = Story()
    for number, service in enumerate(("billing", "billing", "research", "research")):
        fact = BudgetExhausted(budget="errors", spent=10, limit=10)
        story.tell(fact, at=1000 + number, run=f"run-{number}", service=service)
    story.store()
    open_escalations("dev", ago(600))
    start, end = weeks_before(NOW, 1)
    found = report_of("dev", start=start, end=end, now=NOW)
    assert [(one.whose, one.matter, one.facts) for one in found.total.noisy] == [
        ("a run of billing", "error budget spent", 2),
        ("a run of research", "error budget spent", 2),
    ]


def test_attempts_and_calls_given_up_are_counted_by_week() -> None:
    story = Story()
    for number in range(10):
        story.tell(failed(Category.TIMEOUT), at=3600 + number)
        story.tell(failed(Category.TIMEOUT), at=8 * DAY_S + number)
    story.tell(Exhausted(operation="search_web", reason=StopReason.ATTEMPTS, attempts=4), at=3500).store()
    start, end = weeks_before(NOW, 2)
    before, this = report_of("dev", start=start, end=end, now=NOW).weeks
    assert (before.failures, before.given_up) == (10, 0)
    assert (this.failures, this.given_up) == (10, 1)
    assert this.recovered_share is None, "no day is summed up yet: nobody knows"


def test_what_runs_recovered_by_themselves_is_counted_exactly_as_the_days_say() -> None:
    for days in (0.1, 9, 9.5):
        week(at=days * DAY_S).store()
    sum_days("dev", NOW, most=30)
    start, end = weeks_before(NOW, 2)
    found = report_of("dev", start=start, end=end, now=NOW)
    before, this = found.weeks
    assert (this.alone, this.helped, this.lost, this.recovered_share) == (2, 1, 2, 0.4)
    ours = recoveries("dev", first=today_of(start), last=today_of(NOW))
    for word in ("alone", "helped", "lost"):
        by_week = getattr(before, word) + getattr(this, word)
        assert by_week == getattr(found.total, word) == getattr(ours, word).runs
    assert found.total.recovered_share == ours.share_alone, "the page of the days says the same"


def test_first_day_of_week_counts_in_that_week_alone() -> None:
    start, end = weeks_before(NOW, 2)
    begins = start + timedelta(days=7)
    week(at=(NOW - begins).total_seconds()).store()
    sum_days("dev", NOW, most=50)
    before, this = report_of("dev", start=start, end=end, now=NOW).weeks
    assert (before.alone or 0, this.alone) == (0, 2)


def test_loads_are_listed_by_count_then_name() -> None:
    for days, queue in ((1, "zeta"), (2, "beta"), (3, "alpha"), (4, "zeta")):
        Story().tell(asked(operation=f"op-{days}", queue=queue), at=days * DAY_S, run=f"run-{days}").store()
        open_escalations("dev", ago(days * DAY_S))
    start, end = weeks_before(NOW, 2)
    found = report_of("dev", start=start, end=end, now=NOW).total.queues
    assert [(one.asked, one.name) for one in found] == [(2, "zeta"), (1, "alpha"), (1, "beta")]


def test_what_ends_at_midnight_has_nothing_of_the_day_after() -> None:
    midnight = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
    after_s = (NOW - midnight).total_seconds()
    story = week(week(at=after_s - 3600), at=after_s + 60)  # an hour after, and a minute before
    story.store()
    sum_days("dev", NOW, most=30)
    total = report_of("dev", start=midnight - timedelta(days=1), end=midnight, now=NOW).total
    assert (total.alone, total.helped, total.lost, total.failures) == (2, 1, 2, 7)


def test_what_a_deadline_closed_took_nobody_any_time() -> None:
    """The same on the page of the days, which reads the same times."""
    question(3, take_s=60, resolve_s=600)
    question(2, take_s=120, resolve_s=1800)
    late = question(1)
    Escalation.objects.filter(pk=late.pk).update(resolved_at=NOW, resolved_by="deadline", resolution="rejected")
    start, end = weeks_before(NOW, 1)
    total = report_of("dev", start=start, end=end, now=NOW).total
    answers = answering("dev", start=start, end=end, now=NOW)
    assert (total.acknowledging.median_s, total.resolving.median_s, total.resolving.count) == (90, 1200, 2)
    assert (answers.to_take, answers.to_resolve) == (timedelta(seconds=90), timedelta(seconds=1200))
    assert (answers.resolved, answers.held, answers.people) == (2, timedelta(seconds=540 + 1680), {"bob": 2})


def test_the_page_and_the_csv_say_the_same() -> None:
    question(9, take_s=300, resolve_s=1200)
    client = signed_in(Role.VIEWER)
    told = client.get("/report").context
    total = told["report"].total
    assert (total.opened, total.acknowledged_in_time.kept, total.acknowledged_in_time.of) == (1, 1, 1)
    assert left_out(told["sentence"], "4 weeks", "1", "100") == []
    answer = client.get("/report.csv?weeks=4")
    assert '"report-2026-10-26-4-weeks.csv"' in answer.headers["Content-Disposition"]
    rows = list(csv.DictReader(StringIO(answer.content.decode())))
    assert len(rows) == 4
    assert (rows[2]["week"], rows[2]["asked"], rows[2]["mtta_s"], rows[2]["mttr_s"]) == (
        "2026-11-09",
        "1",
        "300",
        "1200",
    )
    assert rows[3]["mtta_s"] == ""


def two_weeks() -> None:
    """First ana took and bob resolved two of one operation; a week later ana took one of three of another."""
    for days in (17, 16):
        question(days, operation="refund", take_s=60, resolve_s=660)
    for number, days in enumerate((10, 9, 8)):
        question(days, take_s=0 if number else 60)


def test_load_and_noise_are_told_by_week_and_add_up() -> None:
    two_weeks()
    start, end = weeks_before(NOW, 3)
    found = report_of("dev", start=start, end=end, now=NOW)
    before, last, this = found.weeks
    assert [(one.name, one.taken, one.resolved) for one in before.people] == [("ana", 2, 0), ("bob", 0, 2)]
    assert [(one.name, one.taken, one.resolved) for one in last.people] == [("ana", 1, 0)]
    assert [(one.operation, one.asked) for one in before.noisy] == [("refund", 2)]
    assert [(one.operation, one.facts) for one in last.noisy] == [("charge_card", 3)]
    assert (this.people, this.noisy) == ((), ())
    for word in ("taken", "resolved", "out_of_hours", "held_s"):
        weekly = sum(getattr(one, word) for span in found.weeks for one in span.people)
        assert weekly == sum(getattr(one, word) for one in found.total.people)
    for number, one in enumerate(found.weeks):
        span = week_with((start + timedelta(days=7 * number + 3)).date(), NOW)
        assert span == (one.start, one.end)
        alone = report_of("dev", start=span[0], end=span[1], now=NOW)
        assert alone.weeks == (one,), "asked for alone it says the same"


def test_a_week_is_looked_at_alone_on_the_page_in_the_api_and_as_csv() -> None:
    two_weeks()
    client, program = signed_in(Role.VIEWER), Program("read")
    start, _ = weeks_before(NOW, 3)
    page = client.get("/report").content.decode()
    assert f'href="?week={start.date()}"' in page
    alone = client.get(f"/report?week={start.date()}")
    shown = alone.context
    assert (shown["asked"].monday, shown["report"].total.opened) == (start.date(), 2)
    assert (start.date(), shown["is_so_far"]) == (date(2026, 11, 2), False)
    assert left_out(shown["sentence"], "2 November 2026", "2") == []
    said = text_of(alone)
    assert ("bob" in said, "refund" in said, "charge_card" in said) == (True, True, False)
    [told] = program.get("report", week="2026-11-04")[1]["weeks"]
    loads, [noise] = told["people"], told["noisy"]
    assert [(one["name"], one["held_s"]) for one in loads] == [("ana", 0), ("bob", 1200)]
    assert [one.pop("acknowledging")["median_s"] for one in loads] == [60, None]
    assert [one.pop("resolving")["median_s"] for one in loads] == [None, 660]
    for query in ("week=2026-11-08", "weeks=4"):
        rows = rows_of_csv(client, f"{query}&of=people", "2026-11-02")
        assert [{"name": row["who"]} | {name: float(row[name]) for name in FIGURES} for row in rows] == loads
        [row] = rows_of_csv(client, f"{query}&of=noisy", "2026-11-02")
        assert (row["whose"], row["what"], row["rank"]) == (noise["operation"], noise["kind"], "1")
        assert (int(row["asked"]), int(row["facts"])) == (noise["asked"], noise["facts"]) == (2, 2)
    assert [row["asked"] for row in rows_of_csv(client, "week=2026-11-02", "2026-11-02")] == ["2"]


@pytest.mark.parametrize("week", ["soon", "2999-01-01", "9999-12-31", "0001-01-01"])
def test_a_week_that_is_none_is_refused_by_the_api_and_left_out_by_the_page(week: str) -> None:
    status, answer = Program("read").get("report", week=week)
    if week == "0001-01-01":  # a long time ago nobody was asked anything
        assert (status, answer["total"]["asked"]) == (200, 0)
        return
    assert (status, list(answer["fields"])) == (400, ["week"])
    asked_for = signed_in(Role.VIEWER).get(f"/report?week={week}").context["asked"]
    assert (asked_for.monday, asked_for.weeks) == (None, 4)


FIGURES = ("taken", "decided", "resolved", "comments", "out_of_hours", "held_s")


def rows_of_csv(client: Any, query: str, week: str) -> list[dict[str, str]]:
    answer = client.get(f"/report.csv?{query}")
    return [row for row in csv.DictReader(StringIO(answer.content.decode())) if row["week"] == week]


def test_a_share_is_of_what_was_due_and_says_of_how_many() -> None:
    """Six were due, of which two were taken in time; six more were asked just now."""
    for number in range(6):
        question(3 - number / 10, operation=f"tool_{number}", take_s=60 if number < 2 else 1200)
    story = Story()
    for number in range(6):
        story.tell(asked(operation=f"late_{number}"), at=30, run=f"run-{number}")
    story.store()
    open_escalations("dev", ago(5))
    client = signed_in(Role.VIEWER)
    page = client.get("/report")
    total = page.context["report"].total
    assert (total.opened, total.acknowledged_in_time.kept, total.acknowledged_in_time.of) == (12, 2, 6)
    assert left_out(page.context["sentence"], "12", "6", "33") == []
    taken_in_time = page.context["tiles"][3]
    assert left_out(taken_in_time.figure, "33") == left_out(taken_in_time.detail, "2", "6") == []
    assert "33 % 2 of 6" in text_of(page)
    week = list(csv.DictReader(StringIO(client.get("/report.csv").content.decode())))[-1]
    assert (week["asked"], week["taken_in_time"], week["taken_due"]) == ("12", "2", "6")


def test_what_nobody_took_is_not_taken_in_time_because_its_deadline_closed_it() -> None:
    late = question(1)
    Escalation.objects.filter(pk=late.pk).update(
        resolved_at=late.acknowledge_by, resolved_by="deadline", resolution="rejected"
    )
    start, end = weeks_before(NOW, 1)
    kept = report_of("dev", start=start, end=end, now=NOW).total.acknowledged_in_time
    assert (kept.kept, kept.of) == (0, 1)


def test_asking_another_queue_gives_a_question_no_more_time() -> None:
    one = question(1)
    later = one.opened_at + timedelta(minutes=30)
    Escalation.objects.filter(pk=one.pk).update(
        acknowledge_by=later, first_acknowledged_at=later - timedelta(minutes=5)
    )
    start, end = weeks_before(NOW, 1)
    kept = report_of("dev", start=start, end=end, now=NOW).total.acknowledged_in_time
    assert (kept.kept, kept.of) == (0, 1)


def test_an_empty_report_says_so() -> None:
    page = signed_in(Role.VIEWER).get("/report?weeks=13")
    assert (page.context["asked"].weeks, page.context["report"].total.opened) == (13, 0)
    assert Shown(page).values("empty") == ["unread", "people", "noisy", "unread", "unread"]


def test_nine_of_ten() -> None:
    assert Times.of([]).mean_s is None
    assert Times.of(range(1, 11)).p90_s == 9
    assert Times.of([5]).p90_s == 5


def test_when_people_are_asked_and_how_each_queue_coped_are_drawn_and_written() -> None:
    first = question(9, take_s=300, resolve_s=1200)
    question(8, take_s=1200, resolve_s=2400)
    start, end = weeks_before(NOW, 2)
    found = report_of("dev", start=start, end=end, now=NOW).total
    [queue] = found.queues
    assert (queue.name, queue.asked, queue.acknowledging.median_s) == (first.queue, 2, 750)
    assert sum(map(sum, found.by_hour)) == 2
    assert found.by_hour[first.opened_at.weekday()][first.opened_at.hour] == 1
    page = signed_in(Role.VIEWER).get("/report?weeks=4")
    assert "hours-title" in Shown(page).ids
    row = Shown(page).within("groups", "queues").one("group", first.queue).text
    assert left_out(row, first.queue, "2", "12m 30s", "20m 00s", "30m 00s", "40m 00s") == []
    assert [(one.name, one.asked) for one in found.causes] == [(matter_of(first.category or first.reason), 2)]
    assert {one.name for one in found.shifts} <= {"day", "night", "weekend"}
    assert sum(one.asked for one in found.shifts) == 2
    by_name = {one.name: one for one in found.people}
    assert (by_name["ana"].acknowledging.p90_s, by_name["bob"].resolving.median_s) == (1200, 1800)
    rows = list(csv.DictReader(StringIO(signed_in(Role.VIEWER).get("/report.csv?of=causes").content.decode())))
    assert sum(int(row["asked"]) for row in rows) == 2
    told = signed_in(Role.VIEWER).get("/api/v1/report?weeks=4").json()
    assert [one["name"] for one in told["queues"]] == [first.queue]
    assert sum(map(sum, told["by_weekday_and_hour"])) == 2
    html = page.content.decode()
    assert len(re.findall(r"<title>[^<]*: 1 [a-z]+</title>", html)) == 2
    assert str(page.context["endings"].drawing) in html
    assert sum(map(sum, (counts for _, *counts in page.context["endings"].rows))) == 2


def test_a_report_of_nothing_draws_nothing() -> None:
    page = signed_in(Role.VIEWER).get("/report").content.decode()
    assert "hours-title" not in page
    assert "queues-title" not in page


def test_how_soon_is_drawn_by_week_with_the_numbers_of_its_table_and_file() -> None:
    for number, seconds in enumerate((60, 120, 180, 240, 300)):
        question(9 + number / 100, take_s=seconds, resolve_s=seconds * 2)
    question(2, take_s=30, resolve_s=600)
    client = signed_in(Role.VIEWER)
    answer = client.get("/report?weeks=4")
    page = answer.content.decode()
    table = page[page.index('id="take-title"') :].partition("</table>")[0]
    rows = [re.findall(r">([^<]*)</t[hd]>", row) for row in table.split("<tr>")[2:]]
    assert rows == [
        ["26 Oct", "0", "–", "–", "–"],
        ["2 Nov", "0", "–", "–", "–"],
        ["9 Nov", "5", "1m 00s", "3m 00s", "5m 00s"],
        ["16 Nov", "1", "30 s", "30 s", "30 s"],
    ]
    drawing = str(answer.context["boxes"][0].drawing)
    assert drawing in page
    many, one = re.findall(r"<title>([^<]+)</title>", drawing)
    assert left_out(many, "1m 00s", "5m 00s", "3m 00s", "5") == left_out(one, "30 s", "1") == []
    told = csv.DictReader(StringIO(client.get("/report.csv?weeks=4").content.decode()))
    taken = [(row["mtta_p10_s"], row["mtta_median_s"], row["mtta_p90_s"]) for row in told]
    assert taken == [("", "", ""), ("", "", ""), ("60", "180", "300"), ("30", "30", "30")]
    [*_, week, _] = client.get("/api/v1/report?weeks=4").json()["weeks"]
    assert [week["acknowledging"][name] for name in ("p10_s", "median_s", "p90_s")] == [60, 180, 300]


def near(share: float) -> Any:
    return pytest.approx(share, abs=0.01)


def test_groups_are_drawn_on_one_scale() -> None:
    question(9, take_s=150, resolve_s=300)
    question(8, take_s=300, resolve_s=600)
    answer = signed_in(Role.VIEWER).get("/report?weeks=4")
    page = answer.content.decode()
    causes = page[page.index('aria-labelledby="causes-title"') :].partition("</section>")[0]
    [(lanes, load)] = [(lanes, load) for name, _, _, [load], lanes in answer.context["groups"] if name == "causes"]
    [lane] = lanes.rows
    assert (lane.label, load.acknowledging.count) == ("unknown", 2)
    assert str(lane.drawing) in causes
    spans = ("2m 30s", "5m 00s", "3m 45s", "10m 00s", "7m 30s")
    assert left_out(str(lane.drawing), "unknown", *spans) == []
    bars = [tuple(map(float, one)) for one in re.findall(r'"n[23]" x="([\d.]+)%" width="([\d.]+)%"', causes)]
    scale = Scale(112.5, 600)  # from half of the shortest median to ten minutes
    ends = [(scale.share(225), scale.share(300)), (scale.share(450), 1)]
    assert bars == [(near(100 * begin), near(100 * (until - begin))) for begin, until in ends]
    assert re.search(r"3m 45s<small>[^<]*5m 00s</small>", causes)


def test_the_hours_in_which_people_are_asked_are_a_file_that_adds_up() -> None:
    first = question(9, take_s=300, resolve_s=600)
    question(2)
    told = list(csv.DictReader(StringIO(signed_in(Role.VIEWER).get("/report.csv?of=hours").content.decode())))
    assert len(told) == 4 * 7 * 24
    asked_then = [(row["week"], row["weekday"], row["hour"]) for row in told if row["asked"] != "0"]
    assert asked_then[0] == ("2026-11-09", f"{first.opened_at:%A}", str(first.opened_at.hour))
    assert sum(int(row["asked"]) for row in told) == 2


def test_what_runs_did_by_themselves_is_drawn_with_its_table() -> None:
    week().store()
    sum_days("dev", NOW)
    client = signed_in(Role.VIEWER)
    answer = client.get("/report?weeks=4")
    page = answer.content.decode()
    table = page[page.index('id="trouble-title"') :].partition("</table>")[0]
    shown = [re.findall(r'<td class="num">([^<]*)</td>', row) for row in table.split("<tr>")[2:]]
    names = ("runs_recovered_alone", "runs_helped", "runs_lost")
    told = csv.DictReader(StringIO(client.get("/report.csv?weeks=4").content.decode()))
    assert shown == [[row[name] or "–" for name in names] for row in told]
    assert [row[0] for row in shown] == ["–", "–", "–", "2"], "what was not summed up is not zero"
    assert left_out(answer.context["runs"].unknown, "26 Oct", "2 Nov", "9 Nov") == []
    assert answer.context["runs"].unknown in page


def test_one_week_alone_has_no_boxes() -> None:
    question(9, take_s=300, resolve_s=1200)
    ids = Shown(signed_in(Role.VIEWER).get("/report?week=2026-11-09")).ids
    assert {"take-title", "hours-title"} & ids == {"hours-title"}


@pytest.mark.parametrize(("p90_s", "limit"), [(0, 0), (7, 10), (61, 120), (600, 600), (700_000, 700_000)], ids=str)
def test_the_scale_ends_at_a_round_span(p90_s: float, limit: float) -> None:
    box = Box(count=1, p10_s=0, median_s=p90_s / 2, p90_s=p90_s)
    assert limit_of([None, box]) == (limit or 10)
    assert limit_of([None]) == 10
    for drawn in (upright([("a", box), ("b", None)], label="x"), lying([("a", box)], scale=Scale.of([box]), label="x")):
        for shape in ET.fromstring(str(drawn)).iter("rect"):
            assert 0 <= float(shape.attrib["width"].rstrip("%")) <= 100

"""The manager's view and the monthly report: what they say, of what they say it, and that bad months are told."""

from __future__ import annotations

import csv
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from events import keys
from recovery_ops.control.escalations.due import keep_deadlines
from recovery_ops.control.models import Escalation
from recovery_ops.control.roles import Role
from recovery_ops.rules.words import Category
from tests.support.api_client import Program
from tests.support.pages import REASON, held, signed_in, text_of, troubled_fleet
from tests.support.recoveries import busy
from tests.support.stories import NOW, Story, failed, heartbeat

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def page(path: str, **rest: Any) -> str:
    return text_of(signed_in().get(path, **rest))


def test_the_overview_says_whose_trouble_it_is_and_who_is_asked() -> None:
    busy()
    said = page("/")
    assert (
        "helios / large has been overloaded since 14:21:18, 4 runs on 2 instances so far, nothing for us to do" in said
    )
    assert "1 question waits for a person, the next deadline is in 15m 00s" in said
    assert "ESC-" in said
    assert "CE-" in said


def test_an_outage_costs_the_overview_nothing_more() -> None:
    busy()
    client = signed_in()
    client.get("/")
    with CaptureQueriesContext(connection) as asked:
        client.get("/")
    assert len(asked) <= 15


def test_a_question_is_taken_from_the_overview() -> None:
    busy()
    client = signed_in(Role.RESPONDER, "li")
    [one] = Escalation.objects.all()
    answer = client.post("/escalations/act/acknowledge", {"number": one.pk, "back": "/"})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    assert "li took it" in text_of(client.get("/"))
    assert f"Take ESC-{one.pk}" not in client.get("/").content.decode()
    Escalation.objects.update(resolve_by=NOW + timedelta(days=2))
    one.refresh_from_db()
    assert one.acknowledged_at
    assert keep_deadlines("dev", one.acknowledged_at + one.held_for) == 1
    assert "Nobody holds it any more" in text_of(client.get("/")), "who took it went away"
    assert "Take ESC-" not in signed_in(Role.VIEWER, "vi").get("/").content.decode()


def test_what_is_late_comes_first() -> None:
    busy()
    Escalation.objects.update(acknowledge_by=NOW - timedelta(minutes=4), resolve_by=NOW + timedelta(minutes=5))
    said = page("/")
    assert "1 deadline has passed" in said
    worst_first = said.partition("worst first")[2]
    assert worst_first.index("asks editors") < worst_first.index("search_web is open on")
    assert "is 4m 00s late" in said


def test_a_week_is_told_beside_the_one_before() -> None:
    busy()
    said = page("/?over=7d")
    assert (
        "In the last 7 days, 5 of 7 runs met trouble: 2 recovered by themselves, 1 with a person’s help, 2 were lost."
        in said
    )
    assert "40 % 2 of 5 runs in trouble; 40 % before" in said
    assert "$1.25 saved $0.50 lost, as 3 of 5 runs said" in said
    assert "search_web" in said
    assert "overloaded (529)" in said
    assert "5 of 14 runs" not in said
    assert "10 of 14 runs met trouble" in page("/?over=30d")


def test_nothing_read_is_said() -> None:
    troubled_fleet()
    said = page("/?over=7d")
    assert "no run was read yet" in said
    assert "no run in trouble said what it cost" in said


def test_a_month_that_was_not_read_yet_claims_nothing() -> None:
    Story().tell(heartbeat(), failed(Category.TIMEOUT, "search_web"), at=60).store()
    said = page("/report/monthly")
    assert said.count("Not read yet") == 2
    assert "No attempt failed" not in said
    assert "Attempts that failed" not in said


def test_an_unknown_span_is_the_overview_of_now() -> None:
    troubled_fleet()
    assert "What changed" in page("/?over=9y")


def test_the_report_of_a_month_tells_what_failed_recovered_and_was_done() -> None:
    busy()
    client = signed_in()
    held(client)
    said = text_of(client.get("/report/monthly"))
    assert "Recovery report, November 2026" in said
    assert "The month is not over" in said
    assert "In November 2026, 10 of 14 runs met trouble" in said
    assert "Provider overloaded, nothing for us to do" in said
    assert "1 event, 5m 00s in all" in said
    assert "1 opened, 0 taken, 0 resolved by a person" in said
    assert "Tripped breakers 1 ana" in said


@pytest.mark.parametrize(
    ("month", "words"),
    [
        ("2026-13", "The month could not be read: write 2026-01."),
        ("moon", "The month could not be read"),
        ("2027-01", "There is no report of January 2027."),
        ("1999-01", "There is no report of January 1999."),
    ],
)
def test_a_month_that_cannot_be_is_told(month: str, words: str) -> None:
    troubled_fleet()
    answer = signed_in().get("/report/monthly", {"month": month})
    assert answer.status_code == 200
    assert words in text_of(answer)
    assert "Recovery report, November 2026" in text_of(answer)


def test_an_earlier_month_leads_on_and_back() -> None:
    troubled_fleet()
    said = signed_in().get("/report/monthly?month=2026-10").content.decode()
    assert 'href="?month=2026-09"' in said
    assert 'href="?month=2026-11"' in said
    assert 'href="?month=2026-12"' not in signed_in().get("/report/monthly").content.decode()


def test_answers_are_measured_from_when_they_were_asked() -> None:
    busy()
    Escalation.objects.update(
        opened_at=NOW - timedelta(hours=2),
        first_acknowledged_at=NOW - timedelta(hours=2) + timedelta(minutes=4),
        resolved_at=NOW - timedelta(hours=1),
        resolved_by="li",
        resolution=Escalation.DONE,
        resolve_by=NOW - timedelta(minutes=90),
    )
    said = page("/?over=7d")
    assert "taken in 4m 00s, resolved in 1h 00m 00s" in said
    assert "1 past its deadline" in said
    assert "56m 00s, from taken to resolved" in said
    assert "li 1" in said


def test_all_of_a_month_as_csv_is_what_the_page_and_the_api_say(monkeypatch: pytest.MonkeyPatch) -> None:
    busy()
    client = signed_in(Role.RESPONDER, "li")
    [one] = Escalation.objects.all()
    client.post("/escalations/act/acknowledge", {"number": one.pk, "back": "/"})
    assert client.post("/escalations/act/resolve", {"number": one.pk, "reason": REASON, "back": "/"}).status_code == 303
    monkeypatch.setattr(timezone, "now", lambda: NOW + timedelta(minutes=2))
    told = client.get("/report/monthly?month=2026-11&format=csv&part=all").content.decode("utf-8-sig")
    rows = list(csv.DictReader(StringIO(told)))
    found = {(row["section"], row["of"], row["figure"]): row["value"] for row in rows}
    said = text_of(client.get("/report/monthly?month=2026-11"))

    runs = {figure: found["runs", "", figure] for figure in ("ended", "troubled", "alone", "helped", "lost")}
    assert int(runs["lost"]) > 0
    assert f"{runs['alone']} of {runs['troubled']} runs in trouble" in said
    assert f"Lost {runs['lost']} runs of {runs['ended']} that ended" in said
    assert f"{found['outages', '', 'count']} event" in said
    assert {found[key] for key in found if key[0] == "outages" and key[2] == "name"} == {"helios / large"}
    saved = float(found["time", "", "alone_s"]) + float(found["time", "", "helped_s"])
    assert float(found["time", "", "saved_s"]) == pytest.approx(saved)
    assert f"${float(found['money', '', 'lost_usd']):,.2f} lost" in said
    assert f"{found['questions', '', 'opened']} opened, {found['questions', '', 'taken']} taken" in said
    deeds = {row["of"]: row["value"] for row in rows if (row["section"], row["figure"]) == ("deeds", "times")}
    assert deeds
    assert [verb for verb, times in deeds.items() if f"{verb[:1].upper()}{verb[1:]} {times} li" not in said] == []
    causes = [row for row in rows if row["section"] == "causes" and row["figure"] == "failures"]
    assert sum(int(row["value"]) for row in causes) > 0

    keys.forget_keys()
    answer = Program("read").get("report", weeks="4")[1]
    for span in answer["weeks"]:
        monday = span["start"][:10]
        for figure in ("asked", "failed_attempts", "given_up", "recovered_share", "runs_recovered_alone", "runs_lost"):
            assert found["weeks", monday, figure] == ("" if span[figure] is None else str(span[figure])), (
                monday,
                figure,
            )
        for times in ("acknowledging", "resolving"):
            for figure, value in span[times].items():
                assert found["weeks", monday, f"{times}.{figure}"] == ("" if value is None else str(value))
        for kept in ("acknowledged_in_time", "resolved_in_time"):
            for figure, value in span[kept].items():
                assert found["weeks", monday, f"{kept}.{figure}"] == ("" if value is None else str(value))
    assert found["month", "", "acknowledging.count"] == "1"
    assert found["month", "", "resolved_in_time.share"] == "1.0"
    [person] = answer["people"]
    assert {figure: found["people", "li", figure] for figure in ("taken", "resolved", "out_of_hours")} == {
        figure: str(person[figure]) for figure in ("taken", "resolved", "out_of_hours")
    }
    noisy = {row["of"] for row in rows if row["section"] == "noisy"}
    assert len(noisy) == len(answer["noisy"])


def test_the_causes_of_a_month_stay_a_table_of_their_own() -> None:
    busy()
    told = signed_in().get("/report/monthly?month=2026-11&format=csv").content.decode("utf-8-sig")
    assert told.startswith("operation,category,failed attempts,runs it met,of them lost")

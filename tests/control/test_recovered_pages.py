"""The manager's view and the monthly report: what they say, of what they say it, and that bad months are told."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.capacity.detection import look
from events.capacity.reach import read_reach
from events.recoveries.summing import sum_days
from recovery_ops.control.escalations.opening import open_escalations
from recovery_ops.control.models import Escalation
from recovery_ops.control.roles import Role
from recovery_ops.rules.words import Category
from tests.control.visiting import held, signed_in, text_of, troubled_fleet
from tests.events.seeding import NOW, Story, failed, heartbeat
from tests.events.test_recoveries import DAY_S, week

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def busy() -> None:
    """A week with runs of every kind, an outage, and a question that nobody has taken."""
    Story().tell(heartbeat(), at=20 * DAY_S).store()
    troubled_fleet()
    story = week(Story(), at=3600)
    week(story, at=9 * DAY_S)
    for number, at in enumerate(range(300, 0, -5)):
        failure = failed(Category.OVERLOADED, "model:large", provider="helios", model="large")
        story.tell(failure, at=at, instance=f"r-{number % 2}", run=f"r-{number % 3}")
    story.store()
    look("dev", NOW)
    read_reach("dev", NOW)
    sum_days("dev", NOW, most=50)
    open_escalations("dev", NOW)


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
    assert "Tripped 1 ana" in said


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

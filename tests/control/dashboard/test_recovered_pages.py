"""The manager's view and the monthly report: what they say, of what they say it, and that bad months are told."""

from __future__ import annotations

import csv
from datetime import date, timedelta
from io import StringIO
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from events import keys
from events.capacity.asking import events_going_on
from events.capacity.rows import Owner
from recovery_ops.control.dashboard.views.needs_attention import Item
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.services.due import keep_deadlines
from recovery_ops.rules.enums import Category
from recovery_ops.rules.roles import Role
from tests.support.api_client import Program
from tests.support.html import Shown
from tests.support.pages import REASON, held, signed_in, troubled_fleet
from tests.support.recoveries import busy
from tests.support.sentences import left_out
from tests.support.stories import NOW, Story, ago, failed, heartbeat

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def now_items(answer: Any) -> list[Item]:
    """The lines of what needs a person, as they are shown."""
    items: list[Item] = list(answer.context["items"].shown)
    keys = [key for key in Shown(answer).values("key") if key in {one.key for one in items}]
    assert keys == [one.key for one in items]
    return items


def test_the_overview_says_whose_trouble_it_is_and_who_is_asked() -> None:
    busy()
    answer = signed_in().get("/")
    items = {one.key: one for one in now_items(answer)}
    [outage] = events_going_on("dev", now=NOW)
    assert (outage.name, outage.owner, outage.started) == ("helios / large", Owner.PROVIDER, ago(300))
    assert (outage.runs, outage.instances) == (4, 2)
    found = items[f"outage-{outage.id}"]
    assert found.since == outage.started
    assert left_out(found.title, "helios / large") == left_out(found.detail, "4", "2") == []
    [one] = Escalation.objects.all()
    asked = items[f"escalation-{one.pk}"]
    assert (asked.acknowledges, asked.ends) == (one.pk, NOW + timedelta(minutes=15))
    sentence = answer.context["sentence"]
    assert [word in sentence for word in ("helios / large", "4 runs", "14:21:18", "15m 00s")] == [True] * 4


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
    [item] = [line for line in now_items(client.get("/")) if line.key == f"escalation-{one.pk}"]
    assert ("li" in item.detail, item.acknowledges) == (True, None)
    assert "number" not in Shown(client.get("/")).fields
    Escalation.objects.update(resolve_by=NOW + timedelta(days=2))
    one.refresh_from_db()
    assert one.acknowledged_at
    assert keep_deadlines("dev", one.acknowledged_at + one.held_for) == 1
    one.refresh_from_db()
    left = Escalation.objects.filter(pk=one.pk, acknowledged_at=None).exclude(first_acknowledged_at=None)
    assert left.exists(), "who took it went away"
    [item] = [line for line in now_items(client.get("/")) if line.key == f"escalation-{one.pk}"]
    assert ("li" in item.detail.split(), item.acknowledges) == (False, one.pk)
    assert "number" in Shown(client.get("/")).fields
    assert "number" not in Shown(signed_in(Role.VIEWER, "vi").get("/")).fields


def test_what_is_late_comes_first() -> None:
    busy()
    Escalation.objects.update(acknowledge_by=NOW - timedelta(minutes=4), resolve_by=NOW + timedelta(minutes=5))
    answer = signed_in().get("/")
    items = {one.key: one for one in now_items(answer)}
    [one] = Escalation.objects.all()
    keys = list(items)
    assert keys.index(f"escalation-{one.pk}") < keys.index("breaker-search_web")
    late = items[f"escalation-{one.pk}"]
    assert (late.state, late.since, late.ends) == ("open", NOW - timedelta(minutes=4), None)


def test_a_week_is_told_beside_the_one_before() -> None:
    busy()
    answer = signed_in().get("/?over=7d")
    found = answer.context["found"]
    assert (found.runs, found.troubled, found.alone.runs, found.helped.runs, found.lost.runs) == (7, 5, 2, 1, 2)
    alone, _, _, _, money, _ = answer.context["tiles"]
    assert ["40" in alone.figure, "40" in alone.detail] == [True, True], "the share, and that of before"
    assert (money.figure, "$0.50" in money.detail, "3 of 5" in money.detail) == ("$0.25", True, True)
    causes = [(line.cause.operation, line.cause.category) for line in answer.context["lines"]]
    assert ("search_web", Category.OVERLOADED) in causes
    month = signed_in().get("/?over=30d").context["found"]
    assert (month.runs, month.troubled) == (14, 10)


def test_nothing_read_is_said() -> None:
    troubled_fleet()
    answer = signed_in().get("/?over=7d")
    found, money = answer.context["found"], answer.context["tiles"][4]
    assert (found.read_at, found.knows_cost, money.figure) == (None, False, "–")
    assert [tile.figure for tile in answer.context["tiles"][:4]] == ["–"] * 4
    assert Shown(answer).values("empty") == ["unread", "unread"]


def test_a_month_that_was_not_read_yet_claims_nothing() -> None:
    Story().tell(heartbeat(), failed(Category.TIMEOUT, "search_web"), at=60).store()
    shown = Shown(signed_in().get("/report?month=2026-11"))
    assert shown.values("empty") == ["unread", "people", "noisy", "unread", "unread"]
    assert shown.values("failures") == []


def test_definitions_are_on_every_report() -> None:
    busy()
    client = signed_in()
    for path in ("/report", "/report?month=2026-11", "/?over=7d", "/?over=30d"):
        assert 'id="definitions"' in client.get(path).content.decode(), path


def test_time_with_people_is_not_saved() -> None:
    busy()
    answer = signed_in().get("/?over=7d")
    saved_s = answer.context["found"].alone.took_s
    [saved] = [tile.figure for tile in answer.context["tiles"] if tile.title == "Time saved"]
    assert answer.context["found"].helped.took_s > saved_s
    assert saved == f"{saved_s / 60:.0f} min"


def test_an_unknown_span_is_the_overview_of_now() -> None:
    troubled_fleet()
    assert signed_in().get("/?over=9y").context["over"] == ""


def test_the_report_of_a_month_tells_what_failed_recovered_and_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    busy()
    client = signed_in()
    held(client)
    monkeypatch.setattr(timezone, "now", lambda: NOW + timedelta(seconds=1))
    answer = client.get("/report?month=2026-11")
    told = answer.context
    assert (told["asked"].month, told["is_so_far"]) == (date(2026, 11, 1), True)
    assert (told["found"].runs, told["found"].troubled) == (14, 10)
    assert [(one["row"].name, one["row"].owner) for one in told["outages"]] == [("helios / large", Owner.PROVIDER)]
    assert (told["outage_count"], told["outage_time"]) == (1, timedelta(minutes=5, seconds=1))
    assert [(times, who) for _, times, who in told["deeds"]] == [(1, "ana")]
    assert Shown(answer).values("range") == ["month=2026-11"]
    assert Shown(answer).values("failures") == [str(told["found"].failures)]


@pytest.mark.parametrize("month", ["2026-13", "moon", "2027-01", "1999-01"])
def test_a_month_that_cannot_be_is_told(month: str) -> None:
    troubled_fleet()
    answer = signed_in().get("/report", {"month": month})
    assert answer.status_code == 200
    assert month in answer.context["asked"].problem
    assert Shown(answer).values("range") == ["weeks=4"]


def test_an_earlier_month_leads_on_and_back() -> None:
    troubled_fleet()
    said = signed_in().get("/report?month=2026-10").content.decode()
    assert 'href="?month=2026-09"' in said
    assert 'href="?month=2026-11"' in said
    assert 'href="?month=2026-12"' not in signed_in().get("/report?month=2026-11").content.decode()


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
    answer = signed_in().get("/?over=7d")
    asked, tile = answer.context["answers"], answer.context["tiles"][5]
    assert (asked.to_take, asked.to_resolve) == (timedelta(minutes=4), timedelta(hours=1))
    assert (asked.late, asked.held, asked.people) == (1, timedelta(minutes=56), {"li": 1})
    assert ["4m 00s" in tile.detail, "1h 00m 00s" in tile.detail] == [True, True]


def test_all_of_a_month_as_csv_is_what_the_page_and_the_api_say(monkeypatch: pytest.MonkeyPatch) -> None:
    busy()
    client = signed_in(Role.RESPONDER, "li")
    [one] = Escalation.objects.all()
    client.post("/escalations/act/acknowledge", {"number": one.pk, "back": "/"})
    assert client.post("/escalations/act/resolve", {"number": one.pk, "reason": REASON, "back": "/"}).status_code == 303
    monkeypatch.setattr(timezone, "now", lambda: NOW + timedelta(minutes=2))
    told = client.get("/report.csv?month=2026-11&of=all").content.decode("utf-8-sig")
    rows = list(csv.DictReader(StringIO(told)))
    found = {(row["section"], row["of"], row["figure"]): row["value"] for row in rows}
    page = client.get("/report?month=2026-11")
    alone, lost, _, _, money = page.context["tiles"][5:]

    runs = {figure: found["runs", "", figure] for figure in ("ended", "troubled", "alone", "helped", "lost")}
    assert int(runs["lost"]) > 0
    assert left_out(alone.detail, runs["alone"], runs["troubled"]) == []
    assert (lost.figure, left_out(lost.detail, runs["ended"])) == (runs["lost"], [])
    assert found["outages", "", "count"] == str(page.context["outage_count"])
    assert {found[key] for key in found if key[0] == "outages" and key[2] == "name"} == {"helios / large"}
    assert left_out(money.detail, f"${float(found['money', '', 'lost_usd']):,.2f}") == []
    asked = page.context["report"].total
    assert found["report", "", "asked"] == str(asked.opened) == "1"
    deeds = {row["of"]: row["value"] for row in rows if (row["section"], row["figure"]) == ("deeds", "times")}
    assert deeds
    assert {(verb, int(times), "li") for verb, times in deeds.items()} == set(page.context["deeds"])
    causes = [row for row in rows if row["section"] == "causes" and row["figure"] == "failures"]
    assert sum(int(row["value"]) for row in causes) > 0

    keys.forget_keys()
    answer = Program("read").get("report", month="2026-11")[1]
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
    for section in ("runs", "time", "money"):
        for figure, value in answer["recovery"][section].items():
            assert found[section, "", figure] == ("" if value is None else str(value))
    assert found["report", "", "acknowledging.count"] == "1"
    assert found["report", "", "resolved_in_time.share"] == "1.0"
    [person] = answer["people"]
    assert {figure: found["people", "li", figure] for figure in ("taken", "resolved", "out_of_hours")} == {
        figure: str(person[figure]) for figure in ("taken", "resolved", "out_of_hours")
    }
    noisy = {row["of"] for row in rows if row["section"] == "noisy"}
    assert len(noisy) == len(answer["noisy"])


def test_the_causes_of_a_month_stay_a_table_of_their_own() -> None:
    busy()
    told = signed_in().get("/report.csv?month=2026-11&of=issues").content.decode("utf-8-sig")
    header, *rows = csv.reader(StringIO(told))
    assert header[:2] == ["operation", "category"]
    assert ["model:large", Category.OVERLOADED] in [row[:2] for row in rows]

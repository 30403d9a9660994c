"""What goes on for a while: told once it is known, and over when nothing of it goes on any more."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from events.capacity import arranging
from events.capacity.detection import look, look_back
from events.capacity.models import CapacityEvent
from events.capacity.reach import read_reach
from events.capacity.rows import OWNER_WORDS, Owner
from events.moments import to_us
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.notifications.detectors import monthly_reports
from recovery_ops.control.notifications.models.notifications import Delivery, Notification, NotificationRule
from recovery_ops.control.notifications.triggers import Look
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import DegradationEnded, DegradationStarted
from tests.support.capacity import storm
from tests.support.channels import channel, rule
from tests.support.escalations import act
from tests.support.notifications import question, told
from tests.support.stories import NOW, Story, heartbeat

pytestmark = pytest.mark.django_db


def looked(now: datetime = NOW) -> None:
    """As the tasks do it."""
    look("dev", now)
    look_back("dev", now)
    read_reach("dev", now)


def test_an_outage_of_several_parts_is_over_with_the_last_of_them() -> None:
    rule(channel(), "capacity")
    storm(Story(), since=100, until=40, region="eu").store()
    looked()
    first = CapacityEvent.objects.get()
    storm(Story(), since=100, until=40, region="us").store()
    looked()
    assert told() == [("capacity_began", f"CE-{first.pk}")]
    assert all(name in Delivery.objects.get().title for name in ("helios / large", "eu, us"))
    CapacityEvent.objects.filter(region="us").update(last_us=to_us(NOW + timedelta(minutes=90)))
    assert told(NOW + timedelta(minutes=91)) == [], "one part was quiet for an hour and a half, the other is hot"
    assert told(NOW + timedelta(minutes=96)) == [("capacity_ended", f"CE-{first.pk}")]
    assert told(NOW + timedelta(minutes=97)) == []


def test_what_people_made_one_is_over_as_one_and_the_number_that_was_told_says_of_which_it_is_a_part() -> None:
    rule(channel(), "capacity")
    storm(Story(), since=1500, until=1400, provider="atlas", region="").store()
    looked()
    told()
    storm(Story(), since=100, until=40).store()
    looked()
    old, new = CapacityEvent.objects.order_by("pk")
    assert told() == [("capacity_began", f"CE-{new.pk}")]
    arranging.merge(new, old, by="eva", reason="one data centre", now=NOW)
    CapacityEvent.objects.filter(pk=new.pk).update(last_us=to_us(NOW + timedelta(minutes=60)))
    assert told(NOW + timedelta(minutes=61)) == [], "it goes on, under another number"
    assert told(NOW + timedelta(minutes=70)) == [("capacity_ended", f"CE-{new.pk}")]
    assert f"CE-{old.pk}." in Delivery.objects.latest("pk").lines[0]


def test_what_grew_into_another_is_over_when_that_one_is() -> None:
    rule(channel(), "capacity")
    storm(Story(), since=1100, until=1000).store()
    storm(Story(), since=200, until=100).store()
    looked()
    first, second = CapacityEvent.objects.order_by("started_us")
    told()
    assert Notification.objects.get(is_open=True).subject == f"CE-{second.pk}"
    storm(Story(), since=900, until=300).store()
    looked()
    second.refresh_from_db()
    assert second.merged_into_id == first.pk
    CapacityEvent.objects.filter(pk=first.pk).update(last_us=to_us(NOW + timedelta(minutes=60)))
    assert told(NOW + timedelta(minutes=61)) == []
    assert told(NOW + timedelta(minutes=70)) == [("capacity_ended", f"CE-{second.pk}")]
    [line] = Delivery.objects.latest("pk").lines
    assert f"CE-{first.pk}." in line
    assert "1h 18m 20s" in line


def test_whose_outage_it_is_is_told_once_it_was_read() -> None:
    rule(channel(), "capacity")
    storm(Story(), since=60, until=5, category=Category.RATE_LIMITED).store()
    look("dev", NOW)
    assert told() == [], "whose it is nobody has read yet"
    read_reach("dev", NOW)
    event = CapacityEvent.objects.get()
    assert told() == [("capacity_began", f"CE-{event.pk}")]
    [line] = Delivery.objects.get().lines
    assert line.startswith(OWNER_WORDS[Owner.QUOTA])
    assert " 12 " in line


BEGUN = DegradationStarted(operation="answer", kind="fallback", reason="open", from_name="large", to_name="small")
DEGRADED = "degraded answer fallback"
ENDED = DegradationEnded(operation="answer", kind="fallback", duration_s=60.0, calls=3)


def test_an_instance_that_died_degraded_holds_back_no_notice_of_those_that_live() -> None:
    rule(channel(), "degradation_ended")
    Story().tell(heartbeat(), BEGUN, at=300, instance="dead").store()
    Story().tell(BEGUN, at=200, instance="next").tell(heartbeat(), ENDED, at=20, instance="next").store()
    assert told() == [("degradation_ended", DEGRADED)]
    assert told(NOW + timedelta(minutes=60)) == []


def test_an_instance_that_stopped_holds_nothing_either() -> None:
    rule(channel(), "degradation_ended")
    Story().tell(BEGUN, at=30, instance="gone").tell(heartbeat(status="stopped"), at=10, instance="gone").store()
    Story().tell(BEGUN, at=30, instance="next").tell(heartbeat(), ENDED, at=5, instance="next").store()
    assert told() == [("degradation_ended", DEGRADED)]


def test_of_what_was_told_degraded_and_fell_silent_the_end_says_that_nobody_reports_it() -> None:
    rule(channel(), "degraded")
    Story().tell(heartbeat(), BEGUN, at=5).store()
    assert told() == [("degraded", DEGRADED)]
    assert {"small", "large"} <= set(Delivery.objects.get().title.split())
    assert told(NOW + timedelta(minutes=14)) == [], "it may come back and say so"
    assert told(NOW + timedelta(minutes=16)) == [("degradation_over", DEGRADED)]
    over = Delivery.objects.latest("pk")
    assert (over.phase, len(over.lines), over.path) == ("ended", 1, "/degradations"), "and one line says why"
    assert told(NOW + timedelta(minutes=30)) == []


def test_what_goes_on_in_an_instance_that_reports_is_not_over() -> None:
    rule(channel(), "degraded")
    Story().tell(heartbeat(), BEGUN, at=5).store()
    assert told() != []
    Story().tell(heartbeat(), at=-3600, received=-3600).store()
    assert told(NOW + timedelta(minutes=60)) == []


def test_the_report_of_a_month_is_told_once_also_days_late() -> None:
    mail = rule(channel(), "monthly_report")
    one = question()
    act("resolve", one, reason="mended by hand")
    over = NOW.replace(day=1, month=NOW.month + 1, hour=0, minute=0, second=0, microsecond=0)
    assert told(over - timedelta(seconds=1)) == [], "the month before was over before the rule was made"
    assert told(over + timedelta(minutes=59)) == [], "its last day may not be summed up yet"
    assert told(over + timedelta(days=3)) == [("monthly_report", "month 2026-11")]
    note = Notification.objects.get(rule=mail)
    assert note.path == "/report?month=2026-11"
    assert " 1 " in note.title
    assert "1 of 1" in note.text
    assert told(over + timedelta(days=3, seconds=10)) == []
    assert told(over + timedelta(days=10)) == []


def test_the_report_of_a_month_says_of_how_many_its_times_are() -> None:
    rule(channel(), "monthly_report")
    for operation in ("publish", "refund"):
        question(operation)
    over = NOW.replace(day=1, month=NOW.month + 1, hour=1, minute=0, second=0, microsecond=0)
    with transaction.atomic():
        told(over)
        assert "of 2" not in Notification.objects.get().text, "neither was taken or resolved"
        transaction.set_rollback(True)
    question("erase")
    for one in Escalation.objects.order_by("pk")[:2]:
        act("acknowledge", one)
    told(over)
    text = Notification.objects.get().text
    assert re.findall(r"[\d,]+ of [\d,]+", text) == ["2 of 3"], "taken; none was resolved"


def test_a_month_is_read_only_for_rules_that_tell_it(django_assert_max_num_queries: Any) -> None:
    deaf = rule(channel(), "monthly_report")
    NotificationRule.objects.filter(pk=deaf.pk).update(least_severity="warning")  # as one could save it once
    over = NOW.replace(day=1, month=NOW.month + 1, hour=2, minute=0, second=0, microsecond=0)
    with django_assert_max_num_queries(1):
        assert list(monthly_reports.found(Look(environment="dev", now=over, asked=frozenset({"monthly_report"})))) == []

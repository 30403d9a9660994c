"""What goes on for a while: told once it is known, and over when nothing of it goes on any more."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from events.capacity import arranging
from events.capacity.detection import look, look_back
from events.capacity.models import CapacityEvent
from events.capacity.reach import read_reach
from events.moments import to_us
from recovery_ops.control.models import Delivery, Escalation, Notification, NotificationRule
from recovery_ops.control.notify.finding import months
from recovery_ops.control.notify.triggers import Look
from recovery_ops.rules.facts import DegradationEnded, DegradationStarted
from recovery_ops.rules.words import Category
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
    assert told() == [f"CE-{first.pk}: helios / large in eu, us is short of capacity"]
    CapacityEvent.objects.filter(region="us").update(last_us=to_us(NOW + timedelta(minutes=90)))
    assert told(NOW + timedelta(minutes=91)) == [], "one part was quiet for an hour and a half, the other is hot"
    over = f"CE-{first.pk}: helios / large in eu, us has capacity again"
    assert told(NOW + timedelta(minutes=96)) == [over]
    assert told(NOW + timedelta(minutes=97)) == []


def test_what_people_made_one_is_over_as_one_and_the_number_that_was_told_says_of_which_it_is_a_part() -> None:
    rule(channel(), "capacity")
    storm(Story(), since=1500, until=1400, provider="atlas", region="").store()
    looked()
    told()
    storm(Story(), since=100, until=40).store()
    looked()
    old, new = CapacityEvent.objects.order_by("pk")
    assert told() == [f"CE-{new.pk}: helios / large is short of capacity"]
    arranging.merge(new, old, by="eva", reason="one data centre", now=NOW)
    CapacityEvent.objects.filter(pk=new.pk).update(last_us=to_us(NOW + timedelta(minutes=60)))
    assert told(NOW + timedelta(minutes=61)) == [], "it goes on, under another number"
    [title] = told(NOW + timedelta(minutes=70))
    assert (title.partition(":")[0], title.endswith("has capacity again")) == (f"CE-{new.pk}", True)
    assert Delivery.objects.latest("pk").lines[0].startswith(f"It is a part of CE-{old.pk}. It lasted ")


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
    assert told(NOW + timedelta(minutes=70)) == [f"CE-{second.pk}: helios / large has capacity again"]
    assert Delivery.objects.latest("pk").lines == [f"It is a part of CE-{first.pk}. It lasted 1h 18m 20s."]


def test_whose_outage_it_is_is_told_once_it_was_read() -> None:
    rule(channel(), "capacity")
    storm(Story(), since=60, until=5, category=Category.RATE_LIMITED).store()
    look("dev", NOW)
    assert told() == [], "whose it is nobody has read yet"
    read_reach("dev", NOW)
    assert told() == [f"CE-{CapacityEvent.objects.get().pk}: helios / large is short of capacity"]
    assert Delivery.objects.get().lines == ["Our quota. 12 failed attempts so far."]


BEGUN = DegradationStarted(operation="answer", kind="fallback", reason="open", from_name="large", to_name="small")
ENDED = DegradationEnded(operation="answer", kind="fallback", duration_s=60.0, calls=3)


def test_an_instance_that_died_degraded_holds_back_no_notice_of_those_that_live() -> None:
    rule(channel(), "degradation_ended")
    Story().tell(heartbeat(), BEGUN, at=300, instance="dead").store()
    Story().tell(BEGUN, at=200, instance="next").tell(heartbeat(), ENDED, at=20, instance="next").store()
    assert told() == ["answer is whole again"]
    assert told(NOW + timedelta(minutes=60)) == []


def test_an_instance_that_stopped_holds_nothing_either() -> None:
    rule(channel(), "degradation_ended")
    Story().tell(BEGUN, at=30, instance="gone").tell(heartbeat(status="stopped"), at=10, instance="gone").store()
    Story().tell(BEGUN, at=30, instance="next").tell(heartbeat(), ENDED, at=5, instance="next").store()
    assert told() == ["answer is whole again"]


def test_of_what_was_told_degraded_and_fell_silent_the_end_says_that_nobody_reports_it() -> None:
    rule(channel(), "degraded")
    Story().tell(heartbeat(), BEGUN, at=5).store()
    assert told() == ["answer answers with less: small instead of large"]
    assert told(NOW + timedelta(minutes=14)) == [], "it may come back and say so"
    assert told(NOW + timedelta(minutes=16)) == ["answer is not degraded any more"]
    assert Delivery.objects.latest("pk").lines == ["No instance that reports answers with less."]
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
    assert told(over + timedelta(days=3)) == ["Report of November 2026: 1 question to people"]
    note = Notification.objects.get(rule=mail)
    assert note.path == "/report/monthly?month=2026-11"
    assert "1 of 1 was resolved, after " in note.text
    assert told(over + timedelta(days=3, seconds=10)) == []
    assert told(over + timedelta(days=10)) == []


def test_the_report_of_a_month_says_of_how_many_its_times_are() -> None:
    rule(channel(), "monthly_report")
    for operation in ("publish", "refund"):
        question(operation)
    over = NOW.replace(day=1, month=NOW.month + 1, hour=1, minute=0, second=0, microsecond=0)
    with transaction.atomic():
        told(over)
        assert "None was taken by anybody" in Notification.objects.get().text
        transaction.set_rollback(True)
    question("erase")
    for one in Escalation.objects.order_by("pk")[:2]:
        act("acknowledge", one)
    told(over)
    text = Notification.objects.get().text
    assert "2 of 3 were taken, half of those within " in text
    assert "None was resolved by anybody" in text


def test_a_month_is_read_only_for_rules_that_tell_it(django_assert_max_num_queries: Any) -> None:
    deaf = rule(channel(), "monthly_report")
    NotificationRule.objects.filter(pk=deaf.pk).update(least_severity="warning")  # as one could save it once
    over = NOW.replace(day=1, month=NOW.month + 1, hour=2, minute=0, second=0, microsecond=0)
    with django_assert_max_num_queries(1):
        assert list(months.found(Look(environment="dev", now=over, asked=frozenset({"monthly_report"})))) == []

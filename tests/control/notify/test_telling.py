"""From what happened to messages: what each rule asks for, once, with its end; grouped, calm, and quiet at night."""

from __future__ import annotations

from datetime import time, timedelta
from typing import Any

import pytest

from events.capacity.detection import look
from events.capacity.models import CapacityEvent
from events.capacity.reach import read_reach
from events.failures.asking import newest_marked
from recovery_ops.control import actions
from recovery_ops.control.actions.escalations import respond
from recovery_ops.control.actions.failures import triage
from recovery_ops.control.actions.failures_due import keep_failures
from recovery_ops.control.actions.notifying import save_rule
from recovery_ops.control.actions.shedding import extend_shed, shed
from recovery_ops.control.escalations.due import keep_deadlines
from recovery_ops.control.escalations.opening import open_escalations
from recovery_ops.control.models import BurnAlert, Delivery, Escalation, Notification
from recovery_ops.control.notify.budgets import budget_rows, watch
from recovery_ops.control.notify.formats import slack, webhook
from recovery_ops.control.notify.telling import tell
from recovery_ops.control.roles import Role
from recovery_ops.rules.facts import DegradationEnded, DegradationStarted, Escalated, RetryScheduled
from recovery_ops.rules.words import Category, DelaySource, State
from tests.support.actions import asked, person, trip
from tests.support.channels import EVA, channel, rule
from tests.support.escalations import act
from tests.support.notifications import question, told
from tests.support.pages import signed_in, text_of
from tests.support.stories import NOW, Story, counted, failed, heartbeat, moved

pytestmark = pytest.mark.django_db

LATER = timedelta(minutes=10)
RETRIED = RetryScheduled(
    operation="search_web", attempt=2, delay_s=1.0, delay_source=DelaySource.BACKOFF, category=Category.OVERLOADED
)


# -- escalations -------------------------------------------------------------------------------------------------------
def test_an_escalation_is_told_when_it_opens_is_taken_and_closed() -> None:
    rule(channel(), "escalation")
    one = question()
    assert told() == [f"{one} in unclassified (charge_card: unknown)"]
    assert told() == []
    act("acknowledge", one)
    assert told() == [f"ana took {one} in unclassified (charge_card: unknown)"]
    act("resolve", one, reason="it was a teapot after all")
    assert told() == [f"{one} in unclassified (charge_card: unknown) is closed: resolved by ana"]
    assert told(NOW + LATER) == []
    assert list(Delivery.objects.order_by("pk").values_list("phase", flat=True)) == ["began", "acknowledged", "ended"]
    assert len(set(Delivery.objects.values_list("lane", flat=True))) == 1


def test_a_deadline_is_told_at_half_at_four_fifths_and_when_it_is_over() -> None:
    rule(channel(), "sla", queue="unclass*")
    rule(channel(name="other"), "sla", queue="policy_review", name="not about it")
    one = question()
    heard = [(minutes, told(NOW + timedelta(minutes=minutes))) for minutes in (7, 8, 9, 12, 13, 14, 15, 16)]
    assert [minutes for minutes, titles in heard if titles] == [8, 12, 15]
    texts = [title for _, titles in heard for title in titles]
    assert "50 % of the time is gone" in texts[0]
    assert "80 %" in texts[1]
    assert texts[2].endswith("was not taken in time")
    assert "50 % of the time is gone" in Delivery.objects.latest("pk").lines[0]  # of the time to resolve it
    act("acknowledge", one, now=NOW + timedelta(minutes=17))
    assert told(NOW + timedelta(minutes=17)) == [f"ana took {one} in unclassified (charge_card: unknown)"]


@pytest.mark.parametrize("verb", ["taken", "resolved"])
def test_each_share_of_each_deadline_is_told_once(verb: str) -> None:
    rule(channel(), "sla")
    one = question()
    if verb == "resolved":  # taken at once: of the two deadlines only the one to resolve it runs
        act("acknowledge", one)
    length_s = 900 if verb == "taken" else 1800
    heard = {}
    for percent in (0, 49, 50, 51, 79, 80, 81, 99, 100, 101):
        now = NOW + timedelta(seconds=length_s * percent / 100)
        titles = [*told(now), *told(now)]
        heard[percent] = [title for title in titles if f"not {verb}" in title]
    until = NOW + timedelta(seconds=length_s)
    name = f"{one} in unclassified (charge_card: unknown)"
    assert {percent: titles for percent, titles in heard.items() if titles} == {
        50: [f"{name} is not {verb} yet: 50 % of the time is gone, until {until:%H:%M:%S} UTC"],
        80: [f"{name} is not {verb} yet: 80 % of the time is gone, until {until:%H:%M:%S} UTC"],
        100: [f"{name} was not {verb} in time"],
    }
    assert not [title for title in told(until + LATER) if f"not {verb}" in title]


def test_what_flaps_is_told_to_be_over_although_an_earlier_end_was_found_after_it_began_anew() -> None:
    rule(channel(), "breaker_moved")

    def move(state: State, *, at: float) -> None:
        Story().tell(moved(state), at=-at, received=-at, instance="a-1").store()

    move(State.OPEN, at=0)
    assert told(NOW) == ["Breaker search_web is open"]
    move(State.CLOSED, at=3)
    move(State.OPEN, at=4)  # before anybody looks: the closing is found once it is closed for good
    told(NOW + timedelta(seconds=5))
    move(State.CLOSED, at=6)
    told(NOW + timedelta(seconds=7))
    assert told(NOW + timedelta(seconds=60)) == [
        f"Breaker search_web is closed again, after 3 moves since {NOW + timedelta(seconds=3):%H:%M:%S} UTC"
    ]


def asking_for_minutes() -> Escalation:
    """A run that waits for ten minutes, and is told no when nobody answers."""
    waits: dict[str, Any] = {"escalation_id": "ticket-1", "deadline_s": 600.0, "default_action": "deny"}
    Story().tell(Escalated(operation="refund", queue="refunds", reason="question", **waits), at=0).store()
    open_escalations("dev", NOW)
    return Escalation.objects.latest("pk")


@pytest.mark.parametrize("first", ["silence", "look"])
def test_a_deadline_that_silence_decides_is_missed_whichever_look_comes_first(first: str) -> None:
    rule(channel(), "sla", least_severity="critical")
    one = asking_for_minutes()
    assert told(NOW + timedelta(minutes=9)) == []
    over = NOW + timedelta(minutes=10)
    heard = told(over) if first == "look" else []
    keep_deadlines("dev", over)
    heard += told(over + timedelta(seconds=2))
    missed = [title for title in heard if title.endswith("was not resolved in time")]
    assert missed == [f"{one} in refunds (refund: question) was not resolved in time"]
    assert [title for title in heard if "is closed" in title] == (
        [f"{one} in refunds (refund: question) is closed: rejected by deadline"] if first == "look" else []
    )
    assert told(over + LATER) == []


def test_who_was_told_that_time_runs_out_hears_of_the_end_too() -> None:
    rule(channel(kind="pagerduty"), "sla")
    one = asking_for_minutes()
    told(NOW + timedelta(minutes=6))
    keep_deadlines("dev", NOW + timedelta(minutes=10))
    told(NOW + timedelta(minutes=10))
    phases = [(delivery.lane.partition(":ESC")[2], delivery.phase) for delivery in Delivery.objects.order_by("pk")]
    assert phases == [(f"-{one.pk}", "began"), (f"-{one.pk}", "ended"), (f"-{one.pk} deadline", "told")]


def test_a_rule_that_is_new_tells_no_deadline_that_was_missed_before() -> None:
    asking_for_minutes()
    keep_deadlines("dev", NOW + timedelta(minutes=10))
    given = {"triggers": ["sla"], "group_s": 0}
    late = NOW + timedelta(minutes=11)
    save_rule(**asked(by=EVA, now=late, name="late", channel=channel().pk, words=given, is_on=True))
    assert told(late) == []


def test_only_what_matters_enough_and_fits_is_told() -> None:
    rule(channel(), "escalation", least_severity="critical")
    rule(channel(name="two"), "escalation", name="other operation", operation="search_*")
    question()
    assert told() == []


def test_what_happened_before_a_rule_is_not_told() -> None:
    question()
    to = channel()
    made = rule(to, "escalation")
    made.since = NOW + timedelta(seconds=1)
    made.save()
    assert told(NOW + timedelta(seconds=2)) == []


# -- breakers ----------------------------------------------------------------------------------------------------------
def test_forty_instances_that_open_together_are_one_message_and_the_last_to_close_ends_it() -> None:
    rule(channel(), "breaker_moved", group_s=10)
    story = Story()
    for number in range(40):
        story.tell(heartbeat(), moved(State.OPEN), at=5 - number / 20, instance=f"r-{number}")
    story.store()
    assert told() == []
    assert told(NOW + timedelta(seconds=10)) == ["Breaker search_web is open"]
    for number in range(40):
        Story().tell(
            heartbeat(), moved(State.CLOSED, before=State.OPEN), at=-20, received=-20, instance=f"r-{number}"
        ).store()
        if number < 39:
            assert told(NOW + timedelta(seconds=22)) == []
    assert told(NOW + timedelta(seconds=23)) == []  # it has to settle
    assert told(NOW + timedelta(seconds=60)) == ["Breaker search_web is closed again"]
    assert Notification.objects.filter(is_open=True).count() == 0
    assert Notification.objects.count() == 41


def test_twenty_flaps_in_five_minutes_are_an_alert_and_a_summary() -> None:
    rule(channel(), "breaker_moved")
    titles: list[str] = []
    for second in range(0, 660, 3):
        if second < 300 and second % 15 in (0, 6):
            state, before = (State.OPEN, State.CLOSED) if second % 15 == 0 else (State.CLOSED, State.OPEN)
            Story().tell(heartbeat(), moved(state, before=before), at=-second, received=-second).store()
        titles += told(NOW + timedelta(seconds=second))
    assert titles[0] == "Breaker search_web is open"
    assert len(titles) == 2
    assert titles[1].startswith("Breaker search_web is closed again, after 39 moves")


def test_a_silent_instance_does_not_keep_a_breaker_open() -> None:
    rule(channel(), "breaker_moved")
    Story().tell(heartbeat(), moved(State.OPEN), at=5).store()
    assert told() == ["Breaker search_web is open"]
    assert told(NOW + timedelta(minutes=14)) == []
    assert told(NOW + timedelta(minutes=16)) == ["Breaker search_web is not open any more"]
    assert told(NOW + timedelta(minutes=30)) == []


# -- capacity, degradations, overrides ---------------------------------------------------------------------------------
def test_an_outage_is_told_when_it_begins_and_when_it_cannot_go_on() -> None:
    rule(channel(), "capacity")
    overloaded = failed(Category.OVERLOADED, provider="helios", model="large", status_code=529)
    story = Story()
    for number in range(8):
        story.tell(overloaded, at=20 - number, instance=f"r-{number % 3}", run=f"run-{number}")
    story.store()
    look("dev", NOW)
    read_reach("dev", NOW)
    assert told() == [f"{told_number()}: helios / large is short of capacity"]
    assert told(NOW + timedelta(minutes=4)) == []
    assert told(NOW + timedelta(minutes=6)) == [f"{told_number()}: helios / large has capacity again"]
    assert told(NOW + timedelta(minutes=7)) == []


def told_number() -> str:
    return f"CE-{CapacityEvent.objects.get().pk}"


def test_a_degradation_ends_when_it_has_ended_everywhere() -> None:
    rule(channel(), "degradation_ended")
    begun = DegradationStarted(operation="answer", kind="fallback", reason="open", from_name="large", to_name="small")
    ended = DegradationEnded(operation="answer", kind="fallback", duration_s=60.0, calls=3)
    story = Story().tell(heartbeat(), at=1, instance="a").tell(heartbeat(), at=1, instance="b")
    story.tell(begun, at=100, instance="a").tell(begun, at=100, instance="b").store()
    assert told() == []
    Story().tell(ended, at=40, instance="a").store()
    assert told() == []
    Story().tell(ended, at=30, instance="b").store()
    assert told() == ["answer is whole again"]
    assert told(NOW + timedelta(seconds=100)) == []


@pytest.mark.usefixtures("known")
def test_an_override_about_to_end_is_told_once_and_so_is_that_it_was_extended() -> None:
    rule(channel(), "override_expiring", expiry_lead_min=10)
    held = trip(expires_in_s=3600).object
    assert told(NOW + timedelta(minutes=49)) == []
    assert told(NOW + timedelta(minutes=51)) == ["The override of search_web ends at 15:26:18 UTC"]
    assert told(NOW + timedelta(minutes=52)) == []
    actions.extend(**asked(override_id=held.pk, expires_in_s=7200, now=NOW + timedelta(minutes=53)))
    assert told(NOW + timedelta(minutes=54)) == ["The override of search_web was extended until 17:19:18 UTC"]
    assert told(NOW + timedelta(minutes=170)) == ["The override of search_web ends at 17:19:18 UTC"]
    assert told(NOW + timedelta(minutes=174)) == ["The override of search_web has ended"]


@pytest.mark.usefixtures("known")
def test_shed_load_about_to_pass_again_is_told_as_an_override_is() -> None:
    rule(channel(), "override_expiring", expiry_lead_min=10)
    shed(**asked(least="critical", expires_in_s=3600.0, confirm="dev"))
    assert told(NOW + timedelta(minutes=49)) == []
    assert told(NOW + timedelta(minutes=51)) == ["Shed load passes again at 15:26:18 UTC"]
    assert told(NOW + timedelta(minutes=52)) == []
    extend_shed(**asked(expires_in_s=7200.0, now=NOW + timedelta(minutes=53)))
    assert told(NOW + timedelta(minutes=54)) == ["Load is shed longer, until 17:19:18 UTC"]
    assert told(NOW + timedelta(minutes=170)) == ["Shed load passes again at 17:19:18 UTC"]
    assert told(NOW + timedelta(minutes=174)) == ["Load is shed no more"]
    assert told(NOW + timedelta(minutes=175)) == []


# -- failures ----------------------------------------------------------------------------------------------------------
def test_a_failure_never_seen_is_told_and_one_that_is_back() -> None:
    rule(channel(), "first_seen", "regressed")
    Story().tell(failed(fingerprint="known"), at=500).store()
    assert told() == []
    Story().tell(failed(fingerprint="known"), failed(fingerprint="fresh", operation="pay"), at=-5, received=-5).store()
    assert told(NOW + timedelta(seconds=11)) == ["Never seen before: pay: overloaded"]
    assert told(NOW + timedelta(seconds=30)) == []
    day = 90_000
    Story().tell(failed(fingerprint="fresh", operation="pay"), at=-day, received=-day).store()
    assert told(NOW + timedelta(seconds=day + 1)) == ["Back again: pay: overloaded"]


def test_a_clock_that_is_set_back_hides_no_new_failure() -> None:
    rule(channel(), "first_seen")
    Story().tell(failed(fingerprint="known"), at=500).store()
    assert told(NOW + timedelta(days=1)) == []
    Story().tell(failed(fingerprint="fresh", operation="pay"), at=-5, received=-5).store()
    assert told(NOW + timedelta(seconds=11)) == ["Never seen before: pay: overloaded"]


def test_a_cause_that_was_resolved_and_fails_again_is_told_as_back() -> None:
    rule(channel(), "regressed")
    Story().tell(failed(fingerprint="known", operation="pay"), at=500).store()
    assert told() == []
    triage("resolve", fingerprint="known", by=person(), environment="dev", reason="mended by hand", now=NOW)
    assert told(NOW + timedelta(seconds=11)) == []
    Story().tell(failed(fingerprint="known", operation="pay"), at=-20, received=-20).store()
    keep_failures("dev", now=NOW + timedelta(seconds=85))
    assert told(NOW + timedelta(seconds=86)) == ["Back again: pay: overloaded"]
    [note] = Notification.objects.filter(kind="regressed")
    assert note.text == "It was resolved. It failed again at 2026-11-21 14:26:38 UTC. Fingerprint known."
    assert told(NOW + timedelta(seconds=100)) == []


def test_what_is_back_is_looked_up_in_the_newest_failures_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rule(channel(), "regressed")
    Story().tell(failed(fingerprint="known", operation="pay"), at=500).store()
    assert told() == []
    triage("resolve", fingerprint="known", by=person(), environment="dev", reason="mended by hand", now=NOW)
    Story().tell(failed(fingerprint="known", operation="pay"), at=-20, received=-20).store()
    for number in range(8):
        Story().tell(failed(fingerprint=f"flood-{number}"), at=-21, received=-21).store()
    keep_failures("dev", now=NOW + timedelta(seconds=85))
    read = {"start": NOW, "end": NOW + timedelta(seconds=90)}
    assert newest_marked("dev", ["known", "nowhere"], **read)["known"].operation == "pay"
    monkeypatch.setattr("events.failures.asking.READ", 8)
    assert newest_marked("dev", ["known"], **read) == {}
    assert told(NOW + timedelta(seconds=86)) == ["Back again: cause known"], "told all the same, by its name"


def test_n_in_t_begins_and_ends() -> None:
    rule(channel(), "failures_many", failures=5, within_min=2, operation="pay")
    for number in range(6):
        Story().tell(failed(operation="pay"), failed(operation="other"), at=number).store()
    assert told() == ["pay failed 6 times in 2 minutes"]
    assert told(NOW + timedelta(seconds=30)) == []
    assert told(NOW + timedelta(minutes=3)) == ["pay fails less often again"]
    assert told(NOW + timedelta(minutes=4)) == []


# -- budgets -----------------------------------------------------------------------------------------------------------
def test_a_retry_budget_that_burns_is_an_alert_with_an_end() -> None:
    rule(channel(), "burn")
    story = Story()
    for _ in range(30):
        story.tell(RETRIED, at=100)
    story.tell(counted(100, attempts=130), at=100).store()
    assert watch("dev", NOW) == 1
    assert watch("dev", NOW) == 0
    assert watch("dev", NOW + timedelta(minutes=1)) == 0
    alert = BurnAlert.objects.get()
    assert (alert.operation, alert.burn, round(alert.worst, 3)) == ("search_web", "slow", 3.0)
    [row] = budget_rows("dev", now=NOW)
    assert (row.operation, row.budget, round(row.spent or 0, 3)) == ("search_web", 0.1, 3.0)
    assert told() == ["search_web spends its retry budget 3.0 times too fast"]
    assert watch("dev", NOW + timedelta(days=4)) == 1
    assert told(NOW + timedelta(days=4)) == ["search_web keeps within its retry budget again"]


@pytest.mark.parametrize(
    ("retries", "calls", "attempts", "words"),
    [
        (3, 20, 23, "over its budget 3 retries: too few for an alert 10 % 150 %"),
        (2, 20, 22, "within its budget 10 % 100 %"),
        (30, 300, 330, "within its budget 10 % 100 %"),
        (3, 0, 0, "not known no call was counted 10 % –"),
        pytest.param(2, 100, 12, "over its budget 2 retries: too few for an alert 10 % 200 %", id="90 were refused"),
        pytest.param(2, 0, 22, "within its budget 10 % 100 %", id="it only stands in for others"),
    ],
)
@pytest.mark.usefixtures("now")
def test_the_word_and_the_figure_of_a_budget_agree(retries: int, calls: int, attempts: int, words: str) -> None:
    Story().tell(*[RETRIED] * retries, at=100).tell(counted(calls, attempts=attempts), at=100).store()
    assert watch("dev", NOW) == 0
    assert words in text_of(signed_in(Role.VIEWER).get("/capacity"))


def test_the_policy_says_how_large_the_budget_is() -> None:
    actions.set_operation_policy(**asked(operation="search_web", knobs={"retry_budget": 0.5}, ahead=True))
    story = Story()
    for _ in range(30):
        story.tell(RETRIED, at=100)
    story.tell(counted(100, attempts=130), at=100).store()
    assert watch("dev", NOW) == 0
    assert budget_rows("dev", now=NOW)[0].budget == 0.5


# -- grouping and quiet hours ------------------------------------------------------------------------------------------
def test_what_comes_together_is_one_message_but_one_incident_each_for_pagerduty() -> None:
    rule(channel(), "escalation", group_s=10)
    rule(channel(kind="pagerduty", name="pager", address=""), "escalation", name="page", group_s=10)
    one = question()
    question("policy_review")
    assert told(NOW + timedelta(seconds=9)) == []
    titles = told(NOW + timedelta(seconds=19))
    assert titles[0] == f"{one} in unclassified (charge_card: unknown), and 1 other thing"
    assert len(titles) == 3
    assert len(Delivery.objects.get(title=titles[0]).lines) == 2
    assert len(set(Delivery.objects.filter(channel__kind="pagerduty").values_list("lane", flat=True))) == 2


def test_each_thing_of_a_bundle_says_whose_it_is_how_it_stands_and_where_to_look() -> None:
    to = channel()
    rule(to, "escalation", group_s=10)
    one = question()
    told()
    told(NOW + timedelta(seconds=10))
    alone = webhook(Delivery.objects.get())
    act("resolve", one, reason="it was a teapot after all")
    other = question("policy_review")
    told(NOW + timedelta(seconds=20))
    told(NOW + timedelta(seconds=30))
    said = webhook(Delivery.objects.latest("pk"))
    things = {thing["subject"]: (thing["phase"], thing["url"]) for thing in said["things"]}
    assert things[alone["subject"]] == ("ended", alone["url"]), "an end keeps its phase, its subject and its page"
    assert len(things) == 2
    [begun] = [thing for thing in said["things"] if thing["subject"] != alone["subject"]]
    assert (begun["phase"], begun["severity"]) == ("began", "warning")
    assert begun["url"].endswith(f"/escalations/{other.pk}")
    assert str(other) in begun["title"]
    assert said["phase"] == "told", "a bundle as a whole neither begins nor ends anything"
    assert [thing["subject"] for thing in alone["things"]] == [alone["subject"]]
    shown = slack(Delivery.objects.latest("pk"))["text"]
    assert all(f"<{thing['url']}|" in shown for thing in said["things"])
    assert "✓" in shown


def test_of_very_many_things_each_is_told_in_some_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recovery_ops.control.notify.telling.THINGS_MOST", 2)
    rule(channel(), "escalation")
    asked_ = [str(question(queue)) for queue in ("unclassified", "policy_review", "quota")]
    told()
    bundles = [webhook(one)["things"] for one in Delivery.objects.order_by("pk")]
    assert [len(things) for things in bundles] == [2, 1]
    assert [thing["subject"].rpartition(":")[2] for things in bundles for thing in things] == asked_


def test_quiet_hours_hold_what_can_wait_and_let_the_end_of_what_was_told_through() -> None:
    hours: dict[str, Any] = {"quiet_from": time(14, 20), "quiet_to": time(16, 0), "quiet_zone": "UTC"}
    rule(channel(), "escalation", **hours)
    one = question()
    assert told() == []
    assert told(NOW + timedelta(hours=1)) == []
    [title] = told(NOW.replace(hour=16, minute=0, second=0))
    assert str(one) in title
    act("reject", one, now=NOW + timedelta(minutes=94))
    assert told(NOW + timedelta(minutes=94, days=1)) == [f"{title} is closed: rejected by ana"]


def test_what_is_severe_passes_quiet_hours() -> None:
    hours: dict[str, Any] = {"quiet_from": time(14, 20), "quiet_to": time(16, 0), "quiet_passes": "warning"}
    rule(channel(), "escalation", **hours)
    question()
    assert len(told()) == 1


def test_nothing_is_lost_when_a_look_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    rule(channel(), "escalation")
    one = question()

    def cut(*_: object) -> int:
        raise RuntimeError("the worker was killed")

    with monkeypatch.context() as patch:
        patch.setattr("recovery_ops.control.notify.telling._make", cut)
        with pytest.raises(RuntimeError):
            tell("dev", NOW)
    assert not Notification.objects.exists()
    assert told() == [f"{one} in unclassified (charge_card: unknown)"]


def test_an_environment_without_rules_is_not_looked_at(django_assert_max_num_queries: Any) -> None:
    question()
    with django_assert_max_num_queries(5):
        assert tell("dev", NOW) == 0


def test_who_decides_elsewhere_is_told_the_same(known: None) -> None:
    rule(channel(), "escalation")
    one = question()
    told()
    respond("reject", number=one.pk, **asked(by=person()))
    assert told() == [f"{one} in unclassified (charge_card: unknown) is closed: rejected by ana"]

"""From what happened to messages: what each rule asks for, once, with its end; grouped, calm, and quiet at night."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta
from itertools import pairwise
from typing import Any

import pytest

from events.capacity.detection import look
from events.capacity.models import CapacityEvent
from events.capacity.reach import read_reach
from events.failures.asking import newest_marked
from recovery_ops.control.breakers.services import overrides as overrides_services
from recovery_ops.control.breakers.services.load_shedding import extend_shed, shed
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.services.actions import respond
from recovery_ops.control.escalations.services.due import keep_deadlines
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.issues.services.due import keep_failures
from recovery_ops.control.issues.services.issues import triage
from recovery_ops.control.notifications.formats import slack, webhook
from recovery_ops.control.notifications.models.notifications import BurnAlert, Delivery, Notification
from recovery_ops.control.notifications.retry_budgets import budget_rows, watch
from recovery_ops.control.notifications.rules import tell
from recovery_ops.control.notifications.services.settings import save_channel, save_rule
from recovery_ops.control.policies.services import policies
from recovery_ops.rules.enums import Category, DelaySource, State
from recovery_ops.rules.events import DegradationEnded, DegradationStarted, Escalated, RetryScheduled
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person, trip
from tests.support.channels import EVA, channel, rule
from tests.support.escalations import act
from tests.support.html import Shown
from tests.support.notifications import messages, notes_of, question, told
from tests.support.pages import signed_in
from tests.support.sentences import left_out
from tests.support.stories import NOW, Story, ago, counted, failed, heartbeat, moved

pytestmark = pytest.mark.django_db

LATER = timedelta(minutes=10)
OPENED, CLOSED = ("breaker_opened", "breaker search_web"), ("breaker_closed", "breaker search_web")
RETRIED = RetryScheduled(
    operation="search_web", attempt=2, delay_s=1.0, delay_source=DelaySource.BACKOFF, category=Category.OVERLOADED
)


# -- escalations -------------------------------------------------------------------------------------------------------
def test_an_escalation_is_told_when_it_opens_is_taken_and_closed() -> None:
    rule(channel(), "escalation")
    one = question()
    [opened] = messages()
    assert all(name in opened.title for name in (str(one), "unclassified", "charge_card", "unknown"))
    assert messages() == []
    act("acknowledge", one)
    [taken] = messages()
    assert "ana" in taken.title
    act("resolve", one, reason="it was a teapot after all")
    [closed] = messages()
    assert "ana" in closed.title
    assert [(note.kind, note.subject) for message in (opened, taken, closed) for note in notes_of(message)] == [
        ("escalation_opened", str(one)),
        ("escalation_taken", str(one)),
        ("escalation_closed", str(one)),
    ]
    assert told(NOW + LATER) == []
    assert list(Delivery.objects.order_by("pk").values_list("phase", flat=True)) == ["began", "acknowledged", "ended"]
    assert len(set(Delivery.objects.values_list("lane", flat=True))) == 1


def test_a_deadline_is_told_at_half_at_four_fifths_and_when_it_is_over() -> None:
    rule(channel(), "sla", queue="unclass*")
    rule(channel(name="other"), "sla", queue="policy_review", name="not about it")
    one = question()
    heard = {minutes: messages(NOW + timedelta(minutes=minutes)) for minutes in (7, 8, 9, 12, 13, 14, 15, 16)}
    kinds = {minutes: {note.kind for note in notes_of(made[0])} for minutes, made in heard.items() if made}
    assert kinds == {8: {"sla_taken_50"}, 12: {"sla_taken_80"}, 15: {"sla_taken_100", "sla_resolved_50"}}
    assert [len(made) for made in heard.values() if made] == [1, 1, 1]
    by_kind = {note.kind: note.title for note in notes_of(heard[15][0])}
    assert heard[15][0].title == by_kind["sla_taken_100"], "the gravest is the heading"
    assert by_kind["sla_resolved_50"] in heard[15][0].lines
    act("acknowledge", one, now=NOW + timedelta(minutes=17))
    assert told(NOW + timedelta(minutes=17)) == [("escalation_taken", str(one))]


@pytest.mark.parametrize("verb", ["taken", "resolved"])
def test_each_share_of_each_deadline_is_told_once(verb: str) -> None:
    rule(channel(), "sla")
    one = question()
    if verb == "resolved":  # taken at once: of the two deadlines only the one to resolve it runs
        act("acknowledge", one)
    length_s = 900 if verb == "taken" else 1800

    def missed(now: datetime) -> list[tuple[str, str]]:
        """Kind and event of each deadline of this verb that is told."""
        notes = [note for message in messages(now) for note in notes_of(message)]
        return [(note.kind, note.event) for note in notes if note.kind.startswith(f"sla_{verb}_")]

    heard = {}
    for percent in (0, 49, 50, 51, 79, 80, 81, 99, 100, 101):
        now = NOW + timedelta(seconds=length_s * percent / 100)
        heard[percent] = [*missed(now), *missed(now)]
    until = NOW + timedelta(seconds=length_s)
    assert {percent: told_ for percent, told_ in heard.items() if told_} == {
        share: [(f"sla_{verb}_{share}", f"{one}:{verb}:{until:%Y-%m-%dT%H:%M:%S}:{share}")] for share in (50, 80, 100)
    }
    titles = list(Notification.objects.filter(kind__in=[f"sla_{verb}_50", f"sla_{verb}_80"]).values_list("title"))
    assert all(f"{until:%H:%M:%S}" in title for (title,) in titles)
    assert len(set(titles)) == 2
    assert not missed(until + LATER)


def test_what_flaps_is_told_to_be_over_although_an_earlier_end_was_found_after_it_began_anew() -> None:
    rule(channel(), "breaker_moved")

    def move(state: State, *, at: float) -> None:
        Story().tell(moved(state), at=-at, received=-at, instance="a-1").store()

    move(State.OPEN, at=0)
    assert told(NOW) == [OPENED]
    move(State.CLOSED, at=3)
    move(State.OPEN, at=4)  # before anybody looks: the closing is found once it is closed for good
    told(NOW + timedelta(seconds=5))
    move(State.CLOSED, at=6)
    told(NOW + timedelta(seconds=7))
    [over] = messages(NOW + timedelta(seconds=60))
    kinds = [note.kind for note in notes_of(over)]
    assert kinds == ["breaker_closed", "breaker_opened", "breaker_closed"]
    assert f"{NOW + timedelta(seconds=3):%H:%M:%S}" in over.title, "since when it moves"
    assert " 3 " in over.title


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
    heard = messages(over) if first == "look" else []
    keep_deadlines("dev", over)
    heard += messages(over + timedelta(seconds=2))
    notes = [note for message in heard for note in notes_of(message)]
    assert [note.subject.split()[0] for note in notes if note.kind == "sla_resolved_100"] == [str(one)]
    closed = [note.title for note in notes if note.kind == "escalation_closed"]
    assert len(closed) == (1 if first == "look" else 0)
    assert all("deadline" in title for title in closed)
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


def test_rule_enabled_again_drops_what_it_held() -> None:
    to = channel()
    made = rule(to, "escalation", group_s=10)

    def saved(at_s: float, **said: Any) -> float:
        now = NOW + timedelta(seconds=at_s)
        words = {"triggers": ["escalation"], "group_s": 10} | said.pop("words", {})
        given = {"number": made.pk, "name": "the rule", "channel": to.pk, "words": words} | said
        return (save_rule(**asked(by=EVA, now=now, **given)).object.since - NOW).total_seconds()

    question()
    assert messages() == []
    assert saved(1) == -7200, "another name asks for the same"
    assert saved(2, is_on=False) == 2
    question("while it is off")
    assert saved(100) == 100
    assert messages(NOW + timedelta(seconds=200)) == []
    assert saved(300, words={"operation": "charge_*"}) == 300


# -- breakers ----------------------------------------------------------------------------------------------------------
def test_forty_instances_that_open_together_are_one_message_and_the_last_to_close_ends_it() -> None:
    rule(channel(), "breaker_moved", group_s=10)
    story = Story()
    for number in range(40):
        story.tell(heartbeat(), moved(State.OPEN), at=5 - number / 20, instance=f"r-{number}")
    story.store()
    assert told() == []
    assert told(NOW + timedelta(seconds=10)) == [OPENED]
    for number in range(40):
        Story().tell(
            heartbeat(), moved(State.CLOSED, before=State.OPEN), at=-20, received=-20, instance=f"r-{number}"
        ).store()
        if number < 39:
            assert told(NOW + timedelta(seconds=22)) == []
    assert told(NOW + timedelta(seconds=23)) == []  # it has to settle
    assert told(NOW + timedelta(seconds=60)) == [CLOSED]
    assert Notification.objects.filter(is_open=True).count() == 0
    assert Notification.objects.count() == 41


def test_end_in_one_environment_leaves_another_open() -> None:
    rule(channel(), "breaker_moved")
    there: dict[str, Any] = {"by": person(Role.EDITOR, "eva", "prod"), "environment": "prod"}
    hook = {"kind": "webhook", "address": "https://hooks.example.org/x", "secret": "a-key-of-the-other-environment"}
    to = save_channel(**asked(name="ops", **there, **hook)).object
    words = {"triggers": ["breaker_moved"], "group_s": 0}
    save_rule(**asked(now=ago(7200), name="moves", channel=to.pk, words=words, is_on=True, **there))

    def moves(environment: str, state: State, at_s: float) -> list[str]:
        """A breaker moves, and what is told of it once it has settled."""
        Story(environment).tell(heartbeat(), moved(state), at=-at_s, received=-at_s).store()
        before = set(Notification.objects.values_list("pk", flat=True))
        tell(environment, NOW + timedelta(seconds=at_s + 60))
        return list(Notification.objects.exclude(pk__in=before).values_list("kind", flat=True))

    assert [moves(name, State.OPEN, 0) for name in ("dev", "prod")] == [["breaker_opened"]] * 2
    assert [moves(name, State.CLOSED, at) for name, at in (("dev", 100), ("prod", 200))] == [["breaker_closed"]] * 2


def test_twenty_flaps_in_five_minutes_are_an_alert_and_a_summary() -> None:
    rule(channel(), "breaker_moved")
    made: list[Delivery] = []
    for second in range(0, 660, 3):
        if second < 300 and second % 15 in (0, 6):
            state, before = (State.OPEN, State.CLOSED) if second % 15 == 0 else (State.CLOSED, State.OPEN)
            Story().tell(heartbeat(), moved(state, before=before), at=-second, received=-second).store()
        made += messages(NOW + timedelta(seconds=second))
    alert, summary = made
    assert [note.kind for note in notes_of(alert)] == ["breaker_opened"]
    kinds = [note.kind for note in notes_of(summary)]
    assert (len(kinds), kinds[-1]) == (39, "breaker_closed")
    assert " 39 " in summary.title


def test_breaker_reopened_between_looks_stays_open() -> None:
    rule(channel(), "breaker_moved")
    Story().tell(heartbeat(), moved(State.OPEN), at=100).store()
    assert told() == [OPENED]
    moves = (State.OPEN, State.CLOSED, State.OPEN, State.HALF_OPEN, State.CLOSED)
    for at, (before, state) in zip((50, 40, 20, -30), pairwise(moves), strict=True):
        if at < 0:
            told(NOW + timedelta(seconds=5))
            assert Notification.objects.filter(is_open=True).exists()
        Story().tell(heartbeat(), moved(state, before=before), at=at, received=min(at, 0)).store()
    told(NOW + timedelta(seconds=31))
    assert not Notification.objects.filter(is_open=True).exists()


def test_a_silent_instance_does_not_keep_a_breaker_open() -> None:
    rule(channel(), "breaker_moved")
    Story().tell(heartbeat(), moved(State.OPEN), at=5).store()
    assert told() == [OPENED]
    assert told(NOW + timedelta(minutes=14)) == []
    assert told(NOW + timedelta(minutes=16)) == [("breaker_silent", "breaker search_web")]
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
    event = f"CE-{CapacityEvent.objects.get().pk}"
    assert told() == [("capacity_began", event)]
    assert told(NOW + timedelta(minutes=4)) == []
    assert told(NOW + timedelta(minutes=6)) == [("capacity_ended", event)]
    assert all(f"{event}: helios / large" in title for title in Delivery.objects.values_list("title", flat=True))
    assert told(NOW + timedelta(minutes=7)) == []


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
    assert told() == [("degradation_ended", "degraded answer fallback")]
    assert told(NOW + timedelta(seconds=100)) == []


def about_ends(after_min: float) -> list[tuple[str, str]]:
    """Kind and event of what one look tells: the event says of which override, and until when it holds."""
    notes = [note for message in messages(NOW + timedelta(minutes=after_min)) for note in notes_of(message)]
    return [(note.kind, note.event) for note in notes]


@pytest.mark.usefixtures("known")
def test_an_override_about_to_end_is_told_once_and_so_is_that_it_was_extended() -> None:
    rule(channel(), "override_expiring", expiry_lead_min=10)
    held = trip(expires_in_s=3600).object
    assert told(NOW + timedelta(minutes=49)) == []
    assert about_ends(51) == [("override_expiring", f"{held.pk}:2026-11-21T15:26:18")]
    assert told(NOW + timedelta(minutes=52)) == []
    overrides_services.extend(**asked(override_id=held.pk, expires_in_s=7200, now=NOW + timedelta(minutes=53)))
    assert about_ends(54) == [("override_over", f"{held.pk}:2026-11-21T17:19:18:extended")]
    assert about_ends(170) == [("override_expiring", f"{held.pk}:2026-11-21T17:19:18")]
    assert about_ends(174) == [("override_over", f"{held.pk}:2026-11-21T17:19:18:over")]
    titles = list(Delivery.objects.order_by("pk").values_list("title", flat=True))
    assert all("search_web" in title for title in titles)
    assert [re.findall(r"[\d:]+ UTC", title) for title in titles] == [
        ["15:26:18 UTC"],
        ["17:19:18 UTC"],
        ["17:19:18 UTC"],
        [],
    ]


@pytest.mark.usefixtures("known")
def test_shed_load_about_to_pass_again_is_told_as_an_override_is() -> None:
    rule(channel(), "override_expiring", expiry_lead_min=10)
    held = shed(**asked(least="critical", expires_in_s=3600.0, confirm="dev")).object
    assert told(NOW + timedelta(minutes=49)) == []
    assert about_ends(51) == [("override_expiring", f"{held.pk}:2026-11-21T15:26:18")]
    assert told(NOW + timedelta(minutes=52)) == []
    extend_shed(**asked(expires_in_s=7200.0, now=NOW + timedelta(minutes=53)))
    assert about_ends(54) == [("override_over", f"{held.pk}:2026-11-21T17:19:18:extended")]
    assert about_ends(170) == [("override_expiring", f"{held.pk}:2026-11-21T17:19:18")]
    assert about_ends(174) == [("override_over", f"{held.pk}:2026-11-21T17:19:18:over")]
    assert set(Notification.objects.values_list("subject", flat=True)) == {f"shed {held.pk}"}
    assert told(NOW + timedelta(minutes=175)) == []


# -- failures ----------------------------------------------------------------------------------------------------------
def test_a_failure_never_seen_is_told_and_one_that_is_back() -> None:
    rule(channel(), "first_seen", "regressed")
    Story().tell(failed(fingerprint="known"), at=500).store()
    assert told() == []
    Story().tell(failed(fingerprint="known"), failed(fingerprint="fresh", operation="pay"), at=-5, received=-5).store()
    assert told(NOW + timedelta(seconds=11)) == [("first_seen", "fingerprint fresh")]
    assert told(NOW + timedelta(seconds=30)) == []
    day = 90_000
    Story().tell(failed(fingerprint="fresh", operation="pay"), at=-day, received=-day).store()
    assert told(NOW + timedelta(seconds=day + 1)) == [("regressed", "fingerprint fresh")]
    titles = list(Delivery.objects.values_list("title", flat=True))
    assert all("pay: overloaded" in title for title in titles)
    assert len(set(titles)) == 2


def test_a_clock_that_is_set_back_hides_no_new_failure() -> None:
    rule(channel(), "first_seen")
    Story().tell(failed(fingerprint="known"), at=500).store()
    assert told(NOW + timedelta(days=1)) == []
    Story().tell(failed(fingerprint="fresh", operation="pay"), at=-5, received=-5).store()
    assert told(NOW + timedelta(seconds=11)) == [("first_seen", "fingerprint fresh")]


def test_a_cause_that_was_resolved_and_fails_again_is_told_as_back() -> None:
    rule(channel(), "regressed")
    Story().tell(failed(fingerprint="known", operation="pay"), at=500).store()
    assert told() == []
    triage("resolve", fingerprint="known", by=person(), environment="dev", reason="mended by hand", now=NOW)
    assert told(NOW + timedelta(seconds=11)) == []
    Story().tell(failed(fingerprint="known", operation="pay"), at=-20, received=-20).store()
    keep_failures("dev", now=NOW + timedelta(seconds=85))
    assert told(NOW + timedelta(seconds=86)) == [("regressed", "fingerprint known")]
    [note] = Notification.objects.filter(kind="regressed")
    assert note.event.startswith("known:resolved:"), "by whom it was resolved, not by how long it was quiet"
    assert "2026-11-21 14:26:38 UTC" in note.text
    assert "pay: overloaded" in note.title
    assert told(NOW + timedelta(seconds=100)) == []


def test_what_is_back_is_told_of_however_much_else_fails() -> None:
    rule(channel(), "regressed")
    Story().tell(failed(fingerprint="known", operation="pay"), at=500).store()
    assert told() == []
    triage("resolve", fingerprint="known", by=person(), environment="dev", reason="mended by hand", now=NOW)
    Story().tell(failed(fingerprint="known", operation="pay"), at=-20, received=-20).store()
    for number in range(20):
        Story().tell(failed(fingerprint=f"flood-{number}"), at=-21, received=-21).store()
    keep_failures("dev", now=NOW + timedelta(seconds=85))
    read = {"start": NOW, "end": NOW + timedelta(seconds=90)}
    assert newest_marked("dev", ["known", "nowhere"], **read)["known"].operation == "pay"
    [late] = messages(NOW + timedelta(seconds=86))
    assert [(note.kind, note.subject) for note in notes_of(late)] == [("regressed", "fingerprint known")]
    assert "pay: overloaded" in late.title


def test_n_in_t_begins_and_ends() -> None:
    made = rule(channel(), "failures_many", failures=5, within_min=2, operation="pay")
    for number in range(6):
        Story().tell(failed(operation="pay"), failed(operation="other"), at=number).store()
    assert told() == [("failures_many", f"failures {made.pk} pay")]
    assert re.findall(r"\d+", Delivery.objects.get().title) == ["6", "2"]
    assert told(NOW + timedelta(seconds=30)) == []
    assert told(NOW + timedelta(minutes=3)) == [("failures_fewer", f"failures {made.pk} pay")]
    assert told(NOW + timedelta(minutes=4)) == []


# -- budgets -----------------------------------------------------------------------------------------------------------
def test_a_retry_budget_that_burns_is_an_alert_with_an_end() -> None:
    rule(channel(), "burn")
    story = Story().tell(counted(1), at=7 * 3600)
    for _ in range(30):
        story.tell(RETRIED, at=100)
    story.tell(counted(99, attempts=129), at=100).store()
    assert watch("dev", NOW) == 1
    assert watch("dev", NOW) == 0
    assert watch("dev", NOW + timedelta(minutes=1)) == 0
    alert = BurnAlert.objects.get()
    assert (alert.operation, alert.burn, round(alert.worst, 3)) == ("search_web", "slow", 3.0)
    [row] = budget_rows("dev", now=NOW)
    assert (row.operation, row.budget, round(row.spent or 0, 3)) == ("search_web", 0.1, 3.0)
    assert told() == [("burn_began", f"burn {alert.pk}")]
    Story().tell(counted(100, attempts=110), at=0).store()
    later = NOW + timedelta(minutes=2)
    assert watch("dev", later) == 0, "it goes on, and slower"
    assert round(budget_rows("dev", now=later)[0].spent or 0, 2) == 1.43
    alert.refresh_from_db()
    assert round(alert.worst, 3) == 3.0
    assert left_out(Delivery.objects.get().title, "search_web", "3.0") == []
    assert watch("dev", NOW + timedelta(days=4)) == 1
    assert told(NOW + timedelta(days=4)) == [("burn_ended", f"burn {alert.pk}")]


@pytest.mark.parametrize(
    ("retries", "calls", "attempts", "state", "figure"),
    [
        (3, 20, 23, "few", "150 %"),
        (2, 20, 22, "within", "100 %"),
        (30, 300, 330, "within", "100 %"),
        (3, 0, 0, "unknown", "–"),
        pytest.param(2, 100, 12, "few", "200 %", id="90 were refused"),
        pytest.param(2, 0, 22, "within", "100 %", id="it only stands in for others"),
    ],
)
@pytest.mark.usefixtures("now")
def test_the_word_and_the_figure_of_a_budget_agree(
    retries: int, calls: int, attempts: int, state: str, figure: str
) -> None:
    story = Story().tell(counted(2 if calls else 0, attempts=2 if attempts else 0), at=7 * 3600)
    story.tell(*[RETRIED] * retries, at=100)
    story.tell(counted(max(0, calls - 2), attempts=max(0, attempts - 2)), at=100).store()
    assert watch("dev", NOW) == 0
    row = Shown(signed_in(Role.VIEWER).get("/capacity")).one("key", "budget-search_web")
    assert row.data["state"] == state
    assert f"10 % {figure}" in row.text


@pytest.mark.usefixtures("now")
def test_young_budget_shows_no_share_and_no_alert() -> None:
    Story().tell(*[RETRIED] * 40, at=40).tell(counted(20, attempts=60), at=40).store()
    assert watch("dev", NOW) == 0
    [row] = budget_rows("dev", now=NOW)
    assert (row.spent, [rate for _, rate in row.rates]) == (None, [None, None, None])
    assert Shown(signed_in(Role.VIEWER).get("/capacity")).one("key", "budget-search_web").data["state"] == "young"


def test_the_policy_says_how_large_the_budget_is() -> None:
    policies.set_operation_policy(**asked(operation="search_web", settings={"retry_budget": 0.5}, ahead=True))
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
    bundle, *incidents = messages(NOW + timedelta(seconds=19))
    assert str(one) in bundle.title
    assert len(bundle.lines) == len(bundle.things) == 2
    assert [len(notes_of(made)) for made in incidents] == [1, 1]
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
    monkeypatch.setattr("recovery_ops.control.notifications.rules.THINGS_MOST", 2)
    rule(channel(), "escalation")
    asked_ = [str(question(queue)) for queue in ("unclassified", "policy_review", "quota")]
    told()
    bundles = [webhook(one)["things"] for one in Delivery.objects.order_by("pk")]
    assert [len(things) for things in bundles] == [2, 1]
    assert [thing["subject"].rpartition(":")[2] for things in bundles for thing in things] == asked_


def test_what_is_due_soon_goes_out_with_what_is_due() -> None:
    rule(channel(), "breaker_moved", group_s=60)
    for after, breaker in ((0, "first"), (30, "second"), (61, "third")):
        Story().tell(heartbeat(), moved(State.OPEN, breaker=breaker), at=-after, received=-after).store()
        assert (told(NOW + timedelta(seconds=after)) == []) == (after < 60)
    [message] = Delivery.objects.all()
    assert [thing["lane"].rpartition(" ")[2] for thing in message.things] == ["first", "second", "third"]


@pytest.mark.parametrize(("zone", "until_h"), [("Asia/Tokyo", 21), ("UTC", 0), ("America/New_York", 0)])
def test_quiet_hours_are_of_the_zone_of_the_rule(zone: str, until_h: int) -> None:
    hours: dict[str, Any] = {"quiet_from": time(22), "quiet_to": time(6), "quiet_zone": zone}
    rule(channel(), "breaker_moved", **hours)
    Story().tell(heartbeat(), moved(State.OPEN), at=5).store()
    assert told() == ([] if until_h else [OPENED])
    if until_h:
        until = NOW.replace(hour=until_h, minute=0, second=0)
        Story().tell(heartbeat(), at=(NOW - until).total_seconds(), received=(NOW - until).total_seconds()).store()
        assert (told(until - timedelta(seconds=1)), told(until)) == ([], [OPENED])


def test_quiet_hours_hold_what_can_wait_and_let_the_end_of_what_was_told_through() -> None:
    hours: dict[str, Any] = {"quiet_from": time(14, 20), "quiet_to": time(16, 0), "quiet_zone": "UTC"}
    rule(channel(), "escalation", **hours)
    one = question()
    assert told() == []
    assert told(NOW + timedelta(hours=1)) == []
    assert told(NOW.replace(hour=16, minute=0, second=0)) == [("escalation_opened", str(one))]
    act("reject", one, now=NOW + timedelta(minutes=94))
    assert told(NOW + timedelta(minutes=94, days=1)) == [("escalation_closed", str(one))]


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
        patch.setattr("recovery_ops.control.notifications.rules._make", cut)
        with pytest.raises(RuntimeError):
            tell("dev", NOW)
    assert not Notification.objects.exists()
    assert told() == [("escalation_opened", str(one))]


def test_an_environment_without_rules_is_not_looked_at(django_assert_max_num_queries: Any) -> None:
    question()
    with django_assert_max_num_queries(5):
        assert tell("dev", NOW) == 0


def test_who_decides_elsewhere_is_told_the_same(known: None) -> None:
    rule(channel(), "escalation")
    one = question()
    told()
    respond("reject", number=one.pk, **asked(by=person()))
    assert told() == [("escalation_closed", str(one))]
    assert "ana" in Delivery.objects.latest("pk").title

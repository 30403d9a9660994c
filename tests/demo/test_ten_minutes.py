"""Ten minutes of the demonstration in virtual time: its operator's shift, at the real API, while the worker looks.

The facts are what its agents tell (tests/demo/test_script.py has the agents themselves); every look of the worker is
the real one. At the end each thing that a visitor is promised is in the store.
"""

from __future__ import annotations

import csv
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from events.capacity.detection import look
from events.capacity.models import CapacityArrangement, CapacityEvent
from events.capacity.reach import read_reach
from recovery_ops.control.breakers.models.load_shedding import LoadShed
from recovery_ops.control.breakers.services.load_shedding import end_expired_shed
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.demo_notifications import RECEIVER, demonstration_receiver
from recovery_ops.control.escalations.models import Escalation, EscalationNote
from recovery_ops.control.escalations.services.due import keep_deadlines
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.issues.services.due import keep_failures
from recovery_ops.control.notifications.models.notifications import BurnAlert, Channel, Delivery, Notification
from recovery_ops.control.notifications.retry_budgets import watch
from recovery_ops.control.notifications.rules import tell
from recovery_ops.control.policies.models.policies import PolicyProposal
from recovery_ops.demo.shift import OPERATOR, SERVICES, Shift
from recovery_ops.rules.enums import Category, DelaySource, State
from recovery_ops.rules.events import DegradationEnded, DegradationStarted, RetryScheduled
from tests.support.capacity import storm
from tests.support.demo_desk import ApiDesk, ask
from tests.support.pages import signed_in, text_of
from tests.support.sentences import left_out
from tests.support.stories import NOW, Story, counted, failed, heartbeat, moved

pytestmark = pytest.mark.django_db
PERSON = "ana"
TEN_MINUTES_S = 600
LOOK_EVERY_S = 10
RETRIED: dict[str, Any] = {
    "operation": "ledger.close",
    "delay_s": 0.2,
    "delay_source": DelaySource.BACKOFF,
    "category": Category.CONFLICT,
}
SELENE: dict[str, Any] = {"provider": "selene", "model": "selene-embed", "operation": "embed", "region": "eu-central-1"}
WEAKER: dict[str, Any] = {
    "operation": "search_web",
    "kind": "fallback",
    "from_name": "search_web",
    "to_name": "search_cache",
    "reason": "exhausted",
}


def at(second: float) -> dict[str, Any]:
    """A moment of the shift, as stories take it: how long before NOW, when it began."""
    return {"at": -second, "received": -second}


def questions(second: int) -> None:
    """What the agents ask, when they do."""
    story = Story()
    waits: dict[str, Any] = {"deadline_s": 300.0, "reason": "question", "default_action": "deny"}
    if second in (0, 10, 20, 50, 330, 350):
        given = {"escalation_id": f"t-{second}", "proposal": "40 EUR", **waits}
        ask(story, "refunds", Category.UNKNOWN, "refund", at=-second, **given)
    if second == 10:
        ask(story, "budgets", Category.UNKNOWN, "", reason="errors", at=-second)
        ask(story, "reversals", Category.IDEMPOTENCY_CONFLICT, "payment.capture", reason="reversal_refused", at=-second)
    if second == 60:
        odd = {"message": "HX-41", "fingerprint": "0dd0"}
        story.tell(failed(Category.UNKNOWN, "crm.update", **odd), **at(60), service=SERVICES[1])
        ask(story, "unclassified", Category.UNKNOWN, "crm.update", at=-second)
        ask(story, "unclassified", Category.UNKNOWN, "publish_report", at=-second)
        ask(story, "policy_review", Category.POLICY_DENIED, "publish_report", at=-second)
    if second == 70:
        ask(story, "quota", Category.QUOTA_EXHAUSTED, "fetch_prices", at=-second)
    story.store()


def weather(second: int) -> None:
    """A rate limit, an overload of two things, weaker answers, many failures, retries, a loose wire."""
    story = Story()
    story.tell(heartbeat(), **at(second), service=SERVICES[1], instance="support-agent-01")
    if second < 60:  # every other record of the archive is gone
        story.tell(*[failed(Category.NOT_FOUND, "read_archive") for _ in range(8)], **at(second), service=SERVICES[0])
    if 20 <= second < 190 and second % 10 == 0:
        category = Category.RATE_LIMITED if second < 80 else Category.OVERLOADED
        storm(story, since=-second, until=-second - 10, category=category)
        if second >= 80:
            storm(story, since=-second, until=-second - 10, model="", operation="search_web")
            storm(story, since=-second, until=-second - 10, **SELENE, category=Category.SERVER_ERROR)
    if second in (20, 120):
        met = (failed(Category.CONFLICT, "ledger.book"), failed(Category.QUOTA_EXHAUSTED, "sentiment"))
        story.tell(*met, **at(second), service=SERVICES[1])
    if second in (40, 280):
        retried = [RetryScheduled(**RETRIED, attempt=2 + number % 2) for number in range(40)]
        story.tell(counted(20, "ledger.close", attempts=60), *retried, **at(second), service=SERVICES[1])
    if second == 90:
        story.tell(DegradationStarted(**WEAKER), **at(second))
    if second == 200:
        story.tell(DegradationEnded(operation="search_web", kind="fallback", duration_s=110.0), **at(second))
    if 270 <= second < 345 and second % 10 == 0:
        for later, state in ((0, State.OPEN), (3, State.CLOSED), (5, State.OPEN), (8, State.CLOSED)):
            story.tell(moved(state, breaker="translate"), **at(second + later), instance="research-agent-03")
    story.store()


@pytest.fixture
def shift(monkeypatch: pytest.MonkeyPatch, settings: Any) -> ApiDesk:
    """Ten minutes in which everybody looks every ten seconds."""
    settings.EMBEDDED = True
    clock = [NOW]
    monkeypatch.setattr(timezone, "now", lambda: clock[0])
    get_user_model().objects.create_superuser(PERSON)
    demonstration_receiver("dev")
    desk = ApiDesk()
    work = Shift(desk, PERSON)
    for second in range(0, TEN_MINUTES_S, LOOK_EVERY_S):
        clock[0] = now = NOW + timedelta(seconds=second)
        questions(second)
        weather(second)
        open_escalations("dev", now)
        look("dev", now)
        read_reach("dev", now)
        work.look(float(second))
        keep_failures("dev", now=now)
        keep_deadlines("dev", now)
        end_expired_shed("dev", now=now)
        watch("dev", now)
        tell("dev", now)
    [refused] = desk.refused
    assert "'code': 'still_active'" in refused
    assert work.to_do == [], "everything was done"
    return desk


def test_everything_that_a_visitor_is_promised_happens(shift: ApiDesk) -> None:
    every_act_of_the_operator_is_in_the_audit_log()
    the_questions_went_every_way()
    the_outages_were_arranged_and_taken_back()
    the_budget_burnt_and_load_was_shed()
    everybody_was_told_in_every_form()
    twenty_flaps_were_one_alert_and_one_summary()
    the_report_tells_of_it()


def every_act_of_the_operator_is_in_the_audit_log() -> None:
    deeds = AuditEntry.objects.filter(actor_name=OPERATOR, actor_kind="key", result=AuditEntry.OK)
    acts = ("acknowledge", "approve", "reject", "note", "merge", "resolve", "escalate", "assign", "snooze", "reopen")
    assert set(deeds.values_list("verb", flat=True)) >= {
        *(f"escalation.{one}" for one in acts),
        *("channel.test", "breaker.trip", "failure.resolve", "load.shed"),
        *("capacity.split", "capacity.merge", "capacity.undo", "proposal.draft"),
    }


def the_questions_went_every_way() -> None:
    ends = set(Escalation.objects.values_list("queue", "resolution", "resolved_by"))
    assert ends >= {
        *(("refunds", one, OPERATOR) for one in ("approved", "edited", "rejected")),
        ("refunds", "rejected", "deadline"),
        ("unclassified", "merged", OPERATOR),
        ("policy_review", "rejected", OPERATOR),
        ("billing", "", ""),
        ("budgets", "", ""),
    }
    assert Escalation.objects.get(queue="reversals").assigned_to == PERSON
    verbs = set(EscalationNote.objects.values_list("verb", flat=True))
    assert verbs >= {"expired", "snooze", "returned", "reopen", "default"}
    in_bulk = AuditEntry.objects.filter(verb="escalation.approve", reason="The parcels came back.")
    assert in_bulk.count() > 1
    story = Escalation.objects.get(queue="budgets").notes.order_by("pk").values_list("verb", "text")
    told = [verb for verb, _ in story if verb in ("note", "resolve", "reopen")]
    assert told == ["note", "resolve", "reopen"], "the cause was still active, so it asked first"
    [proposal] = PolicyProposal.objects.all()
    assert proposal.state == PolicyProposal.DRAFT, "somebody else has to approve it"


def the_outages_were_arranged_and_taken_back() -> None:
    deeds = AuditEntry.objects.filter(verb__startswith="capacity.").order_by("number")
    done = list(deeds.values_list("verb", flat=True))
    assert done == [f"capacity.{one}" for one in ("split", "undo", "merge", "undo", "merge")]
    [standing] = CapacityArrangement.objects.filter(ended_at=None)
    assert standing.kind == "merge"
    assert CapacityEvent.objects.filter(merged_into__isnull=False).exists()


def the_budget_burnt_and_load_was_shed() -> None:
    burn = BurnAlert.objects.get(operation="ledger.close", burn="fast")
    assert burn.worst > 14.4
    assert burn.ended_at is not None, "and it was over within ten minutes"
    [shed] = LoadShed.objects.all()
    assert shed.least == "critical"


def everybody_was_told_in_every_form() -> None:
    assert set(Delivery.objects.values_list("channel__kind", flat=True)) == {
        *(Channel.WEBHOOK, Channel.SLACK, Channel.PAGERDUTY, Channel.EMAIL)
    }
    told = set(Notification.objects.exclude(delivery=None).values_list("kind", flat=True))
    assert told >= {
        *("sla_resolved_50", "sla_resolved_80", "sla_resolved_100", "regressed", "override_expiring"),
        *("capacity_began", "capacity_ended", "burn_began", "burn_ended", "degraded", "degradation_ended"),
        *("breaker_opened", "breaker_closed", "first_seen", "failures_many", "failures_fewer"),
    }
    many = Notification.objects.filter(kind="failures_many", channel__name=RECEIVER).exclude(delivery=None)
    titles = many.values_list("title", flat=True)
    assert [one for one in titles if not left_out(one, "read_archive", "40", "2 minutes")]
    steps = Notification.objects.filter(kind="chain_step").values_list("subject", "channel__kind")
    asked: dict[str, set[str]] = {}
    for subject, kind in steps:
        asked.setdefault(subject, set()).add(kind)
    assert {Channel.WEBHOOK, Channel.PAGERDUTY, Channel.EMAIL} in asked.values(), "a chain went on to the next"


def twenty_flaps_were_one_alert_and_one_summary() -> None:
    flaps = Notification.objects.filter(subject="breaker translate", channel__kind=Channel.WEBHOOK)
    assert flaps.count() >= 20
    [alert, summary] = Delivery.objects.filter(pk__in=flaps.values("delivery")).order_by("pk")
    assert left_out(alert.title, "translate") == []
    summed = flaps.filter(delivery=summary).count()
    assert summed > 15, "most of it is in the summary"
    assert left_out(summary.title, "translate", "closed", str(summed)) == []


def the_report_tells_of_it() -> None:
    visitor = signed_in()
    report = text_of(visitor.get("/report"))
    assert f"{OPERATOR} 7 6" in report, "its load: taken and decided"
    assert "refund unknown 6" in report, "what comes again and again"
    lines = visitor.get("/report.csv").content.decode().splitlines()
    *_, week = csv.DictReader(lines)
    assert (week["asked"], week["answered_by_default"]) == ("11", "1")
    assert 0 < float(week["mtta_s"]) < float(week["mttr_s"]) < TEN_MINUTES_S
    month = visitor.get("/report")
    assert (month.context["outage_count"], month.context["outage_time"]) == (1, timedelta(seconds=170))
    assert left_out(text_of(month), "2m 50s") == []
    deeds = [(count, who) for _, count, who in month.context["deeds"]]
    assert (7, OPERATOR) in deeds, "and what was done about it"
    assert deeds.count((1, OPERATOR)) > 1, "merged questions stand apart from events that were merged"

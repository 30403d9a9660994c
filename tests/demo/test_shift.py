"""The demonstration's operator works its shift at the real API, told the time, and touches nobody else's."""

from __future__ import annotations

import re
import smtplib
import socketserver
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from events.capacity.detection import look
from events.capacity.models import CapacityArrangement
from events.capacity.reach import read_reach
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.demo_notifications import demonstration_receiver
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.selectors.report import report_of, weeks_before
from recovery_ops.control.escalations.services.due import keep_deadlines
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.issues.services.due import keep_failures
from recovery_ops.control.notifications.dispatcher import send_due
from recovery_ops.control.notifications.models.notifications import Channel, Delivery, Notification
from recovery_ops.control.notifications.rules import tell
from recovery_ops.demo.mailbox import DOMAIN, Mailbox
from recovery_ops.demo.shift import CHORES, OPERATOR, Shift
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import Escalated
from tests.support.capacity import storm
from tests.support.demo_desk import ApiDesk, ask
from tests.support.pages import signed_in, text_of
from tests.support.stories import NOW, Story, failed, heartbeat

pytestmark = pytest.mark.django_db
SHIFT_S = 300
TITLE = "Breaker search_web is open"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The moment at which everybody looks."""
    at = [NOW]
    monkeypatch.setattr(timezone, "now", lambda: at[0])
    return at


def trouble() -> None:
    """What the agents of the demonstration go through, and one agent of somebody else's."""
    story = Story()
    for number in range(4):
        ticket: dict[str, Any] = {"escalation_id": f"t-{number}", "deadline_s": 900.0, "reason": "question"}
        ask(story, "refunds", Category.UNKNOWN, f"refund-{number}", **ticket)
    ask(story, "budgets", Category.UNKNOWN, "", reason="errors")
    ask(story, "policy_review", Category.POLICY_DENIED, "publish_report")
    ask(story, "quota", Category.QUOTA_EXHAUSTED, "fetch_prices")
    ask(story, "unclassified", Category.UNKNOWN, "crm.update")
    ask(story, "unclassified", Category.UNKNOWN, "send_mail")
    for queue in ("refunds", "budgets", "policy_review", "quota", "unclassified"):
        theirs = Escalated(operation=f"{queue}-of-theirs", queue=queue, reason="other")
        story.tell(theirs, at=500, service="their-agent", run="their-run")
    story.tell(heartbeat(), at=5, service="support-agent", instance="support-agent-01")
    story.tell(failed(Category.UNKNOWN, "crm.update", message="HX-41"), at=15)
    story.tell(failed(Category.CONFLICT, "sentiment"), failed(Category.CONFLICT, "ledger.book"), at=15)
    storm(story, since=250, until=200, category=Category.RATE_LIMITED)
    storm(story, since=150, until=5)
    storm(story, since=150, until=5, model="", operation="search_web")
    selene: dict[str, Any] = {"provider": "selene", "model": "selene-embed", "operation": "embed"}
    storm(story, since=140, until=5, region="eu-central-1", category=Category.SERVER_ERROR, **selene)
    storm(story, since=150, until=5, provider="theirs", model="", operation="their.tool")
    story.store()
    open_escalations("dev", NOW)
    look("dev", NOW)
    read_reach("dev", NOW + timedelta(minutes=5))


def test_the_operator_does_its_chores_as_itself_and_leaves_the_rest(clock: list[Any], settings: Any) -> None:
    settings.EMBEDDED = True
    demonstration_receiver("dev")
    trouble()
    desk = ApiDesk()
    shift = Shift(desk)
    for second in range(0, SHIFT_S, 5):
        clock[0] = NOW + timedelta(seconds=second)
        shift.look(float(second))
        read_reach("dev", NOW + timedelta(minutes=5))
    [refused] = desk.refused
    assert "'code': 'still_active'" in refused, "it was asked a moment ago"
    assert [one.after_s for one in shift.to_do] == [one.after_s for one in CHORES if one.after_s > SHIFT_S]
    deeds = AuditEntry.objects.filter(actor_name=OPERATOR, result=AuditEntry.OK)
    assert set(deeds.values_list("actor_kind", flat=True)) == {"key"}
    assert set(deeds.values_list("verb", flat=True)) == {
        *("channel.test", "breaker.trip", "load.shed", "failure.resolve", "proposal.draft"),
        *("capacity.split", "capacity.merge", "capacity.undo"),
        *(f"escalation.{one}" for one in ("acknowledge", "approve", "reject", "note", "merge", "resolve", "escalate")),
        *("escalation.snooze", "escalation.reopen"),
    }
    ours = Escalation.objects.filter(service="support-agent")
    ends = [(one.operation, one.resolution) for one in ours.exclude(resolution="").order_by("pk")]
    assert ends == [
        *(("refund-0", "approved"), ("refund-1", "edited"), ("refund-2", "rejected")),
        *(("publish_report", "rejected"), ("send_mail", "merged")),
    ]
    theirs = Escalation.objects.filter(service="their-agent")
    assert set(theirs.values_list("acknowledged_by", "version")) == {("", 1)}
    assert ours.get(operation="fetch_prices").queue == "billing"
    arranged = [(one.kind, one.ended_at is None) for one in CapacityArrangement.objects.order_by("pk")]
    assert sorted(set(arranged)) == [("cut", False), ("merge", False), ("merge", True)]
    whose = {(one.kind, end.provider) for one in CapacityArrangement.objects.all() for end in (one.event, one.other)}
    assert whose == {("cut", "helios"), ("merge", "helios"), ("merge", "selene")}
    [override] = Override.objects.all()
    assert override.expires_at == NOW + timedelta(seconds=110 + 240)
    start, end = weeks_before(clock[0], 1)
    report = report_of("dev", start=start, end=end, now=clock[0])
    taken, resolved = report.total.acknowledging.count, report.total.resolving.count
    assert taken == resolved + 3, "what is with billing is nobody's yet, one question is let lie, one was reopened"
    assert [one.name for one in report.total.people] == [OPERATOR]
    keep_deadlines("dev", NOW + timedelta(seconds=65 + 450))
    assert ours.get(operation="refund-3").notes.filter(verb="expired").count() == 1, "it asks again"


def test_what_was_resolved_and_is_back_is_told_and_what_can_wait_is_held_and_shown(
    clock: list[Any], settings: Any
) -> None:
    settings.EMBEDDED = True
    demonstration_receiver("dev")
    trouble()
    tell("dev", NOW)
    shift = Shift(ApiDesk(), to_do=[one for one in CHORES if one.after_s in (85.0, 110.0)])
    shift.look(120.0)
    for number in range(60):
        Story().tell(
            failed(Category.CONFLICT, "ledger.book"), failed(fingerprint=f"new-{number}"), at=-5, received=-5
        ).store()
    for second in (130, 145):
        clock[0] = NOW + timedelta(seconds=second)
        keep_failures("dev", now=clock[0])
        tell("dev", clock[0])
    mailbox = Channel.objects.get(kind=Channel.EMAIL)
    told = Notification.objects.filter(channel=mailbox)
    assert {one.kind for one in told if one.delivery_id} == {"regressed", "override_expiring"}
    held = [one for one in told if not one.delivery_id]
    assert {one.kind for one in held} == {"first_seen", "failures_many"}
    page = text_of(signed_in().get("/settings/notifications"))
    assert re.search(rf"\b{len(held)}\b[^.]* 16:26 UTC", page), "how many are held, and until when"


@pytest.fixture
def mailbox() -> Iterator[tuple[str, int]]:
    """The demonstration's mailbox at an address of this machine."""
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mailbox)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    host, port = server.server_address[:2]
    yield str(host), port
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_demonstrations_mail_really_arrives_and_nobody_elses_is_taken(
    mailbox: tuple[str, int], settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.MAIL_ROUTES = {DOMAIN: mailbox}
    there = Channel.objects.create(
        environment="dev", name="mailbox", kind="email", address=f"on-call@{DOMAIN}", changed_at=NOW, changed_by="ana"
    )
    both = Channel.objects.create(
        environment="dev",
        name="both",
        kind="email",
        address=f"on-call@{DOMAIN}, ana@example.org",
        changed_at=NOW,
        changed_by="ana",
    )
    for number, channel in enumerate((there, both)):
        Delivery.objects.create(
            environment="dev",
            channel=channel,
            origin="rule:1",
            lane=f"rule:1:{number}",
            phase="began",
            severity="warning",
            title=TITLE,
            lines=[".a line that begins with a dot"],
            made_at=NOW,
            not_before=NOW,
        )
    send_due(now=lambda: NOW)
    arrived, stranded = Delivery.objects.order_by("pk")
    assert (arrived.state, arrived.problem) == ("sent", "")
    assert stranded.state == "failed"
    assert "RECOVERY_OPS_MAIL_URL" in stranded.problem
    assert capsys.readouterr().out == f"mail to on-call@{DOMAIN}: [dev] {TITLE}\n"
    with smtplib.SMTP(*mailbox) as connection, pytest.raises(smtplib.SMTPRecipientsRefused):
        connection.sendmail("a@example.org", ["ana@example.org"], "Subject: no\r\n\r\nno")

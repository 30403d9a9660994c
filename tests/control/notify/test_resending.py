"""What was not delivered, sent again: as a message of its own, once, by a person who was told what that may mean."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from events import keys
from recovery_ops import cli
from recovery_ops.control.actions.notifying import remove_channel, save_channel
from recovery_ops.control.actions.resending import resend
from recovery_ops.control.audit import verify
from recovery_ops.control.models import AuditEntry, Channel, Delivery
from recovery_ops.control.notify.keeping import KEPT_FOR, forget_old
from recovery_ops.control.notify.sending import LEASE, claim_next, mend
from recovery_ops.control.notify.telling import tell
from recovery_ops.control.refusals import Refused
from recovery_ops.control.roles import Role
from tests.support.actions import asked, person
from tests.support.api_client import Program
from tests.support.channels import EVA, channel
from tests.support.command_line import WHY, Operator, operator
from tests.support.deliveries import Clock, message, sent, state_of
from tests.support.escalation_policies import chain
from tests.support.html import Shown
from tests.support.notifications import question
from tests.support.pages import REASON, signed_in
from tests.support.stories import NOW
from tests.support.webhook_receiver import Receiver, Reply

__all__ = ["operator"]  # the fixture
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]
LOG = "/settings/notifications/log"


def again(one: Delivery, **more: Any) -> Delivery:
    return resend(**asked(by=EVA, number=one.pk, **more)).object


def refused(one: Delivery, **more: Any) -> str:
    with pytest.raises(Refused) as caught:
        again(one, **more)
    return caught.value.code


def form(client: Client, one: Delivery, **more: Any) -> Any:
    return client.post(f"{LOG}/{one.pk}/again", {"reason": REASON, "key": f"again-{one.pk}"} | more)


def test_what_failed_for_good_goes_out_again_and_says_what_it_repeats(inbox: Receiver) -> None:
    one, clock = message(channel(inbox)), Clock()
    inbox.replies = [Reply(400, body=b"no such room")]
    sent(clock)
    assert state_of(one) == ("failed", 1)
    made = again(one)
    sent(clock)
    assert (state_of(made), state_of(one)) == (("sent", 1), ("failed", 1))
    first, second = inbox.got
    assert (first.said["repeats"], second.said["repeats"], second.said["id"]) == (None, one.pk, made.pk)
    assert second.headers["recovery-ops-delivery"] != first.headers["recovery-ops-delivery"]
    assert one.title in second.said["title"]
    assert second.said["title"] != one.title
    assert all(word in second.said["lines"][-1] for word in ("eva", f" {one.pk} ", "2026-11-21 14:26 UTC"))
    assert second.said["subject"] == first.said["subject"]
    entry = AuditEntry.objects.get(verb="delivery.resend")
    assert (entry.object, entry.after["repeats"], entry.after["was"]) == (f"message {one.pk}", one.pk, "failed")
    assert verify("dev").is_whole


def test_it_is_repeated_once_and_what_failed_again_is_repeated_itself(inbox: Receiver) -> None:
    one = message(channel(inbox), state="failed")
    second = again(one)
    assert refused(one) == "repeated"
    assert refused(second) == "not_failed"
    Delivery.objects.filter(pk=second.pk).update(state="failed")
    third = again(second)
    assert (third.repeats, third.title) == (second.pk, second.title)
    assert len(third.lines) == len(one.lines) + 1, "it says once that it is sent again"


def test_the_same_key_sends_one(inbox: Receiver) -> None:
    one = message(channel(inbox), state="failed")
    assert again(one, key="once").pk == again(one, key="once").pk
    assert Delivery.objects.count() == 2


@pytest.mark.parametrize("state", ["waiting", "claimed", "sending", "sent", "dropped"])
def test_what_did_not_fail_is_not_sent_again(state: str) -> None:
    one = message(channel(), state=state)
    assert refused(one, may_arrive_twice=True) == "not_failed"


def test_one_in_doubt_takes_somebody_who_says_that_they_know(inbox: Receiver) -> None:
    to, clock = channel(inbox), Clock()
    one = message(to)
    claimed = claim_next(clock())
    assert claimed is not None
    Delivery.objects.filter(pk=one.pk).update(state="sending")  # and its worker dies
    clock.on(seconds=LEASE.total_seconds() + 1)
    mend(clock())
    assert state_of(one)[0] == "unknown"
    with pytest.raises(Refused) as caught:
        again(one)
    assert list(caught.value.fields) == ["may_arrive_twice"]
    again(one, may_arrive_twice=True)
    assert AuditEntry.objects.get(verb="delivery.resend", result=AuditEntry.OK).after["was"] == "unknown"
    clock.on(hours=1)
    assert sent(clock) == 1, "nothing but what the person sent"


def test_a_dry_run_sends_nothing() -> None:
    one = message(channel(), state="failed")
    assert resend(**asked(by=EVA, number=one.pk, dry_run=True)).is_dry_run
    assert Delivery.objects.count() == 1


def test_a_channel_that_is_off_or_gone_sends_nothing_again() -> None:
    to = channel()
    one = message(to, state="failed")
    save_channel(**asked(by=EVA, number=to.pk, name="ops", is_on=False))
    assert refused(one) == "off"
    remove_channel(**asked(by=EVA, number=to.pk))
    assert refused(one) == "removed"


def test_an_incident_that_is_over_is_not_opened_again() -> None:
    to = channel(kind="pagerduty")
    one = message(to, state="failed")
    ended = message(to, phase="ended", state="failed")
    assert again(ended).phase == "ended"
    Delivery.objects.filter(repeats=ended.pk).update(state="sent")
    assert refused(one) == "over"


def test_only_who_sets_up_notifications_sends_again() -> None:
    one = message(channel(), state="failed")
    with pytest.raises(Refused) as caught:
        resend(**asked(by=person(Role.OPERATOR), number=one.pk))
    assert (caught.value.status, Delivery.objects.count()) == (403, 1)


def test_a_step_of_a_chain_is_as_delivered_as_its_repetition(inbox: Receiver) -> None:
    to = channel(inbox)
    chain((0, to))
    asks, client = question(), signed_in(Role.EDITOR, "eva")
    tell("dev", NOW)
    Delivery.objects.update(state="failed", ended_at=NOW)
    assert Shown(client.get(f"/escalations/{asks.pk}")).one("step", "1").data["state"] == "failed"
    again(Delivery.objects.get())
    sent(Clock())
    step = Shown(client.get(f"/escalations/{asks.pk}")).one("step", "1")
    assert step.data["state"] == "sent"
    assert all(word in step.text for word in ("ops", "14:26:18"))


def test_the_log_offers_it_says_what_came_since_and_leads_from_one_to_the_other() -> None:
    to, client = channel(), signed_in(Role.EDITOR, "eva")
    one = message(to, state="failed", problem="It answered 404.")
    end = message(to, state="sent", title="Breaker search_web is closed again", phase="ended")
    assert f"{LOG}/{one.pk}/again" in Shown(client.get(LOG)).links
    lead = client.get(f"{LOG}/{one.pk}/again").context["asking"].lead
    assert all(said in lead for said in (one.title, one.problem, " 1 ", end.title))
    assert form(client, one).status_code == 303
    made = Delivery.objects.get(repeats=one.pk)
    row = Shown(client.get(LOG)).within("key", f"delivery-{one.pk}")
    assert f"{LOG}?number={made.pk}" in row.links
    assert f"{LOG}/{one.pk}/again" not in row.links
    found = Shown(client.get(f"{LOG}?number={made.pk}"))
    assert found.values("key").count(f"delivery-{made.pk}") == 1
    assert f"delivery-{end.pk}" not in found.values("key")
    answer = client.get(f"{LOG}/{one.pk}/again")
    assert (answer.status_code, answer["Location"]) == (303, f"{LOG}?number={one.pk}")


def test_the_form_of_one_in_doubt_asks_whether_one_knows() -> None:
    one, client = message(channel(), state="unknown"), signed_in(Role.EDITOR, "eva")
    assert "may_arrive_twice" in Shown(client.get(f"{LOG}/{one.pk}/again")).fields
    assert form(client, one).status_code == 422
    assert form(client, one, may_arrive_twice="on").status_code == 303


def test_who_may_not_sees_no_button() -> None:
    one = message(channel(), state="failed")
    client = signed_in(Role.OPERATOR)
    assert f"{LOG}/{one.pk}/again" not in Shown(client.get(LOG)).links
    assert client.get(f"{LOG}/{one.pk}/again").status_code == 403


def test_a_program_sends_again_and_the_log_tells_both_numbers() -> None:
    keys.forget_keys()
    program, one = Program("read", "settings"), message(channel(), state="unknown")
    at = f"notifications/deliveries/{one.pk}/resend"
    assert list(program.post(at, {"reason": REASON})[1]["fields"]) == ["may_arrive_twice"]
    status, told = program.post(at, {"reason": REASON, "may_arrive_twice": True})
    assert (status, told["delivery"]["repeats"]) == (200, one.pk)
    rows = {row["number"]: row["repeated_by"] for row in program.get("notifications/deliveries")[1]["deliveries"]}
    assert rows == {one.pk: told["delivery"]["number"], told["delivery"]["number"]: None}
    assert program.post("notifications/deliveries/999/resend", {"reason": REASON})[0] == 404


def test_an_operator_sends_again_from_a_terminal(operator: Operator) -> None:
    one = message(channel(), state="failed")
    assert operator.run("notifications", "resend", str(one.pk), *WHY, "--dry-run") == cli.DONE
    assert f" {one.pk} " in operator.said[0]
    assert not Delivery.objects.filter(repeats=one.pk).exists()
    assert operator.run("notifications", "resend", str(one.pk), *WHY) == cli.DONE
    made = Delivery.objects.get(repeats=one.pk)
    assert f" {made.pk}" in operator.said[0]
    assert operator.run("notifications", "resend", str(one.pk), *WHY) == cli.REFUSED
    assert operator.run("notifications", "log") == cli.DONE
    assert f" {one.pk} failed " in operator.said[1]
    assert operator.said[1].endswith(f" {made.pk}")


def test_what_was_repeated_is_forgotten_by_its_age() -> None:
    to = channel()
    one = message(to, state="failed", made_at=NOW - KEPT_FOR - KEPT_FOR)
    made = again(one)
    assert forget_old(NOW) == 1
    assert Delivery.objects.get().pk == made.pk
    assert Channel.objects.exists()

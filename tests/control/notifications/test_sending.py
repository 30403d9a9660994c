"""The outbox against a real receiver: signed, tried again or given up, never sent twice, whoever dies in between."""

from __future__ import annotations

import hashlib
import hmac
import socket
import time
from datetime import datetime, timedelta
from html import escape
from typing import Any

import pytest
from django.core import mail

from recovery_ops.control.notifications import transport
from recovery_ops.control.notifications.dispatcher import LEASE, claim_next, mend, send_due, try_it
from recovery_ops.control.notifications.models.notifications import Channel, Delivery
from tests.support.channels import SECRET, channel
from tests.support.deliveries import Clock, message, sent, state_of
from tests.support.isolated import rolled_back
from tests.support.stories import NOW
from tests.support.webhook_receiver import Receiver, Reply

pytestmark = pytest.mark.django_db
MENTION = "<!channel> & <https://evil.example|here>"


def test_a_sender_with_a_slow_receiver_soon_leaves_its_process_to_others(inbox: Receiver) -> None:
    """A worker whose processes all send for long sees no outage: `bench work` met one that was seen after 20 s."""
    to, clock = channel(inbox), Clock()
    for number in range(20):
        message(to, lane=f"rule:{number}", origin=f"rule:{number}")

    def slow() -> datetime:
        clock.on(seconds=0.25)  # it is asked four times for each message
        return clock()

    assert 1 <= send_due(now=slow, chance=lambda: 0.0) <= 6
    assert (clock() - NOW).total_seconds() < 7
    assert 1 <= send_due(now=slow, chance=lambda: 0.0) <= 6  # and the next goes on


# -- forms -------------------------------------------------------------------------------------------------------------
def test_a_webhook_is_signed_so_that_its_receiver_can_check(inbox: Receiver) -> None:
    one = message(channel(inbox))
    assert sent(Clock()) == 1
    assert state_of(one) == ("sent", 1)
    [got] = inbox.got
    seconds = got.headers["recovery-ops-timestamp"]
    expected = hmac.new(SECRET.encode(), seconds.encode() + b"." + got.body, hashlib.sha256).hexdigest()
    assert got.headers["recovery-ops-signature"] == f"v1={expected}"
    assert got.headers["recovery-ops-delivery"] == str(one.pk)
    assert seconds == str(int(NOW.timestamp()))
    assert got.said["title"] == "Breaker <search_web> & co are open"
    assert got.said["url"].endswith("/breakers/search_web")
    assert SECRET.encode() not in got.body


def test_slack_reads_no_mention_and_no_link_of_an_agent(inbox: Receiver) -> None:
    message(channel(inbox, "slack"), title=MENTION)
    sent(Clock())
    text = inbox.got[0].said["text"]
    assert escape(MENTION) in text
    assert "<!channel>" not in text


@pytest.mark.parametrize(
    ("phase", "action"),
    [("began", "trigger"), ("told", "trigger"), ("acknowledged", "acknowledge"), ("ended", "resolve")],
)
def test_pagerduty_events_of_one_trouble_have_one_key(inbox: Receiver, phase: str, action: str) -> None:
    one = message(channel(inbox, "pagerduty"), phase=phase)
    sent(Clock())
    said = inbox.got[0].said
    assert (said["event_action"], said["routing_key"]) == (action, SECRET)
    assert said["dedup_key"] == f"{one.environment}:{one.lane}"
    assert ("payload" in said) == (action == "trigger")
    if "payload" in said:
        assert said["payload"]["severity"] == "warning"
        assert said["payload"]["summary"]
        assert said["payload"]["source"]


def test_mail_goes_to_everybody_once(settings: Any) -> None:
    settings.EMAIL_IS_SET_UP = True
    one = message(channel(kind="email", address="ana@example.org, li@example.org"), title="line\nbreak")
    sent(Clock())
    assert state_of(one) == ("sent", 1)
    [letter] = mail.outbox
    assert letter.to == ["ana@example.org", "li@example.org"]
    assert letter.subject == "[dev] line break"


def test_without_a_mail_server_it_says_what_to_set() -> None:
    one = message(channel(kind="email", address="ana@example.org"))
    sent(Clock())
    assert state_of(one) == ("failed", 1)
    assert "RECOVERY_OPS_MAIL_URL" in one.problem


# -- again, or never ---------------------------------------------------------------------------------------------------
def test_what_fails_for_now_is_tried_again_until_it_arrives(inbox: Receiver) -> None:
    inbox.replies = [Reply(500), Reply(503), Reply(429, {"Retry-After": "120"})]
    one, clock = message(channel(inbox)), Clock()
    for wait_s, tries in ((0, 1), (5, 2), (10, 3)):
        clock.on(seconds=wait_s - 1)
        assert sent(clock) == (0 if wait_s else 1) or not wait_s
        clock.on(seconds=1)
        sent(clock)
        assert state_of(one) == ("waiting", tries)
    clock.on(seconds=119)
    assert sent(clock) == 0
    clock.on(seconds=1)
    assert sent(clock) == 1
    assert state_of(one) == ("sent", 4)
    assert one.problem == ""
    assert len(inbox.got) == 4
    assert len({got.headers["recovery-ops-delivery"] for got in inbox.got}) == 1


@pytest.mark.parametrize(
    ("reply", "named"),
    [
        (Reply(410, body=b"gone for good"), "gone for good"),
        (Reply(404, body=b""), "404"),
        (Reply(302, {"Location": "http://169.254.169.254/latest"}), "302"),
    ],
)
def test_what_is_refused_for_good_is_not_tried_again(inbox: Receiver, reply: Reply, named: str) -> None:
    inbox.usual = reply
    one, clock = message(channel(inbox)), Clock()
    sent(clock)
    assert state_of(one) == ("failed", 1)
    assert named in one.problem
    assert one.status_code == reply.status
    clock.on(days=1)
    assert sent(clock) == 0
    assert len(inbox.got) == 1


def test_it_is_given_up_after_ten_tries(inbox: Receiver) -> None:
    inbox.usual = Reply(500)
    one, clock = message(channel(inbox)), Clock()
    for _ in range(20):
        sent(clock)
        clock.on(hours=1)
    assert state_of(one) == ("failed", 10)
    assert len(inbox.got) == 10


def test_a_receiver_that_drips_is_cut_off(inbox: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "TOTAL_S", 0.3)
    inbox.usual = Reply(500, body=b"x" * 400, drip_s=0.05)
    one, began = message(channel(inbox)), time.monotonic()
    sent(Clock())
    assert time.monotonic() - began < 10  # of the twenty seconds that it would take
    assert state_of(one)[0] == "waiting"
    assert one.status_code == 500


def test_a_receiver_that_is_silent_is_tried_again(inbox: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "STEP_S", 0.1)
    inbox.usual = Reply(wait_s=0.5)
    one = message(channel(inbox))
    sent(Clock())
    assert state_of(one)[0] == "waiting"
    assert (one.status_code, bool(one.problem)) == (None, True)


def test_of_a_long_answer_only_the_beginning_is_read(inbox: Receiver) -> None:
    inbox.usual = Reply(400, body=b"x" * 5_000_000)
    one = message(channel(inbox))
    sent(Clock())
    assert state_of(one)[0] == "failed"
    assert len(one.problem) <= 1000


# -- where nothing is sent ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1"),
        *("::1", "fe80::1", "fd00::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"),
    ],
)
def test_a_name_that_leads_into_our_own_network_is_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    family = 10 if ":" in address else 2
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda *_, **__: [(2, 1, 6, "", ("93.184.215.14", 443)), (family, 1, 6, "", (address, 443))],
    )
    connected: list[object] = []
    monkeypatch.setattr(socket, "create_connection", lambda *to, **_: connected.append(to))
    one = message(channel())
    sent(Clock())
    assert state_of(one) == ("failed", 1)
    assert "hooks.example.org" in one.problem
    assert one.status_code is None
    assert not connected


def test_the_connection_goes_to_the_address_that_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def look_up(*_: object, **__: object) -> list[Any]:
        asked.append(1)
        return [(2, 1, 6, "", ("93.184.215.14" if len(asked) == 1 else "127.0.0.1", 443))]

    connected: list[Any] = []

    def connect(to: object, **_: object) -> None:
        connected.append(to)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(socket, "create_connection", connect)
    message(channel())
    sent(Clock())
    assert (len(asked), connected) == (1, [("93.184.215.14", 443)])


# -- who dies in between -----------------------------------------------------------------------------------------------
def test_what_a_dead_worker_had_claimed_is_sent_by_another(inbox: Receiver) -> None:
    one, clock = message(channel(inbox)), Clock()
    claimed = claim_next(clock())
    assert claimed is not None
    assert sent(clock) == 0
    clock.on(seconds=LEASE.total_seconds() + 1)
    assert sent(clock) == 1
    assert state_of(one) == ("sent", 1)
    # The first wakes up again: its claim is gone, and nothing is sent twice.
    assert try_it(claimed, now=clock) == 0
    assert len(inbox.got) == 1


def test_lost_claim_beside_a_new_one_sends_nothing(inbox: Receiver) -> None:
    one, clock = message(channel(inbox)), Clock()
    lost = claim_next(clock())
    clock.on(seconds=LEASE.total_seconds() + 1)
    assert mend(clock()) == 1
    held = claim_next(clock())
    assert lost is not None
    assert held is not None
    assert (try_it(lost, now=clock), state_of(one), inbox.got) == (0, ("claimed", 0), [])
    assert (try_it(held, now=clock), state_of(one), len(inbox.got)) == (1, ("sent", 1), 1)


def dies_while_sending(one: Delivery, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker is gone after the receiver has got it, before anything is noted."""

    class Killed(BaseException):
        pass

    def note(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("recovery_ops.control.notifications.dispatcher._note", note)
        with pytest.raises(Killed):
            send_due(now=lambda: NOW)
    assert state_of(one) == ("sending", 1)


def test_what_was_in_flight_is_unknown_and_not_sent_again(inbox: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    one, clock = message(channel(inbox)), Clock()
    dies_while_sending(one, monkeypatch)
    clock.on(days=1)
    assert sent(clock) == 0
    assert state_of(one) == ("unknown", 1)
    assert one.problem, "it says so"
    assert len(inbox.got) == 1


def test_what_has_a_key_is_sent_again(inbox: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    one, clock = message(channel(inbox, "pagerduty")), Clock()
    dies_while_sending(one, monkeypatch)
    clock.on(days=1)
    assert sent(clock) == 1
    assert state_of(one) == ("sent", 2)
    assert len({got.said["dedup_key"] for got in inbox.got}) == 1


def test_who_was_only_slow_says_what_came_of_it(inbox: Receiver) -> None:
    one, clock = message(channel(inbox)), Clock()
    claimed = claim_next(clock())
    assert claimed is not None
    moments = [clock(), clock() + 3 * LEASE]

    def slowly() -> datetime:
        if len(moments) == 1:
            mend(moments[0])
            assert state_of(one)[0] == "unknown"
        return moments.pop(0)

    assert try_it(claimed, now=slowly) == 1
    assert state_of(one) == ("sent", 1)


# -- order, and switches -----------------------------------------------------------------------------------------------
def test_the_end_never_overtakes_the_beginning(inbox: Receiver) -> None:
    to, clock = channel(inbox), Clock()
    inbox.replies = [Reply(500)]
    first, other = message(to), message(to, lane="rule:1:breaker other")
    last = message(to, phase="ended")
    assert sent(clock) == 2
    assert [state_of(one)[0] for one in (first, other, last)] == ["waiting", "sent", "waiting"]
    clock.on(seconds=5)
    sent(clock)
    assert [got.said["phase"] for got in inbox.got] == ["began", "began", "began", "ended"]


THING, OTHER, RULE = "rule:1:breaker search_web", "rule:1:breaker other", "rule:1"
IN_ORDER = (
    # the lane of the first, that of the second, whether they go to one channel, and whether the second waits
    (THING, THING, True, True),
    (THING, THING, False, False),
    (THING, OTHER, True, False),
    (RULE, THING, True, True),  # a message about several things, and the end of one
    (THING, RULE, True, True),
    (RULE, THING, False, False),
)


def test_message_waits_for_earlier_of_its_channel(subtests: pytest.Subtests) -> None:
    channels = channel(), channel(name="other")
    for lane, next_lane, has_one_channel, waits in IN_ORDER:
        for state in Delivery.STATES:
            with subtests.test(lane=lane, next_lane=next_lane, one=has_one_channel, state=state), rolled_back():
                message(channels[0], lane=lane, state=state, not_before=NOW + timedelta(hours=1))
                second = message(channels[0 if has_one_channel else 1], lane=next_lane)
                waits_now = waits and state in Delivery.UNFINISHED
                assert claim_next(NOW) == (None if waits_now else second)


def test_what_is_switched_off_meanwhile_is_dropped(inbox: Receiver) -> None:
    to = channel(inbox)
    one = message(to)
    Channel.objects.filter(pk=to.pk).update(is_on=False)
    assert sent(Clock()) == 0
    assert state_of(one) == ("dropped", 0)
    assert not inbox.got

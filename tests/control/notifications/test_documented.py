"""The example of docs/operate/notifications.md checks what we send, and so does the receiver of the demonstration."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from recovery_ops.control.demo_notifications import demonstration_receiver
from recovery_ops.control.notifications.formats import request_of
from recovery_ops.control.notifications.models.notifications import Channel, Delivery, Notification, NotificationRule
from recovery_ops.control.notifications.retention import KEPT_FOR, forget_old
from recovery_ops.control.notifications.rules import tell
from recovery_ops.demo.receiver import fault_of, heard
from tests.support.channels import SECRET, channel, rule
from tests.support.deliveries import message
from tests.support.escalations import act
from tests.support.notifications import question
from tests.support.stories import NOW

pytestmark = pytest.mark.django_db

PAGE = Path(__file__).parents[3] / "docs" / "operate" / "notifications.md"


def test_the_documented_check_accepts_what_is_sent_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    [example] = re.findall(r"```python\n(import hashlib.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    names: dict[str, Any] = {}
    exec(example, names)
    to = channel()
    request = request_of(message(to), to, now=NOW)
    monkeypatch.setattr("time.time", lambda: NOW.timestamp() + 200)
    assert names["is_ours"](SECRET, request.headers, request.body)
    assert not names["is_ours"](SECRET, request.headers, request.body + b" ")
    assert not names["is_ours"]("another secret", request.headers, request.body)
    monkeypatch.setattr("time.time", lambda: NOW.timestamp() + 400)
    assert not names["is_ours"](SECRET, request.headers, request.body)


def test_the_demonstrations_receiver_says_what_is_wrong() -> None:
    to = channel()
    request = request_of(message(to), to, now=NOW)
    given = (request.headers["Recovery-Ops-Timestamp"], request.headers["Recovery-Ops-Signature"], request.body)
    assert fault_of(SECRET, *given, NOW.timestamp()) == ""
    assert "signature" in fault_of("another secret", *given, NOW.timestamp())
    assert "older" in fault_of(SECRET, *given, NOW.timestamp() + 301)


def test_the_demonstration_tells_by_webhook_chat_and_pager_and_each_is_understood(settings: Any) -> None:
    settings.EMBEDDED, settings.NOTIFY_HOSTS = True, []
    secret = demonstration_receiver("dev")["RECOVERY_OPS_DEMO_SECRET"]
    channels = list(Channel.objects.exclude(kind=Channel.EMAIL).order_by("pk"))
    assert [one.kind for one in channels] == ["webhook", "slack", "pagerduty", "slack"]
    said = []
    for to in channels:
        request = request_of(message(to), to, now=NOW)
        path = "/" + request.url.split("/", 3)[3]
        said.append(heard(path, request.headers, request.body, secret=secret, now=NOW.timestamp()))
    assert [status for status, _ in said] == [204, 200, 202, 410]
    assert [line.split(" ")[0] for _, line in said] == ["began:", "chat:", "pager:", "closed:"]
    assert all("are open" in line for _, line in said[:3])
    assert heard("/pager/v2/enqueue", {}, b'{"routing_key": "another"}', secret=secret, now=0.0)[0] == 400
    rules = NotificationRule.objects.count()
    again = demonstration_receiver("dev")
    assert (Channel.objects.count(), NotificationRule.objects.count()) == (5, rules), "the next start changes addresses"
    posted = Channel.objects.exclude(kind=Channel.EMAIL)
    assert all(f":{again['RECOVERY_OPS_DEMO_PORT']}/" in one.address for one in posted)
    assert {"demonstration.invalid": ("127.0.0.1", int(again["RECOVERY_OPS_DEMO_MAIL_PORT"]))} == settings.MAIL_ROUTES


def test_the_demonstration_leaves_channels_of_people_alone(settings: Any) -> None:
    channel()
    settings.EMBEDDED = True
    assert demonstration_receiver("dev") == {}


def test_messages_are_kept_for_ninety_days_and_what_goes_on_for_longer() -> None:
    rule(channel(), "escalation")
    over, open_ = question(), question("policy_review")
    tell("dev", NOW)
    act("resolve", over, reason="mended by hand")
    tell("dev", NOW)
    Delivery.objects.update(state=Delivery.SENT)
    assert forget_old(NOW + KEPT_FOR) == 0
    forget_old(NOW + KEPT_FOR + timedelta(seconds=1))
    assert set(Notification.objects.values_list("subject", flat=True)) == {str(open_)}

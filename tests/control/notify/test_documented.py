"""The example of docs/operating.md checks what we send, and so does the receiver of the demonstration."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from recovery_ops.control.models import Delivery, Notification
from recovery_ops.control.notify.formats import request_of
from recovery_ops.control.notify.keeping import KEPT_FOR, forget_old
from recovery_ops.control.notify.telling import tell
from recovery_ops.demo.receiver import fault_of
from tests.control.notify.conftest import SECRET, channel, rule
from tests.control.notify.test_sending import message
from tests.control.notify.test_telling import question
from tests.control.test_escalations import act
from tests.events.seeding import NOW

pytestmark = pytest.mark.django_db

OPERATING = Path(__file__).parents[3] / "docs" / "operating.md"


def test_the_documented_check_accepts_what_is_sent_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    [example] = re.findall(r"```python\n(import hashlib.*?)```", OPERATING.read_text(encoding="utf-8"), re.S)
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

"""Many workers on one database, and workers that are killed: each thing is told once, each message sent once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest

from recovery_ops.control.notifications.dispatcher import claim_next, mend, try_it
from recovery_ops.control.notifications.models.notifications import Delivery, Notification
from recovery_ops.control.notifications.rules import tell
from tests.support.channels import channel, rule
from tests.support.concurrency import at_once, engine
from tests.support.deliveries import message
from tests.support.engines import engine as one_engine
from tests.support.notifications import question
from tests.support.stories import NOW
from tests.support.webhook_receiver import Receiver, Reply

__all__ = ["engine", "one_engine"]  # the fixtures

MESSAGES = 12


def test_many_workers_send_each_message_once(engine: Callable[[], None], inbox: Receiver) -> None:
    to = channel(inbox)
    for number in range(MESSAGES):
        message(to, lane=f"rule:1:{number}")

    def work(_: int) -> int:
        tries = 0
        while (one := claim_next(NOW)) is not None:
            tries += try_it(one, now=lambda: NOW)
        return tries

    results = at_once(engine, work)
    while (one := claim_next(NOW)) is not None:  # a worker may have found every message that it looked at taken
        results.append(try_it(one, now=lambda: NOW))
    assert sum(int(str(one)) for one in results) == MESSAGES
    counts = Counter(got.headers["recovery-ops-delivery"] for got in inbox.got)
    assert (len(counts), set(counts.values())) == (MESSAGES, {1})
    assert set(Delivery.objects.values_list("state", flat=True)) == {"sent"}


def test_many_workers_tell_each_thing_once(engine: Callable[[], None]) -> None:
    rule(channel(), "escalation", "sla")
    question()
    question("policy_review")
    results = at_once(engine, lambda _: tell("dev", NOW))
    assert sorted(map(str, results)) == ["0", "0", "0", "0", "0", "1"]
    assert (Notification.objects.count(), Delivery.objects.count()) == (2, 1)


_WORKER = """
import os, sys
import django
django.setup()
from django.conf import settings
from django.utils import timezone
settings.NOTIFY_HOSTS = [sys.argv[1]]
from recovery_ops.control.notifications.dispatcher import send_due
from datetime import datetime
moment = datetime.fromisoformat(sys.argv[2])
send_due(now=lambda: moment)
"""


@pytest.mark.parametrize("one_engine", ["postgres"], indirect=True)
def test_a_worker_that_is_killed_in_the_middle_sends_nothing_twice(
    migrated_postgres_url: str, one_engine: str, inbox: Receiver
) -> None:
    """On PostgreSQL: the worker is a process of its own, and needs a database that both reach."""
    to = channel(inbox)
    first, second = message(to, lane="one"), message(to, lane="two")
    inbox.replies = [Reply(wait_s=3.0)]
    worker = subprocess.Popen(
        [sys.executable, "-c", _WORKER, inbox.host, NOW.isoformat()],
        env=os.environ
        | {"RECOVERY_OPS_DATABASE_URL": migrated_postgres_url, "DJANGO_SETTINGS_MODULE": "recovery_ops.settings"},
    )
    deadline = time.monotonic() + 180
    while not inbox.got and time.monotonic() < deadline:
        time.sleep(0.05)
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    assert len(inbox.got) == 1
    first.refresh_from_db()
    assert first.state == "sending"
    later = NOW + timedelta(minutes=5)
    assert mend(later) == 1
    while (one := claim_next(later)) is not None:
        try_it(one, now=lambda: later)
    assert [Delivery.objects.get(pk=one.pk).state for one in (first, second)] == ["unknown", "sent"]
    assert [got.headers["recovery-ops-delivery"] for got in inbox.got] == [str(first.pk), str(second.pk)]

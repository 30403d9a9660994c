"""How many tasks wait for a worker, as the broker says."""

from __future__ import annotations

from typing import Any

from celery import current_app
from kombu.exceptions import ChannelError

ANSWER_S = 2.0
"""A broker that takes longer to answer is asked no further: a page waits for it."""


def tasks_waiting() -> int | None:
    """How many tasks wait that no worker has taken; None where the broker does not answer."""
    limits = {"socket_connect_timeout": ANSWER_S, "socket_timeout": ANSWER_S}
    try:
        with current_app.connection_for_read(connect_timeout=ANSWER_S, transport_options=limits) as broker:
            channel = broker.channel()
            return sum(_waiting(channel, name) for name in current_app.amqp.queues)
    except Exception:  # whatever it is, it is not known how many wait
        return None


def _waiting(channel: Any, name: str) -> int:
    try:
        return int(channel.queue_declare(queue=name, passive=True).message_count)
    except ChannelError:  # a queue without a task is not there
        return 0

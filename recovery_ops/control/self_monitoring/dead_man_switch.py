"""The dead man's switch: an address elsewhere is pinged while all is well, and somebody is told when that stops.

Who watches us must not need us to be told: silence is the alarm. The scheduler asks for it and a worker does it, so a
ping says that both live, that a row can be written, and that every task runs in time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime

from django.conf import settings

from recovery_ops.control.core.task_heartbeats import Sign, write
from recovery_ops.control.notifications.transport import Answer, Unreached, Unsendable, post
from recovery_ops.control.self_monitoring.scheduled_tasks import FAILED, LATE, beats_by_name, duties_of
from recovery_ops.server.health import NotReady, write_and_forget

logger = logging.getLogger(__name__)

NAME = "ping the dead man's switch"
HEARD = "the dead man's switch heard"
"""The sign of life that is written when a ping was heard."""
Post = Callable[[str, bytes, Mapping[str, str]], Answer]


def ping_while_well(now: datetime, *, send: Post = post) -> bool:
    """Ping where all is well; return whether somebody has heard it. The rules of messages hold for the address."""
    if not settings.DEAD_MAN_URL:
        return False
    if found := troubles(now):
        logger.warning("no ping: %s", "; ".join(found))
        return False
    try:
        answer = send(settings.DEAD_MAN_URL, b"", {})
    except (Unreached, Unsendable) as error:
        logger.warning("the ping was not heard: %s", error)
        return False
    if not 200 <= answer.status < 300:
        logger.warning("the ping was answered with %d", answer.status)
        return False
    write({HEARD: Sign(at=now)})
    return True


def troubles(now: datetime) -> list[str]:
    """What is not well; nothing where everything is."""
    try:
        write_and_forget()
        duties = duties_of(beats_by_name(), now)
    except NotReady as error:
        return [f"storage unavailable: {error.reason}"]
    except Exception as error:  # whatever it is, it is not well
        return [f"storage unavailable: {type(error).__name__}"]
    # What has never run may not be due yet; of this task itself the ping tells.
    return [
        f"{duty.name} is {duty.standing}" for duty in duties if duty.standing in (LATE, FAILED) and duty.name != NAME
    ]

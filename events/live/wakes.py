"""Wakes the pulses of every process as soon as a change is committed: by PostgreSQL's NOTIFY, or by Redis.

A wake says "look now" and nothing else. One that is lost changes nothing but lateness, because a pulse looks by itself
four times a second; what is true is always read from the database.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import connection, transaction

if TYPE_CHECKING:
    from redis import Redis

logger = logging.getLogger(__name__)

CHANNEL = "recovery_ops_desired"
LISTEN_S = 0.5
"""How long one listening lasts before it looks whether it is still wanted."""
RETRY_S = 5.0
_REDIS_TIMEOUT_S = 1.0

Heard = Callable[[float], bool]
"""Waits so many seconds for a word; says whether one came."""
Way = Callable[[], AbstractContextManager[Heard]]
"""Opens a connection that hears what is announced."""


def announce() -> None:
    """Tell every process to look once the open transaction commits; one that is rolled back tells nobody."""
    if settings.WAKE_URL:
        transaction.on_commit(_publish, robust=True)
    elif connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, '')", [CHANNEL])


class Ear:
    """A thread that listens until it is stopped, and comes back by itself when its connection is lost."""

    def __init__(self, way: Way, wake: Callable[[], None]) -> None:
        self._way, self._wake = way, wake
        self._ended = threading.Event()
        self._is_failing = False
        self._thread = threading.Thread(target=self._listen, name="wakes", daemon=True)

    def start(self) -> None:
        """Begin to listen. Once only."""
        self._thread.start()

    def stop(self) -> None:
        """Listen no more; returns at once, and the connection is closed within half a second."""
        self._ended.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end; whether it came."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _listen(self) -> None:
        while not self._ended.is_set():
            try:
                with self._way() as heard:
                    self._note_success()
                    self._wake()  # something may have been said before anybody listened
                    while not self._ended.is_set():
                        if heard(LISTEN_S):
                            self._wake()
            except Exception as error:  # whatever a driver raises: the pulse goes on looking by itself meanwhile
                self._note_failure(error)
                self._ended.wait(RETRY_S)

    def _note_success(self) -> None:
        if self._is_failing:
            logger.info("listening for changes works again")
        self._is_failing = False

    def _note_failure(self, error: Exception) -> None:
        if not self._is_failing and not self._ended.is_set():
            logger.warning("cannot listen for changes, looking by the clock meanwhile: %r", error)
        self._is_failing = True


def ear_of(wake: Callable[[], None]) -> Ear | None:
    """An ear for what `announce` says, not started; None where the engine has no way to say it (SQLite)."""
    if settings.WAKE_URL:
        return Ear(_redis, wake)
    if connection.vendor != "postgresql":
        return None
    # Read here: the settings of a connection belong to the thread that asks.
    parameters = connection.get_connection_params()
    return Ear(lambda: _postgres(parameters), wake)


@contextmanager
def _postgres(parameters: dict[str, Any]) -> Iterator[Heard]:
    import psycopg  # an installation on SQLite needs neither this nor Redis in its memory

    # A connection of its own beside the pool: it is never given back, and a pooler in between would lose LISTEN.
    with closing(psycopg.connect(**parameters, autocommit=True)) as listening:
        listening.execute(f"LISTEN {CHANNEL}")
        yield lambda wait_s: any(True for _ in listening.notifies(timeout=wait_s, stop_after=1))


@contextmanager
def _redis() -> Iterator[Heard]:
    with _client() as client, client.pubsub(ignore_subscribe_messages=True) as following:
        following.subscribe(CHANNEL)
        yield lambda wait_s: following.get_message(timeout=wait_s) is not None


def _publish() -> None:
    import redis

    try:
        with _client() as client:
            client.publish(CHANNEL, "")
    except redis.RedisError as error:
        logger.warning("cannot announce a change, the others find it by the clock: %r", error)


def _client() -> Redis:
    from redis import Redis

    return Redis.from_url(settings.WAKE_URL, socket_connect_timeout=_REDIS_TIMEOUT_S)

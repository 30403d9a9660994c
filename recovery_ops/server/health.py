"""Answers `/healthz` (the process lives) and `/readyz` (it can store), without Django's views."""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from datetime import timedelta

from django.contrib.sessions.models import Session
from django.db import connection, transaction
from django.utils import timezone

from events.store.disk import has_room

logger = logging.getLogger(__name__)

PROBE_TIMEOUT_S = 2.0


class NotReady(Exception):
    """Nothing can be stored now. `reason` is a short code for the caller; the cause goes to the log."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Readiness:
    """One write probe at a time, shared by everyone who asks meanwhile: asking often costs nothing more.

    The thread is a daemon, so that a database that hangs never keeps the process from ending.
    """

    def __init__(self) -> None:
        self._running: asyncio.Future[None] | None = None

    async def check(self) -> None:
        """Return when a row could be written within PROBE_TIMEOUT_S; raise NotReady otherwise."""
        if self._running is None or self._running.done():
            self._running = _in_daemon_thread()
        try:
            await asyncio.wait_for(asyncio.shield(self._running), PROBE_TIMEOUT_S)
        except TimeoutError:
            raise NotReady("timeout") from None


def _in_daemon_thread() -> asyncio.Future[None]:
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[None] = loop.create_future()
    # Whoever asked may be gone by the time of the answer; an outcome that nobody reads is no error.
    outcome.add_done_callback(lambda done: done.cancelled() or done.exception())

    def settle(failure: NotReady | None) -> None:
        if outcome.done():
            return
        if failure is None:
            outcome.set_result(None)
        else:
            outcome.set_exception(failure)

    def run() -> None:
        failure = None
        try:
            write_and_forget()
        except NotReady as error:
            failure = error
        except Exception as error:  # whatever keeps us from writing, the answer is the same
            logger.warning("cannot store: %s", error)
            failure = NotReady("database")
        try:
            loop.call_soon_threadsafe(settle, failure)
        except RuntimeError:  # the server ended while the database was still thinking
            logger.debug("a readiness probe ended after the server")

    threading.Thread(target=run, name="readiness", daemon=True).start()
    return outcome


def write_and_forget() -> None:
    """Write one row in a transaction that is rolled back; raise when that fails."""
    try:
        if not has_room():
            raise NotReady("disk")
        if connection.vendor == "sqlite":
            with connection.cursor() as cursor:
                cursor.execute(f"PRAGMA busy_timeout = {int(PROBE_TIMEOUT_S * 1000)}")
        with transaction.atomic():
            expires = timezone.now() - timedelta(days=1)
            Session.objects.create(session_key=f"readyz-{secrets.token_hex(8)}", session_data="", expire_date=expires)
            transaction.set_rollback(True)
    finally:
        connection.close()

"""Senders that behave like an agent's outbox: each batch again and again until it is acknowledged."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Sequence
from typing import Self

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from recovery_ops.drill.history import History
from recovery_ops.drill.story import Story, body_of

GIVE_UP_S = 90.0
_AGAIN_S = 0.05
_PATIENCE_S = 15.0
_PACE_S = 0.15


class NeverAccepted(Exception):
    """A batch was refused for as long as anybody would wait."""


def deliver(addresses: Sequence[str], key: str, body: bytes, uids: list[bytes], history: History) -> None:
    """Send until it is acknowledged, by one address after the other. Raises NeverAccepted."""
    history.note_sent(uids)
    began = time.monotonic()
    number = 0
    while time.monotonic() - began < GIVE_UP_S:
        status = post(addresses[number % len(addresses)], key, body)
        history.note_try(status)
        if status == 200:
            history.note_acknowledged(uids, time.monotonic() - began)
            return
        number += 1
        time.sleep(_AGAIN_S)
    raise NeverAccepted(f"a batch was not accepted within {GIVE_UP_S:g} s; the answers were {history.statuses}")


def post(address: str, key: str, body: bytes, **headers: str) -> int:
    """The status of one try, 0 for no answer."""
    return posted(address, key, body, **headers)[0]


def posted(address: str, key: str, body: bytes, **headers: str) -> tuple[int, bytes]:
    """The status of one try, 0 for no answer, and what was answered."""
    given = {
        "authorization": f"Bearer {key}",
        "content-type": "application/x-protobuf",
        "content-encoding": "gzip",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    connection = http.client.HTTPConnection(address, timeout=_PATIENCE_S)
    try:
        connection.request("POST", "/v1/logs", body=body, headers=given)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


class Senders:
    """Some threads that send as long as the context lasts, at an easy pace, and then what is left of so many records.

    The context ends when all of them are acknowledged.
    """

    def __init__(
        self, addresses: Sequence[str], key: str, history: History, *, records: int, seed: int, batch: int, threads: int
    ) -> None:
        self._addresses, self._key, self._history = addresses, key, history
        self._batch = batch
        self._left = records // batch
        self._lock = threading.Lock()
        self._faults: list[BaseException] = []
        self._threads = [threading.Thread(target=self._work, args=(seed + one, one)) for one in range(threads)]
        self._hurry = threading.Event()

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._hurry.set()
        for thread in self._threads:
            thread.join()
        if self._faults:
            raise self._faults[0]

    def _work(self, seed: int, number: int) -> None:
        story = Story(seed)
        try:
            while self._take():
                records = story.batch(self._batch)
                uids: list[bytes] = [uid for uid, _ in records]
                said: list[LogRecord] = [record for _, record in records]
                deliver(self._turned(number), self._key, body_of(said, f"i-{number}"), uids, self._history)
                self._hurry.wait(_PACE_S)
        except BaseException as error:
            self._faults.append(error)

    def _take(self) -> bool:
        with self._lock:
            self._left -= 1
            return self._left >= 0 or not self._hurry.is_set()

    def _turned(self, number: int) -> list[str]:
        at = number % len(self._addresses)
        return [*self._addresses[at:], *self._addresses[:at]]

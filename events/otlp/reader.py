"""`python -m events.otlp.reader SOCKET …`: reads requests for the process that stores them (`events/otlp/readers.py`).

It knows no database and no setting but the secret that uids are made with. It lives as long as somebody holds the other
ends of its sockets, whatever signals come: what was begun is finished by its parent, and that may need it.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection

import django
from django.apps import AppConfig
from django.conf import settings

from recovery_ops.server.garbage_collection import look_for_cycles_less_often


class ReaderConfig(AppConfig):
    """The models alone, because modules name them; without what the server has beside them."""

    name = "events"
    label = "events"
    default = False


def main(handles: Sequence[str]) -> None:
    """Read for the process that holds the other ends of these sockets; the first thing it says is the secret."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    lanes = [Connection(int(handle)) for handle in handles]
    settings.configure(
        SECRET_KEY=lanes[0].recv_bytes().decode(), INSTALLED_APPS=["events.otlp.reader.ReaderConfig"], USE_TZ=True
    )
    django.setup()
    from events.otlp.readers import READY, answer  # here, because models want a Django that is set up

    look_for_cycles_less_often()
    lanes[0].send_bytes(READY)
    _serve(lanes, answer)
    os._exit(0)


def _serve(lanes: Sequence[Connection], answer: Callable[[bytes, bytes], bytes]) -> None:
    """Answer whoever asks, until all are gone."""
    held = {lane.fileno(): lane for lane in lanes}
    with selectors.DefaultSelector() as selector:
        for handle in held:
            selector.register(handle, selectors.EVENT_READ)
        while held:
            for key, _ in selector.select():
                lane = held[key.fd]
                try:
                    task = lane.recv_bytes()
                    lane.send_bytes(answer(task, lane.recv_bytes()))
                except (EOFError, OSError):
                    selector.unregister(key.fd)
                    del held[key.fd]


if __name__ == "__main__":
    main(sys.argv[1:])

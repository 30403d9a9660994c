"""A console whose wall clock is set from outside: `stepped.py FILE WORDS…` is `manage.py WORDS…`, with FILE's seconds
added to every reading of it.

Only the wall clock: waits and timeouts go by the monotonic one, as they do where an administrator or NTP sets a clock.
The machine's own is everybody's, so this one is set where the code reads it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from datetime import datetime, tzinfo
from importlib import import_module
from pathlib import Path
from types import ModuleType

LOOKS_EACH_S = 0.05
_READERS = ("celery.app.base", "celery.worker.request", "events.keys")
"""Modules that read the class, and not what is set here."""


def taken(file: Path) -> Path:
    """Where the step stands that was taken."""
    return file.with_suffix(".taken")


class Clock:
    """The wall clock, with a step that a file says."""

    def __init__(self, file: Path) -> None:
        self._file, self._step_s = file, 0.0
        self._time, self._time_ns = time.time, time.time_ns

    def follow(self) -> None:
        """Look into the file, for ever."""
        while True:
            self.look()
            time.sleep(LOOKS_EACH_S)

    def look(self) -> None:
        """Take the step that stands there, and say so; one that is just written may not be a number yet."""
        text = self._file.read_text().strip()
        if text and float(text) != self._step_s:
            self._step_s = float(text)
            taken(self._file).write_text(text)

    def time(self) -> float:
        """As `time.time`."""
        return self._time() + self._step_s

    def time_ns(self) -> int:
        """As `time.time_ns`."""
        return self._time_ns() + round(self._step_s * 1e9)

    def now(self, zone: tzinfo | None = None) -> datetime:
        """As `datetime.now`."""
        return datetime.fromtimestamp(self.time(), zone)


def main(file: str, *words: str) -> None:
    """Set the clock, then everything else: what is imported later finds no other."""
    from datetime import UTC

    clock = Clock(Path(file))
    clock.look()
    time.time, time.time_ns = clock.time, clock.time_ns
    from django.utils import timezone

    timezone.now = lambda: clock.now(UTC)

    class Whoever(type):
        def __instancecheck__(cls, one: object) -> bool:
            return isinstance(one, datetime)

    class Stepped(datetime, metaclass=Whoever):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]  # a plain one, not one of these
            return clock.now(tz)

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "recovery_ops.settings")
    django.setup()
    for name in _READERS:
        reader: ModuleType = import_module(name)
        vars(reader)["datetime"] = Stepped
    threading.Thread(target=clock.follow, name="clock", daemon=True).start()
    from django.core.management import execute_from_command_line

    execute_from_command_line(["manage.py", *words])


if __name__ == "__main__":
    main(*sys.argv[1:])

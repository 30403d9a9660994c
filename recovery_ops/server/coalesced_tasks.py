"""Tasks that look at tables, of which one answers all that asked for it before it began.

The scheduler asks every few seconds, whether or not the worker keeps up. Were what waits too long thrown away, a worker
that is slower than that would do what stands first in each round and never what stands last: on a machine that is
overloaded silence would decide nothing and no override would end. So an ask waits for its turn; those that waited with
it find that somebody has looked, and cost nothing.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from celery import Task
from celery.exceptions import Ignore
from django.conf import settings

if TYPE_CHECKING:
    _Task = Task[Any, Any]
else:
    _Task = Task

ASKED_S = "asked_s"
"""The header in which the scheduler says when it asked, in seconds since 1970."""


class Looks:
    """When each task began last in this process. Used by all threads of a worker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began_s: dict[str, float] = {}

    def begin(self, name: str, asked_s: float, now_s: float) -> bool:
        """Note that a task begins; False where one that began after this was asked has answered it already.

        Both by the wall clock. What began later than now did so by a clock that was set back since: it says nothing.
        """
        with self._lock:
            began_s = self._began_s.get(name)
            if began_s is not None and asked_s < began_s <= min(now_s, asked_s + settings.LOOKS_WAIT_S):
                return False
            self._began_s[name] = now_s
            return True


_looks = Looks()


class Look(_Task):
    """What every task is. One that says nothing of when it was asked for is always done."""

    abstract = True

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Do it. Raises Ignore where it was done since it was asked for."""
        asked_s = self.request.get(ASKED_S)
        if isinstance(asked_s, int | float) and not _looks.begin(self.name, asked_s, time.time()):
            raise Ignore
        return super().__call__(*arguments, **named)

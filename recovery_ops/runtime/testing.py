"""For tests of agents: a clock you push, a world you script, the events you read back. Nothing here sleeps.

from recovery_ops.rules.events import RetryScheduled
from recovery_ops.runtime import testing

lab = testing.Lab()
search = lab.recovery.guard("search", read_only=True)(lab.script(529, 529, "found it"))
with lab.recovery.run(source="main_agent"):
    assert search() == "found it"
assert lab.waits == [0.5, 1.0]
assert [event.attempt for event in lab.events_of(RetryScheduled)] == [2, 3]
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from recovery_ops.rules.desired_state import NOTHING_DESIRED, Desired, Override
from recovery_ops.rules.enums import State
from recovery_ops.rules.events import Event
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.resilience.steps import Cause
from recovery_ops.rules.tools.transcript import faults as transcript_faults
from recovery_ops.runtime.aio.libraries import current_library
from recovery_ops.runtime.aio.waker import Waker
from recovery_ops.runtime.client import Recovery
from recovery_ops.runtime.failures.signals import Response
from recovery_ops.runtime.limits import NO_LIMITS, Limits
from recovery_ops.runtime.process.clock import Clock
from recovery_ops.runtime.runs.retries import OnRetry

AnyEvent = TypeVar("AnyEvent", bound=Event)

__all__ = [
    "AsyncScript",
    "HttpError",
    "Lab",
    "PushedClock",
    "PushedWaker",
    "RecordedEvents",
    "Script",
    "transcript_faults",
]


class PushedClock(Clock):
    """A clock that stands still until it is pushed. It starts at `wall` seconds since the epoch."""

    def __init__(self, wall: float = 1_800_000_000.0) -> None:
        self._now = 1000.0
        self._wall_offset = wall - self._now

    def now(self) -> float:
        """Seconds that never run backwards."""
        return self._now

    def wall(self) -> float:
        """Seconds since the epoch."""
        return self._now + self._wall_offset

    def wall_ns(self) -> int:
        """Nanoseconds since the epoch."""
        return int(self.wall() * 1_000_000_000)

    def push(self, seconds: float) -> None:
        """Let time pass."""
        self._now += max(0.0, seconds)


class PushedWaker(Waker):
    """Waits by pushing the clock, so that no test waits for time; notes every wait."""

    def __init__(self, clock: PushedClock) -> None:
        super().__init__()
        self.waits: list[float] = []
        self._clock = clock
        self._planned: list[tuple[float, Callable[[], object]]] = []

    def at(self, in_s: float, what: Callable[[], object]) -> None:
        """Do something in so many seconds, in the middle of whatever wait is then going on."""
        self._planned.append((self._clock.now() + in_s, what))
        self._planned.sort(key=lambda plan: plan[0])

    def wait(self, delay_s: float, since: int) -> Cause:
        """Time passes at once, up to the end or to what was planned before it."""
        if self.changes != since:
            return Cause.CHANGED
        until = self._begin(delay_s)
        return self._end(until, has_changed=self._do_planned(until))

    async def wait_async(self, delay_s: float, since: int) -> Cause:
        """Like `wait`; other tasks get their turn, and a cancel passes, as in a wait that takes time."""
        was_changed = self.changes != since
        until = self._clock.now() if was_changed else self._begin(delay_s)
        has_changed = was_changed or self._do_planned(until)
        await current_library().wait(self, 0.0, self.changes)
        return self._end(until, has_changed=has_changed)

    def _begin(self, delay_s: float) -> float:
        self.waits.append(delay_s)
        return self._clock.now() + delay_s

    def _do_planned(self, until: float) -> bool:
        """Do what is planned before then, if anything is; whether it woke everyone who waits."""
        if not self._planned or self._planned[0][0] > until:
            return False
        due, what = self._planned.pop(0)
        self._clock.push(due - self._clock.now())
        before = self.changes
        what()
        return self.changes != before

    def _end(self, until: float, *, has_changed: bool) -> Cause:
        if has_changed:
            return Cause.CHANGED
        self._clock.push(until - self._clock.now())
        return Cause.ELAPSED


class RecordedEvents:
    """Keeps every event, with the source and run it came from."""

    def __init__(self) -> None:
        self.all: list[Event] = []
        self.sources: list[str] = []
        self.runs: list[str] = []

    def emit(
        self, event: Event, source: str = "", is_foreground: bool = False, run: str = "", policy_version: str = ""
    ) -> None:
        """Keep it."""
        self.all.append(event)
        self.sources.append(source)
        self.runs.append(run)


class Script:
    """A callable that plays outcomes in order: a status from 400 to 599 or an exception raises, the rest is returned.

    When the script is at its end the last outcome repeats.
    """

    def __init__(self, outcomes: Iterable[Any], clock: PushedClock | None = None, takes_s: float = 0.0) -> None:
        self._outcomes = list(outcomes)
        self._clock = clock
        self._takes_s = takes_s
        self.calls = 0
        self.arguments: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.__name__ = "script"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Play the next outcome."""
        self.arguments.append((args, kwargs))
        outcome = self._outcomes[min(self.calls, len(self._outcomes) - 1)]
        self.calls += 1
        if self._clock is not None:
            self._clock.push(self._takes_s)
        if isinstance(outcome, BaseException):
            raise outcome
        if isinstance(outcome, Response) or (isinstance(outcome, int) and 400 <= outcome <= 599):
            raise HttpError(outcome)
        return outcome


class AsyncScript(Script):
    """The same for callables that are awaited."""

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Play the next outcome."""
        return super().__call__(*args, **kwargs)


class HttpError(Exception):
    """What a script raises for a status or a `Response`."""

    def __init__(self, response: int | Response) -> None:
        self.response = response if isinstance(response, Response) else Response(response)
        self.status_code = self.response.status
        self.headers = self.response.headers
        self.body = self.response.body
        super().__init__(f"HTTP {self.status_code}")


class Lab:
    """A `Recovery` with a pushed clock, no chance, no threads and no server; what it did is read back.

    `directory` is where workflows keep their checkpoints: one of its own that goes when it goes. Two laboratories with
    the same directory are a process and the one that was started after its end.
    """

    def __init__(
        self,
        service: str = "lab",
        *,
        desired: Desired = NOTHING_DESIRED,
        limits: Limits = NO_LIMITS,
        on_retry: OnRetry | None = None,
        reraise: bool | None = None,
        default_source: str = "",
        chance: Callable[[], float] = lambda: 0.0,
        directory: Path | str | None = None,
    ) -> None:
        if directory is None:
            # Made by whoever writes there first: most laboratories keep nothing.
            directory = Path(tempfile.gettempdir()) / f"recovery-ops-lab-{uuid.uuid4().hex}"
            weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
        self.clock = PushedClock()
        self.waker = PushedWaker(self.clock)
        self.read = RecordedEvents()
        self.recovery = Recovery(
            service,
            instance="lab-1",
            url="",
            directory=directory,
            limits=limits,
            reraise=reraise,
            default_source=default_source,
            on_retry=on_retry,
            desired=desired,
            clock=self.clock,
            chance=chance,
            waker=self.waker,
            sink=self.read,
            is_background_work_wanted=False,
        )

    @property
    def events(self) -> list[Event]:
        """Every event so far, in order."""
        return self.read.all

    @property
    def waits(self) -> list[float]:
        """Every wait so far, in seconds."""
        return self.waker.waits

    def events_of(self, kind: type[AnyEvent]) -> list[AnyEvent]:
        """The events of one kind."""
        return [event for event in self.read.all if isinstance(event, kind)]

    def script(self, *outcomes: Any, takes_s: float = 0.0) -> Script:
        """A callable that plays these outcomes, each taking so long."""
        return Script(outcomes, self.clock, takes_s)

    def script_async(self, *outcomes: Any, takes_s: float = 0.0) -> AsyncScript:
        """The same, to be awaited."""
        return AsyncScript(outcomes, self.clock, takes_s)

    def trip(self, name: str, *, seconds: float = 3600.0, reason: str = "a drill") -> None:
        """What an operator does in the console: the breakers of this name refuse every call for so long."""
        self.clear_override(name)
        now = self.clock.wall()
        override = Override(
            id=f"trip-{name}",
            mode=State.FORCED_OPEN,
            scope=Scope(operation=name),
            reason=reason,
            by="lab",
            starts_at=now,
            expires_at=now + seconds,
            revision=self.recovery.desired.revision + 1,
        )
        self._desire((*self.recovery.desired.overrides, override))

    def clear_override(self, name: str) -> None:
        """Take a trip back."""
        self._desire(tuple(one for one in self.recovery.desired.overrides if one.id != f"trip-{name}"))

    def _desire(self, overrides: tuple[Override, ...]) -> None:
        desired = self.recovery.desired
        self.recovery.apply(replace(desired, revision=desired.revision + 1, overrides=overrides))

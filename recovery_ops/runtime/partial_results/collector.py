"""What the threads or tasks of one gathering share: which part is next, what came of each, and when to stop."""

from __future__ import annotations

import inspect
import threading
from collections import deque
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from recovery_ops.rules.enums import Category
from recovery_ops.rules.user_messages import TELLINGS
from recovery_ops.runtime.aio.libraries import current_library
from recovery_ops.runtime.calls.operation import Degraded
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.errors import CallRejected, GatherBlocked, RunCancelled, StopRun
from recovery_ops.runtime.failures.control_flow import is_control_flow
from recovery_ops.runtime.failures.signals import classify
from recovery_ops.runtime.partial_results.parts import Gathered, Part, Unavailable
from recovery_ops.runtime.runs.context import current_scope

_LATE = "There was no time left for this."
_REFUSED = "This is not available right now."


class Collecting:
    """The parts of one gathering and what came of them. Thread-safe."""

    def __init__(
        self, recovery: Engine, parts: Mapping[str, Part | Callable[[], Any]], done: Mapping[str, Any] | None
    ) -> None:
        self.parts = {name: one if isinstance(one, Part) else Part(one) for name, one in parts.items()}
        self.clock, self._control_flow = recovery.clock, recovery.control_flow
        self.changed = threading.Condition()
        self.data: dict[str, Any] = {name: value for name, value in (done or {}).items() if name in self.parts}
        self.unavailable: dict[str, Unavailable] = {}
        self.waiting = deque(name for name in self.parts if name not in self.data)
        self.busy: set[str] = set()
        self.terminal: BaseException | None = None
        self.is_stopped = False

    def next(self) -> str | None:
        """The next part to begin; None when there is none, or none may be begun."""
        with self.changed:
            if self.is_stopped or not self.waiting:
                return None
            name = self.waiting.popleft()
            self.busy.add(name)
            return name

    def run_all(self) -> None:
        """Part after part, in this thread."""
        while (name := self.next()) is not None:
            self.run(name)

    def run(self, name: str) -> None:
        """One part, in this thread."""
        part = self.parts[name]
        if self._is_late(name):
            return
        try:
            self._returned(name, part.function(*part.args, **part.kwargs))
        except BaseException as error:  # what is not a failure is raised at the end
            self._raised(name, error)

    async def run_async(self, name: str) -> None:
        """One part, in this task."""
        part = self.parts[name]
        if self._is_late(name):
            return
        try:
            async with current_library().timeout(self.left_s()):
                value = part.function(*part.args, **part.kwargs)
                if inspect.isawaitable(value):
                    value = await value
            self._returned(name, value)
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            self._raised(name, error)
        except BaseException as error:
            if not self.is_stopped:  # else it was we who called it off
                self._raised(name, error)
            raise

    def stop(self) -> None:
        """Begin nothing more."""
        with self.changed:
            self.is_stopped = True
            self.changed.notify_all()

    def result(self) -> Gathered:
        """What there is; raises what ended it."""
        with self.changed:
            if self.terminal is not None:
                raise self.terminal
            late = [] if self.is_stopped else [name for name in self.parts if not self._is_settled(name)]
            for name in late:
                self._miss(name, _LATE, Category.TIMEOUT)
            self.is_stopped = True
            data = {name: self.data[name] for name in self.parts if name in self.data}
            missing = {name: self.unavailable[name] for name in self.parts if name in self.unavailable}
        if any(one.is_foundational for one in missing.values()):
            not_done = tuple(name for name in self.parts if name not in data)
            error = next((one.error for one in missing.values() if one.is_foundational), None)
            raise GatherBlocked(done=data, not_done=not_done, unavailable=missing) from error
        scope = current_scope()
        if scope is not None:
            scope.warnings.extend(f"{one.name} is missing: {one.why}" for one in missing.values())
        return Gathered(data, missing)

    def left_s(self) -> float | None:
        """What is left of the deadline, in seconds; None without one."""
        scope = current_scope()
        if scope is None or scope.deadline_at == inf:
            return None
        return max(0.0, scope.deadline_at - self.clock.now())

    @property
    def is_over(self) -> bool:
        """Whether nothing is busy, and nothing more will be begun. With `changed` held."""
        return not self.busy and (self.is_stopped or not self.waiting)

    def _is_settled(self, name: str) -> bool:
        return name in self.data or name in self.unavailable

    def _is_late(self, name: str) -> bool:
        if self.left_s() != 0.0:
            return False
        with self.changed:
            self.busy.discard(name)
            self._miss(name, _LATE, Category.TIMEOUT)
        return True

    def _returned(self, name: str, value: Any) -> None:
        with self.changed:
            self.busy.discard(name)
            if name in self.unavailable:
                self.changed.notify_all()  # it was left behind
            elif isinstance(value, Degraded):
                category = Category(value.reason) if value.reason in set(Category) else None
                self._miss(name, TELLINGS[category].message if category else _REFUSED, category)
            else:
                self.data[name] = value
                self.changed.notify_all()

    def _raised(self, name: str, error: BaseException) -> None:
        is_terminal = isinstance(error, StopRun | RunCancelled) or not isinstance(error, Exception)
        is_terminal = is_terminal or is_control_flow(error, self._control_flow)
        failure = None if is_terminal or _is_refused(error) else classify(error, now=self.clock.wall())
        with self.changed:
            self.busy.discard(name)
            if is_terminal:
                self.terminal = self.terminal or error
                self._stop_now()
            elif failure is None:
                self._miss(name, _REFUSED, None, error)
            else:
                self._miss(name, failure.user_message, failure.category, error, can_retry=failure.can_retry)

    def _miss(
        self,
        name: str,
        why: str,
        category: Category | None,
        error: BaseException | None = None,
        *,
        can_retry: bool | None = None,
    ) -> None:
        if can_retry is None:
            can_retry = TELLINGS[category].can_retry if category else True
        is_foundational = self.parts[name].is_foundational
        retry_at = getattr(error, "retry_at", None)
        self.unavailable[name] = Unavailable(name, why, category, can_retry, is_foundational, retry_at, error)
        if is_foundational:
            self._stop_now()
        self.changed.notify_all()

    def _stop_now(self) -> None:
        self.is_stopped = True
        self.changed.notify_all()


def _is_refused(error: BaseException) -> bool:
    return isinstance(error, CallRejected) and not isinstance(error, TimeoutError)

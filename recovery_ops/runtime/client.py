"""The client of one process: what an agent makes once, with its guards, its runs and its background thread."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_args

from recovery_ops.rules.desired_state import NOTHING_DESIRED, Desired
from recovery_ops.runtime.aio.waker import Waker
from recovery_ops.runtime.background_thread import BackgroundThread
from recovery_ops.runtime.calls.deadline import Duration
from recovery_ops.runtime.calls.exhaustion import Report, report_of
from recovery_ops.runtime.client_actions import Actions
from recovery_ops.runtime.engine import OnPause, Sink
from recovery_ops.runtime.errors import ConfigurationError
from recovery_ops.runtime.failures.control_flow import check_control_flow
from recovery_ops.runtime.guards.argument_checks import check_callable, check_source, check_type, check_word
from recovery_ops.runtime.guards.guard import Guards
from recovery_ops.runtime.guards.options import seconds
from recovery_ops.runtime.limits import NO_LIMITS, Limits
from recovery_ops.runtime.process import forks
from recovery_ops.runtime.process.clock import Clock
from recovery_ops.runtime.process.identity import Identity
from recovery_ops.runtime.runs.pause import wait_for_work, wait_for_work_async
from recovery_ops.runtime.runs.retries import OnRetry
from recovery_ops.runtime.runs.run import Run
from recovery_ops.runtime.snapshots import snapshot

if TYPE_CHECKING:
    from pathlib import Path


class Recovery(Guards, Actions):
    """The client of a process: create one at import time, and guard every call that can fail.

    `service` names the agent. Address and key of the console are `url` and `key`, or `RECOVERY_OPS_URL` and
    `RECOVERY_OPS_KEY` (`OTEL_*` as fallback). Without a console the default policy applies. A console that is slow or
    down only makes the policy older. `RECOVERY_OPS_OFF=1` makes guards call straight through. Thread-safe, task-safe,
    fork-safe.

    - `default_source`: query source of calls without one in their guard or run: `main_agent` if a user waits. Without
      it they are background, and are not retried after a 429 or an overload.
    - `reraise`: default of its guards; see `guard`.
    - `limits`: ceilings that the console cannot exceed.
    - `on_pause`: effect of a pause on a new run: `reject` (RunsPaused) or `wait`. A worker of a queue checks
      `takes_new_work` or `wait_for_work` first.
    - `on_retry`: called with a `RetryRequest`, in a thread, when an operator retries a run.
    - `control_flow`: control-flow exceptions that are no failures, in addition to those of known frameworks.
    - `instance`, `environment`, `version`, `group`: labels of this process in the console. `directory`: its state
      directory, by default `RECOVERY_OPS_DIR`.

    Retries, fallbacks and open breakers are logged by the logger `recovery_ops`. ConfigurationError for invalid values.
    Rules: docs/guide/guarding.md#life-of-a-call

    >>> agent = Recovery("research-agent", url="", default_source="main_agent")
    >>> @agent.guard("search_web", read_only=True)
    ... def search_web(query: str) -> list[str]:
    ...     return [f"a page about {query}"]
    >>> search_web("breakers")
    ['a page about breakers']
    >>> agent.close()
    """

    def __init__(
        self,
        service: str | None = None,
        *,
        instance: str | None = None,
        url: str | None = None,
        key: str | None = None,
        environment: str | None = None,
        version: str | None = None,
        group: str | None = None,
        directory: Path | str | None = None,
        limits: Limits = NO_LIMITS,
        on_pause: OnPause = "reject",
        on_retry: OnRetry | None = None,
        reraise: bool | None = None,
        default_source: str = "",
        control_flow: tuple[type[BaseException], ...] = (),
        desired: Desired = NOTHING_DESIRED,
        clock: Clock | None = None,
        chance: Callable[[], float] = random.random,
        waker: Waker | None = None,
        sink: Sink | None = None,
        is_background_work_wanted: bool = True,
    ) -> None:
        if service == "":
            raise ConfigurationError(
                "Recovery: service must be a name, not ''; leave it out to take it from the environment"
            )
        texts = {"service": service, "instance": instance, "url": url, "key": key, "environment": environment}
        check_type("Recovery", str, {**texts, "version": version, "group": group, "default_source": default_source})
        identity = Identity.found(
            service=service,
            instance=instance,
            url=url,
            key=key,
            environment=environment,
            version=version,
            group=group,
            directory=directory,
        )
        check_source("Recovery", default_source, desired.policy.foreground_sources)
        check_word("Recovery", "on_pause", on_pause, get_args(OnPause))
        check_type("Recovery", bool, {"reraise": reraise})
        check_type("Recovery", Limits, {"limits": limits})
        check_callable("Recovery", {"on_retry": on_retry})
        check_control_flow("Recovery", control_flow)
        super().__init__(
            identity,
            desired=desired,
            limits=limits,
            on_pause=on_pause,
            clock=clock or Clock(),
            chance=chance,
            waker=waker or Waker(),
            reraise=reraise,
            default_source=default_source,
            control_flow=control_flow,
        )
        self._housekeeper = BackgroundThread(self, on_retry)
        self.use_sink(sink)
        forks.follow(self)
        if is_background_work_wanted:
            if not self.is_off:
                self._housekeeper.connect(own_sink=sink is None)
            OPEN.append(self)

    def run(self, name: str = "", *, source: str = "", run_id: str = "", timeout: Duration | None = None) -> Run:
        """One task of the agent, as a context manager, sync or async; see `Run`.

        >>> with recovery.run("answer a question", source="main_agent") as run:
        ...     answer = "42"
        """
        return Run(self, name, source=source, run_id=run_id, timeout=timeout)

    def wait_for_work(self, timeout: Duration | None = None) -> bool:
        """Block this thread while new runs are paused; returns whether they are accepted now.

        It waits at most for `timeout`, in seconds or as a timedelta; None waits until the pause ends.
        """
        return wait_for_work(self, seconds(timeout))

    async def wait_for_work_async(self, timeout: Duration | None = None) -> bool:  # noqa: ASYNC109  # as the sync form
        """The same in a task; a cancel of the task passes through."""
        return await wait_for_work_async(self, seconds(timeout))

    def snapshot(self) -> dict[str, Any]:
        """State of this client as plain data: operations, breakers, runs, revision and undelivered events.

        With `RECOVERY_OPS_DIR` the same is in a status file, for `python -m recovery_ops.runtime status`.
        """
        return snapshot(self, self.undelivered)

    def report(self, error: BaseException) -> Report | None:
        """History of an error that a guard of this process raised; None for any other error."""
        return report_of(error)

    def housekeep(self) -> None:
        """One round of what else runs in the background: sweeps, counts, heartbeats. For tests and embedders."""
        self._housekeeper.round()

    def flush(self, timeout: Duration = 5.0) -> bool:
        """Write all events to disk and send them if a server answers; True when both are done.

        Waits at most for `timeout`, in seconds or as a timedelta.
        """
        return self._housekeeper.flush(seconds(timeout) or 0.0)

    @property
    def undelivered(self) -> int:
        """Number of events that no server has accepted yet."""
        return self._housekeeper.undelivered

    def close(self, timeout: Duration = 2.0) -> None:
        """Report the end of this instance, send the remaining events, and stop the threads.

        It waits at most for `timeout`, in seconds or as a timedelta. Guards go on working without a server. At the end
        of the process every client is closed by itself.
        """
        if self.is_closed:
            return
        self.is_closed = True
        self.waker.wake_all()
        self._housekeeper.close(seconds(timeout) or 0.0)
        if self in OPEN:
            OPEN.remove(self)

    def after_fork_in_child(self) -> None:
        """The child is another instance with a background thread of its own."""
        super().after_fork_in_child()
        self._housekeeper.after_fork()


OPEN: list[Recovery] = []
"""The clients of this process that are not closed, in the order in which they were made."""

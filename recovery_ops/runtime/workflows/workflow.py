"""Workflows: steps that survive the death of the process, and are never done twice.

from recovery_ops.runtime import Workflow

with Workflow("refund", order_id) as workflow:
    order = workflow.step("load", load_order, order_id)
    charge = workflow.step("refund", refund, order["charge"], already_done=find_refund)
    workflow.step("tell", send_mail, order["mail"], charge)

Killed anywhere and started again, it goes on where it was: finished steps are not run but read. A step that was begun
and not finished is asked `already_done` first, and else runs again with the same idempotency key (`attempt()`).
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, cast, overload
from urllib.parse import quote, unquote

from recovery_ops.rules.events import Event
from recovery_ops.runtime.aio.awaitables import is_async
from recovery_ops.runtime.aio.shielded import to_its_end
from recovery_ops.runtime.calls.drivers import Blocking, Invoke, Steps, drive, drive_async
from recovery_ops.runtime.calls.operation import Attempt
from recovery_ops.runtime.client import Recovery
from recovery_ops.runtime.default_client import in_force
from recovery_ops.runtime.errors import ConfigurationError, RecoveryError
from recovery_ops.runtime.failures.control_flow import is_control_flow
from recovery_ops.runtime.process.files import checkpoint_path
from recovery_ops.runtime.runs.context import current_scope
from recovery_ops.runtime.workflows.checkpoint_store import CheckpointStore, Flow, StepRecord
from recovery_ops.runtime.workflows.codec import Codec, checked_codec
from recovery_ops.runtime.workflows.lease import Lease
from recovery_ops.runtime.workflows.steps import Found, Step, Stepping

P = ParamSpec("P")
R = TypeVar("R")


class Workflow:
    """One execution of a job in steps that survives the death of its process: `name`, and `workflow_id`, its object.

    `with` (or `async with`) holds the lease: no other process can run it meanwhile. Without, each step takes the lease.
    `store` defaults to an SQLite file of the service in the state directory; `codec` to JSON (no pickles). `lease_s` is
    the wait for a process that hangs, in seconds; a dead process loses its lease at once. `recovery` defaults to that
    of the run, else of the process.

    A step returns the value of its checkpoint, also in the first execution: tuples become lists. Every RecoveryError
    inside has a `resume_id`; other errors get a note. Thread-safe; asyncio or trio.
    WorkflowLocked, StepChanged, CheckpointError. Rules: docs/guide/workflows.md

    >>> def run():
    ...     with Workflow("refund", "order-7", recovery=recovery) as flow:
    ...         return flow.step("pay", lambda amount: print("paid") or amount, 40)
    >>> run(), run()  # the second run reads the result
    paid
    (40, 40)
    """

    def __init__(
        self,
        name: str,
        workflow_id: str,
        *,
        store: CheckpointStore | None = None,
        codec: Codec | None = None,
        recovery: Recovery | None = None,
        lease_s: float = 30.0,
    ) -> None:
        if not name or not workflow_id or lease_s <= 0:
            raise ConfigurationError("a workflow has a name, an id, and a lease of more than 0 s")
        self.name = name
        self.workflow_id = workflow_id
        self.codec = checked_codec(codec)
        self._recovery = recovery or in_force()
        identity = self._recovery.identity
        if store is None:
            # SQLite is loaded for those who keep something in it.
            from recovery_ops.runtime.workflows.sqlite_checkpoints import store_at

            store = store_at(checkpoint_path(identity.instance, directory=identity.directory))
        self.store = store
        self._flow = Flow(name, workflow_id)
        self._lease = Lease(
            self.store, self._flow, instance=identity.instance.instance, clock=self._recovery.clock, lease_s=lease_s
        )
        control_flow = self._recovery.control_flow
        self._stepping = Stepping(self.store, self._lease, self.codec, self._recovery.clock, self._emit, control_flow)

    @property
    def resume_id(self) -> str:
        """Id for `Workflow.resumed`; each RecoveryError has it."""
        return f"{quote(self.name, safe='')}/{quote(self.workflow_id, safe='')}"

    @classmethod
    def resumed(
        cls,
        resume_id: str,
        *,
        store: CheckpointStore | None = None,
        codec: Codec | None = None,
        recovery: Recovery | None = None,
        lease_s: float = 30.0,
    ) -> Self:
        """The workflow of a `resume_id`. ValueError for an unknown one."""
        name, slash, workflow_id = str(resume_id or "").partition("/")
        if not (name and slash and workflow_id):
            raise ValueError(
                f"{resume_id!r} names no workflow: pass the `resume_id` of an error that was raised inside one, "
                "or open it by name, Workflow(name, workflow_id)"
            )
        return cls(unquote(name), unquote(workflow_id), store=store, codec=codec, recovery=recovery, lease_s=lease_s)

    def step(
        self,
        step: str,
        function: Callable[..., R],
        /,
        *args: Any,
        already_done: Callable[..., Any] | None = None,
        identity: Any = None,
        **kwargs: Any,
    ) -> R:
        """Call `function(*args, **kwargs)` once in the workflow; later executions return the stored result.

        `already_done`, called with the same arguments before the step is run, says whether it was done without a
        checkpoint: None when not, else the result (`Workflow.found(result)` where that may be None). `identity` stands
        for the arguments where they cannot be stored: two runs with the same identity mean the same thing.

        A step should have one effect: `attempt().idempotency_key`, made from the workflow, the step and its input, is
        one key. Each guarded operation that it calls has a key of its own, the same in every run. Raises what the
        function raises (the error is recorded, the step can be resumed), StepChanged, WorkflowLocked, CheckpointError,
        and ConfigurationError for the name of a step that was done in this run: it would be skipped. A run is one
        `with`, or the life of this object without one; a failure begins it again.
        """
        for one in (function, already_done):
            if is_async(one):
                raise ConfigurationError(f"step {step} calls something async: use step_async")
        with _Part(self):
            return cast("R", drive(self._stepped(step, function, args, kwargs, already_done, identity)))

    @overload
    async def step_async(
        self,
        step: str,
        function: Callable[..., Awaitable[R]],
        /,
        *args: Any,
        already_done: Callable[..., Any] | None = None,
        identity: Any = None,
        **kwargs: Any,
    ) -> R: ...

    @overload
    async def step_async(
        self,
        step: str,
        function: Callable[..., R],
        /,
        *args: Any,
        already_done: Callable[..., Any] | None = None,
        identity: Any = None,
        **kwargs: Any,
    ) -> R: ...

    async def step_async(
        self,
        step: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        already_done: Callable[..., Any] | None = None,
        identity: Any = None,
        **kwargs: Any,
    ) -> Any:
        """`step` for tasks; the callables may be async or not. A cancel never parts an effect from its checkpoint."""
        async with _Part(self):
            return await drive_async(self._stepped(step, function, args, kwargs, already_done, identity))

    def _stepped(
        self,
        step: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        already_done: Callable[..., Any] | None,
        identity: Any,
    ) -> Steps[Any]:
        stepping, has_probe = self._stepping, already_done is not None
        with stepping.exclusively(step):
            now = yield Blocking(functools.partial(stepping.begin, step, args, kwargs, identity, has_probe=has_probe))
            if now.is_done:
                return now.value
            try:
                found = None
                if already_done is not None:
                    found = yield Invoke(already_done, args, kwargs, attempt=_begun(now))
                if found is None:
                    yield Blocking(functools.partial(stepping.started, now))
                    # A new attempt: the calls of `already_done` take no ordinals away.
                    found = Found((yield Invoke(function, args, kwargs, attempt=_begun(now))))
            except BaseException as error:
                yield Blocking(functools.partial(stepping.failed, now, error))
                raise
            return (yield Blocking(functools.partial(stepping.finished, now, found)))

    def as_step(
        self,
        name: str | Callable[..., str] = "",
        *,
        already_done: Callable[..., Any] | None = None,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """A decorator for sync and async functions: each call is a step.

        `name` is the step's, or makes it from the arguments (for calls in a loop: each needs a name of its own);
        default: the function's name.
        """

        def decorate(function: Callable[P, R]) -> Callable[P, R]:
            def named(*args: P.args, **kwargs: P.kwargs) -> str:
                return name(*args, **kwargs) if callable(name) else name or function.__name__

            @functools.wraps(function)
            def stepped(*args: P.args, **kwargs: P.kwargs) -> Any:
                do = self.step_async if is_async(function) else self.step
                return do(named(*args, **kwargs), function, *args, already_done=already_done, **kwargs)

            return cast("Callable[P, R]", stepped)

        return decorate

    def steps(self) -> tuple[StepRecord, ...]:
        """All steps in order of their first start, with errors and attempts."""
        return self.store.steps(self._flow)

    @staticmethod
    def found(value: Any) -> Found:
        """Wraps the result of `already_done`, where it may be None.

        >>> Workflow.found(None).value is None
        True
        """
        return Found(value)

    def forget(self) -> None:
        """Delete all checkpoints of this execution; the next one does every step again."""
        with self:
            self.store.forget(self._flow)
            self._stepping.begin_run()

    def __enter__(self) -> Self:
        if not self._lease.is_entered:
            self._stepping.begin_run()
        self.enter()
        return self

    def enter(self) -> None:
        """Take part in the run that is under way, or take the lease for a part of one."""
        try:
            self._lease.enter()
        except RecoveryError as error:
            self._mark(error)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._mark(error)
        self._lease.leave()

    async def __aenter__(self) -> Self:
        if not self._lease.is_entered:
            self._stepping.begin_run()
        await self.enter_async()
        return self

    async def enter_async(self) -> None:
        """`enter` for tasks."""
        has_entered = False

        def enter() -> None:
            nonlocal has_entered
            self.enter()
            has_entered = True

        try:
            await to_its_end(enter)
        except BaseException:  # a cancel that came meanwhile: nobody will leave what was entered
            if has_entered:
                self._lease.leave()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await to_its_end(self.__exit__, kind, error, trace)

    def _mark(self, error: BaseException | None) -> None:
        """Tell whoever handles the error how to go on."""
        if isinstance(error, RecoveryError):
            error.resume_id = error.resume_id or self.resume_id
        elif isinstance(error, Exception) and not is_control_flow(error, self._recovery.control_flow):
            note = f"workflow {self.name} can be resumed: {self.resume_id}"
            if note not in getattr(error, "__notes__", ()):
                error.add_note(note)

    def _emit(self, event: Event) -> None:
        self._recovery.emit(event, current_scope())


class _Part:
    """The lease for one step; unlike `with workflow` it begins no new run."""

    def __init__(self, workflow: Workflow) -> None:
        self._workflow = workflow

    def __enter__(self) -> None:
        self._workflow.enter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._workflow.__exit__(kind, error, trace)

    async def __aenter__(self) -> None:
        await self._workflow.enter_async()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._workflow.__aexit__(kind, error, trace)


def _begun(step: Step) -> Attempt:
    return Attempt(number=step.attempts, idempotency_key=step.key).keyed()

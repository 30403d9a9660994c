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
import inspect
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, cast, overload
from urllib.parse import quote, unquote

from recovery_ops.rules.facts import Fact
from recovery_ops.runtime.concurrency.awaiting import is_async
from recovery_ops.runtime.concurrency.finishing import to_its_end
from recovery_ops.runtime.errors import NotConfigured, RecoveryError
from recovery_ops.runtime.operation import ATTEMPT, Attempt
from recovery_ops.runtime.places import checkpoint_path
from recovery_ops.runtime.recovery import Recovery, in_force
from recovery_ops.runtime.run import CURRENT
from recovery_ops.runtime.workflows.checkpoint_store import CheckpointStore, Flow, StepRecord
from recovery_ops.runtime.workflows.codec import Codec, checked_codec
from recovery_ops.runtime.workflows.lease import Lease
from recovery_ops.runtime.workflows.stepping import Found, Stepping

P = ParamSpec("P")
R = TypeVar("R")
__all__ = ["Found", "Workflow"]


class Workflow:
    """One execution of a workflow: `name`, and `workflow_id`, what it is done for (an order, a ticket, a request).

    `with` (or `async with`) holds the lease for the whole of it: no other process can run it meanwhile. Without, each
    step takes the lease for itself. `store` defaults to an SQLite file of the service in the state directory; `codec`
    to JSON, pickles are refused; `lease_s` is how long a process that hangs is waited for (one that died is not);
    `recovery` to that of the run, else the process's own.

    What a step returns is what its checkpoint says, on the first run as on every other: tuples come back as lists.
    Every RecoveryError raised inside carries `resume_id`; other errors are given a note. Thread-safe; asyncio or trio.
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
            raise NotConfigured("a workflow has a name, an id, and a lease of more than 0 s")
        self.name = name
        self.workflow_id = workflow_id
        self.codec = checked_codec(codec)
        self._recovery = recovery or in_force()
        identity = self._recovery.identity
        if store is None:
            # SQLite is loaded for those who keep something in it.
            from recovery_ops.runtime.workflows.checkpoints import store_at

            store = store_at(checkpoint_path(identity.instance, directory=identity.directory))
        self.store = store
        self._flow = Flow(name, workflow_id)
        self._lease = Lease(
            self.store, self._flow, instance=identity.instance.instance, clock=self._recovery.clock, lease_s=lease_s
        )
        self._stepping = Stepping(self.store, self._lease, self.codec, self._recovery.clock, self._emit)

    @property
    def resume_id(self) -> str:
        """What `Workflow.resumed` takes, and every graceful failure carries."""
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
        """The workflow that an error's `resume_id` names. ValueError for what names none."""
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
        """Do `function(*args, **kwargs)` once in the life of the workflow; later it is read.

        `already_done`, called with the same arguments before the step is run, says whether it was done without our
        knowing: None when not, else the result (`Found(result)` where that may be None). `identity` stands for the
        arguments where they cannot be stored: two runs with the same identity mean the same thing.

        A step should have one effect: `attempt().idempotency_key`, made from the workflow, the step and its input, is
        one key, also inside the guarded operations it calls. Raises what the function raises (the error is recorded,
        the step can be resumed), StepChanged, WorkflowHeld, CheckpointFailed.
        """
        for one in (function, already_done):
            if is_async(one):
                raise NotConfigured(f"step {step} calls something async: use step_async")
        stepping = self._stepping
        with self, stepping.exclusively(step):
            now = stepping.begin(step, args, kwargs, identity, has_probe=already_done is not None)
            if now.is_done:
                return cast("R", now.value)
            token = ATTEMPT.set(Attempt(number=now.attempts, idempotency_key=now.key))
            try:
                found = already_done(*args, **kwargs) if already_done is not None else None
                if found is None:
                    stepping.started(now)
                    found = Found(function(*args, **kwargs))
            except BaseException as error:
                stepping.failed(now, error)
                raise
            finally:
                ATTEMPT.reset(token)
            return cast("R", stepping.finished(now, found))

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
        stepping = self._stepping
        async with self:
            with stepping.exclusively(step):
                now = await to_its_end(stepping.begin, step, args, kwargs, identity, has_probe=already_done is not None)
                if now.is_done:
                    return now.value
                token = ATTEMPT.set(Attempt(number=now.attempts, idempotency_key=now.key))
                try:
                    found = await _awaited(already_done(*args, **kwargs)) if already_done is not None else None
                    if found is None:
                        await to_its_end(stepping.started, now)
                        found = Found(await _awaited(function(*args, **kwargs)))
                except BaseException as error:
                    await to_its_end(stepping.failed, now, error)
                    raise
                finally:
                    ATTEMPT.reset(token)
                return await to_its_end(stepping.finished, now, found)

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
        """Every step so far, in the order in which they were first begun, with errors and attempts."""
        return self.store.steps(self._flow)

    def forget(self) -> None:
        """Drop every checkpoint of this execution: done again, it would do everything again."""
        with self:
            self.store.forget(self._flow)

    def __enter__(self) -> Self:
        try:
            self._lease.enter()
        except RecoveryError as error:
            self._mark(error)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._mark(error)
        self._lease.leave()

    async def __aenter__(self) -> Self:
        has_entered = False

        def enter() -> None:
            nonlocal has_entered
            self.__enter__()
            has_entered = True

        try:
            await to_its_end(enter)
        except BaseException:  # a cancel that came meanwhile: nobody will leave what was entered
            if has_entered:
                self._lease.leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await to_its_end(self.__exit__, kind, error, trace)

    def _mark(self, error: BaseException | None) -> None:
        """Tell whoever handles the error how to go on."""
        if isinstance(error, RecoveryError):
            error.resume_id = error.resume_id or self.resume_id
        elif isinstance(error, Exception):
            note = f"workflow {self.name} can be resumed: {self.resume_id}"
            if note not in getattr(error, "__notes__", ()):
                error.add_note(note)

    def _emit(self, fact: Fact) -> None:
        self._recovery.emit(fact, CURRENT.get())


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value

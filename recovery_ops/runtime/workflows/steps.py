"""What happens to one step of a workflow between the store and the call: read, begun, finished or failed."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from recovery_ops.rules.enums import CAPACITY, Family
from recovery_ops.rules.events import CheckpointRestored, CheckpointSaved, Event
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.runtime.calls.idempotency import digest
from recovery_ops.runtime.errors import CheckpointError, ConfigurationError, StepChanged, WorkflowLocked
from recovery_ops.runtime.failures.control_flow import is_control_flow
from recovery_ops.runtime.failures.signals import classify
from recovery_ops.runtime.process import forks
from recovery_ops.runtime.process.clock import Clock
from recovery_ops.runtime.workflows.checkpoint_store import CheckpointStore, Progress, StepError, StepRecord
from recovery_ops.runtime.workflows.codec import Codec, decoded, encoded
from recovery_ops.runtime.workflows.lease import Lease


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a step, where it may be None: what an `already_done` returns for a step that was done."""

    value: Any


@dataclass(slots=True)
class Step:
    """One step on its way. `key` is its idempotency key; `value` its result, once `is_done`."""

    name: str
    input_hash: str
    key: str
    attempts: int = 1
    is_done: bool = False
    value: Any = None
    was_interrupted: bool = False
    """It was begun before, and how that ended is not known."""
    has_begun: bool = False
    lost: str = ""
    """It was done, and its result was lost: what to say to whoever wants it done again."""


class Stepping(forks.InChild):
    """The steps of one execution. Thread-safe; blocks on the disk."""

    def __init__(
        self,
        store: CheckpointStore,
        lease: Lease,
        codec: Codec,
        clock: Clock,
        emit: Callable[[Event], None],
        control_flow: tuple[type[BaseException], ...] = (),
    ) -> None:
        self._store = store
        self._lease = lease
        self._flow = lease.flow
        self._codec = codec
        self._clock = clock
        self._emit = emit
        self._control_flow = control_flow
        self._busy: set[str] = set()
        self._met: set[str] = set()
        """Steps that were done or read in this run, since its last failure."""
        self._lock = threading.Lock()
        forks.follow(self)

    def after_fork_in_child(self) -> None:
        """The steps under way are the parent's, and one of its threads may have held the lock."""
        self._lock, self._busy = threading.Lock(), set()

    @contextlib.contextmanager
    def exclusively(self, step: str) -> Iterator[None]:
        """No other thread or task of this process is in the same step."""
        with self._lock:
            if step in self._busy:
                raise WorkflowLocked(*self._flow, owner=f"this process, which is in step {step} already")
            self._busy.add(step)
        try:
            yield
        finally:
            with self._lock:
                self._busy.discard(step)

    def begin_run(self) -> None:
        """What was done before was done in another run."""
        self._met.clear()

    def begin(
        self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], identity: Any, *, has_probe: bool
    ) -> Step:
        """What is known of the step. Raises StepChanged where it was done, or may have been, with another input."""
        given = [list(args), dict(kwargs)] if identity is None else {"identity": identity}
        what = f"the input of step {name} ([arguments, named arguments]; give identity= or a codec)"
        if name in self._met:
            raise ConfigurationError(
                f"step {name} of workflow {self._flow.workflow} was done in this run already, and would be skipped:"
                " give each step a name of its own, or begin another run of the workflow"
            )
        step_hash = digest(encoded(self._codec, given, what))
        found = self._store.read(self._flow, name)
        step = Step(name, step_hash, digest(*self._flow, name, step_hash))
        if found is None:
            return step
        step.attempts = found.attempts + 1
        is_same = found.input_hash == step_hash
        if found.progress is Progress.FINISHED:
            return self._restored(step, found, is_same=is_same)
        if found.progress is Progress.LOST:
            return self._lost(step, found, is_same=is_same, has_probe=has_probe)
        step.was_interrupted = found.error is None or found.error.is_outcome_unknown
        if step.was_interrupted and not is_same and not has_probe:
            raise StepChanged(*self._flow, name, was_done=False)
        return step

    def started(self, step: Step) -> None:
        """It is about to be done. Raises CheckpointError where it was done, and only its result is missing."""
        if step.lost:
            raise CheckpointError(step.lost)
        self._write(step, Progress.STARTED)
        step.has_begun = True

    def finished(self, step: Step, found: Any) -> Any:
        """It was done; its result, as the checkpoint says it.

        Raises WorkflowLocked if the lease was lost meanwhile, CheckpointError if the result cannot be stored: that it
        was done is recorded all the same.
        """
        value = found.value if isinstance(found, Found) else found
        what = f"the result of step {step.name}, which was done,"
        try:
            content = encoded(self._codec, value, what)
        except Exception as error:  # whatever a codec of the caller's raises, the effect was had
            self._write(step, Progress.LOST, error=self._told(error))
            raise CheckpointError(
                f"{error}. It is recorded as done and will not be done again: return what {self._codec.name} can hold,"
                " or give the workflow a codec; an already_done that returns the result settles this one"
            ) from error
        self._write(step, Progress.FINISHED, content=content)
        self._met.add(step.name)
        self._emit(
            CheckpointSaved(
                workflow=self._flow.workflow,
                workflow_id=self._flow.workflow_id,
                step=step.name,
                size_bytes=len(content),
            )
        )
        return decoded(self._codec, content, self._codec.name, what)

    def failed(self, step: Step, error: BaseException) -> None:
        """It raised. What is not a failure interrupts: how far it came is not known. Never raises."""
        self._met.clear()  # whoever goes on after a failure goes over the steps again
        if not isinstance(error, Exception) or isinstance(error, CheckpointError | WorkflowLocked):
            return
        if is_control_flow(error, self._control_flow):
            return
        if (step.was_interrupted or step.lost) and not step.has_begun:
            return  # only the question failed: what was known is known still, and no more
        told = self._told(error, has_begun=step.has_begun)
        with contextlib.suppress(CheckpointError, WorkflowLocked):  # the step's own error is what the caller must see
            self._write(step, Progress.FAILED, error=told)

    def _told(self, error: Exception, *, has_begun: bool = False) -> StepError:
        failure = classify(error, now=self._clock.wall())
        is_trouble = failure.family is Family.TRANSIENT and failure.category not in CAPACITY
        return StepError(
            error_type=failure.error_type,
            category=failure.category.value,
            message=failure.message,
            user_message=failure.user_message,
            suggestion=failure.suggestion,
            can_retry=failure.can_retry,
            is_outcome_unknown=has_begun and is_trouble and not failure.nothing_was_done,
        )

    def _lost(self, step: Step, found: StepRecord, *, is_same: bool, has_probe: bool) -> Step:
        if not is_same:
            raise StepChanged(*self._flow, step.name, was_done=True)
        why = f" ({found.error.message})" if found.error is not None else ""
        step.lost = (
            f"step {step.name} of workflow {self._flow.workflow} {self._flow.workflow_id} was done, but its result"
            f" could not be stored{why}: it is not done again. Give an already_done that finds the result and"
            f" returns it in a form that {self._codec.name} can hold"
        )
        step.attempts = found.attempts
        if not has_probe:
            raise CheckpointError(step.lost)
        return step

    def _restored(self, step: Step, found: StepRecord, *, is_same: bool) -> Step:
        what = f"step {step.name} of workflow {self._flow.workflow} {self._flow.workflow_id}"
        value = decoded(self._codec, found.content, found.codec, what)
        if not is_same:
            raise StepChanged(*self._flow, step.name, was_done=True)
        step.is_done, step.value = True, value
        self._met.add(step.name)
        flow = self._flow
        self._emit(CheckpointRestored(workflow=flow.workflow, workflow_id=flow.workflow_id, step=step.name))
        return step

    def _write(self, step: Step, progress: Progress, *, content: bytes = b"", error: StepError | None = None) -> None:
        record = StepRecord(
            step=step.name,
            progress=progress,
            input_hash=step.input_hash,
            attempts=step.attempts,
            at=self._clock.wall(),
            codec=self._codec.name,
            content=content,
            error=error,
        )
        if not self._store.write(self._flow, self._lease.owner, record):
            raise self._lease.held()

"""Every exception a caller may see.

    RecoveryError
    ├── Refused                 the call was not made; `retry_at` says when it may be
    │   ├── CircuitOpen         a breaker is open, or an operator tripped it
    │   ├── GateClosed          the server said when to come back
    │   ├── LoadShed            an operator sheds load, and this work is not important enough
    │   ├── NewWorkPaused       an operator paused new work here: the run was not begun
    │   └── DeadlineExceeded    no time is left (also a TimeoutError)
    ├── RecoveryExhausted       every rung was climbed and none held; `last_error` is what happened last
    ├── RunStopped              the run must end now; the model gets no turn
    ├── RunCancelled            the run was called off while a call waited
    ├── SchemaMismatch          arguments or an answer do not have the form that was agreed
    ├── ModelFallback           a signal, not an error: make the request again with another model
    ├── GatherBlocked           a foundational part is missing; `done` and `not_done` say what to ask for again
    ├── WorkflowHeld            another process runs this workflow
    ├── StepChanged             a step that was done, or begun, is asked for with another input
    ├── CheckpointFailed        a checkpoint could not be written, read or understood
    └── NotConfigured           the runtime was asked for something it was not told how to do

Fields carry the meaning; the text is made from the fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from recovery_ops.rules.words import Category, State, StopReason
from recovery_ops.runtime.portable import Portable

if TYPE_CHECKING:
    from recovery_ops.rules.failures import Failure
    from recovery_ops.rules.tools.results import ToolResult
    from recovery_ops.runtime.gathering.parts import Unavailable


class RecoveryError(Portable):
    """The root of everything this package raises into its callers.

    Pickles and copies keep class, text and fields; an error in a field that cannot be pickled arrives as its text.
    `resume_id` names the workflow that it ended, for `Workflow.resumed`; empty outside workflows.
    """

    resume_id: str = ""


class Refused(RecoveryError):
    """The call was not made. `retry_at` is when it may be (UTC), None where nobody knows."""

    def __init__(self, operation: str, *, reason: str, retry_at: datetime | None = None) -> None:
        self.operation = operation
        self.reason = reason
        self.retry_at = retry_at
        super().__init__(f"{operation} was not called: {reason}{_again(retry_at)}")


class CircuitOpen(Refused):
    """The breaker of the operation is open, or a person tripped it (`state` is forced_open, `note` their reason)."""

    def __init__(
        self, operation: str, *, breaker: str, state: State, retry_at: datetime | None = None, note: str = ""
    ) -> None:
        self.breaker = breaker
        self.state = state
        self.note = note
        said = f" ({note})" if note else ""
        super().__init__(operation, reason=f"breaker {breaker} is {state.value}{said}", retry_at=retry_at)


class GateClosed(Refused):
    """The server named a time, and it has not come."""

    def __init__(self, operation: str, *, retry_at: datetime | None = None) -> None:
        super().__init__(operation, reason="its server asked for a pause", retry_at=retry_at)


class DeadlineExceeded(Refused, TimeoutError):
    """No time is left. `was_begun`: something under way was ended, rather than a call not made."""

    def __init__(self, operation: str, *, was_begun: bool = False) -> None:
        self.was_begun = was_begun
        super().__init__(operation, reason="its deadline has passed")

    def __str__(self) -> str:
        return f"{self.operation} was ended: {self.reason}" if self.was_begun else super().__str__()


class LoadShed(Refused):
    """An operator sheds load here, and work of this importance does not pass for now."""

    def __init__(self, operation: str, *, retry_at: datetime | None = None, note: str = "") -> None:
        self.note = note
        said = f" ({note})" if note else ""
        reason = f"load is shed, and this work is not important enough{said}"
        super().__init__(operation, reason=reason, retry_at=retry_at)


class NewWorkPaused(Refused):
    """An operator paused new work in this process, so the run was not begun.

    `note` is who and why, `retry_at` when it ends by itself; None: when somebody takes it back.
    """

    def __init__(self, operation: str, *, retry_at: datetime | None = None, note: str = "") -> None:
        self.note = note
        super().__init__(operation, reason=f"new work is paused{f' ({note})' if note else ''}", retry_at=retry_at)

    def __str__(self) -> str:
        return f"{self.operation} was not begun: {self.reason}{_again(self.retry_at)}"


class RecoveryExhausted(RecoveryError):
    """Every rung was climbed and none held.

    `attempts` counts calls made, `rungs` names the rungs that were tried, `retry_at` is when trying again may help.
    For users: `user_message`, `suggestion`, `can_retry`; for developers: `failure`, the last one as it was classified.
    """

    def __init__(
        self,
        operation: str,
        *,
        last_error: BaseException | None,
        attempts: int,
        rungs: tuple[str, ...] = (),
        reason: StopReason = StopReason.NOT_RETRYABLE,
        category: Category | None = None,
        retry_at: datetime | None = None,
        user_message: str = "",
        suggestion: str = "",
        failure: Failure | None = None,
    ) -> None:
        self.operation = operation
        self.failure = failure
        self.can_retry = failure is None or failure.can_retry
        self.last_error = last_error
        self.attempts = attempts
        self.rungs = rungs
        self.reason = reason
        self.category = category
        self.retry_at = retry_at
        self.user_message = user_message
        self.suggestion = suggestion
        what = category.value if category else reason.value
        tries = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        super().__init__(f"{operation} failed after {tries}: {what}{_again(retry_at)}")


class RunStopped(RecoveryError):
    """The run must end now, in code.

    `reason` is a word of the rules: a category, `required_tool_failed`, or the guard that ended the run (`errors`,
    `turns`: then there may be no category). `results` are the tool results of the turn, whole, for the transcript.
    """

    def __init__(self, category: Category | None, user_message: str, *, operation: str = "", reason: str = "") -> None:
        self.category = category
        self.user_message = user_message
        self.operation = operation
        self.reason = reason or (category.value if category else "")
        self.results: tuple[ToolResult, ...] = ()
        super().__init__(user_message)


class RunCancelled(RecoveryError):
    """The run was called off: by `Run.cancel`, or by a person at the console; `note` is who, and why."""

    def __init__(self, operation: str, *, note: str = "") -> None:
        self.operation = operation
        self.note = note
        super().__init__(f"{operation} was called off{f' by {note}' if note else ''}")


class SchemaMismatch(RecoveryError):
    """Arguments, or a tool's answer, do not have the form that was agreed; `faults` says where."""

    def __init__(self, what: str, faults: tuple[str, ...], *, is_model_output: bool = False) -> None:
        self.what = what
        self.faults = faults
        # What the rules go by: whoever wrote it is to blame.
        self.kind = (Category.MODEL_OUTPUT if is_model_output else Category.SCHEMA_MISMATCH).value
        super().__init__(f"{what} does not fit its schema: {'; '.join(faults)}")


class ModelFallback(RecoveryError):
    """A signal to a caller's own loop: make the request again, with `to_model`. Guards switch by themselves."""

    def __init__(self, from_model: str, to_model: str) -> None:
        self.from_model = from_model
        self.to_model = to_model
        super().__init__(f"{from_model} is overloaded; ask {to_model}")


class GatherBlocked(RecoveryError):
    """A foundational part is missing, so there is no answer.

    `done`: what there is, by name; hand it to the next `gather` and only the rest is asked for again. `not_done`: the
    names without a result, whether they failed, were stopped or never begun. `unavailable`: why, for those that failed.
    """

    def __init__(
        self, *, done: Mapping[str, Any], not_done: tuple[str, ...], unavailable: Mapping[str, Unavailable]
    ) -> None:
        self.done = done
        self.not_done = not_done
        self.unavailable = unavailable
        whys = "; ".join(f"{one.name}: {one.why}" for one in unavailable.values() if one.is_foundational)
        super().__init__(f"cannot go on without {whys}")

    @property
    def can_retry(self) -> bool:
        """Whether asking again for what is missing could help."""
        return all(one.can_retry for one in self.unavailable.values() if one.is_foundational)


class WorkflowHeld(RecoveryError):
    """Another process, or another part of this one, runs the workflow. `until` (UTC) is when it must have renewed."""

    def __init__(self, workflow: str, workflow_id: str, *, owner: str = "", until: datetime | None = None) -> None:
        self.workflow = workflow
        self.workflow_id = workflow_id
        self.owner = owner
        self.until = until
        by = f" by {owner}" if owner else ""
        super().__init__(f"workflow {workflow} {workflow_id} is being run{by}{_again(until)}")


class StepChanged(RecoveryError):
    """A step that was done, or whose outcome is unknown, is asked for with another input than it was begun with."""

    def __init__(self, workflow: str, workflow_id: str, step: str, *, was_done: bool) -> None:
        self.workflow = workflow
        self.workflow_id = workflow_id
        self.step = step
        self.was_done = was_done
        what = (
            "was done with another input, and what was done does not change: give a step with a new input a new name"
            if was_done
            else "was interrupted with another input, and may have been done: resume it with that input, or say with"
            " already_done= how to find out"
        )
        super().__init__(f"step {step} of workflow {workflow} {workflow_id} {what}")


class CheckpointFailed(RecoveryError):
    """A checkpoint could not be written, read or understood; the text says what to do."""


class NotConfigured(RecoveryError):
    """The runtime was asked for something it was not told how to do; the text says what to give it."""


def _again(retry_at: datetime | None) -> str:
    return f"; try again at {retry_at.astimezone(UTC):%H:%M:%S} UTC" if retry_at else ""

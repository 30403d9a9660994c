"""Every exception a caller may see.

    RecoveryError
    ├── CallRejected            the call was rejected; `retry_at` is the end of the rejection
    │   ├── CircuitOpen         a breaker is open, or an operator tripped it
    │   ├── RetryAfterActive    the `Retry-After` of the server has not passed
    │   ├── LoadShed            load shedding rejects this priority
    │   ├── RunsPaused          new runs are paused, or the agent is stopped
    │   └── DeadlineExceeded    the deadline has passed (also a TimeoutError)
    ├── RecoveryExhausted       all recovery steps failed; `last_error` is the last failure
    ├── StopRun                 the run must end now; the model gets no turn
    ├── RunCancelled            the run was cancelled or aborted
    ├── SchemaMismatch          arguments or an answer do not match their schema
    ├── GatherBlocked           a foundational part failed; `done` and `not_done` list the parts
    ├── WorkflowLocked          another process, or another part of this one, runs the workflow
    ├── StepChanged             a finished or started step is called with other arguments
    ├── CheckpointError         a checkpoint could not be written or read
    └── ConfigurationError      an invalid value or a missing part (also a ValueError)

Fields carry the meaning; the text is made from the fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from recovery_ops.rules.enums import Category, State, StopReason
from recovery_ops.runtime.failures.error_pickling import Portable

if TYPE_CHECKING:
    from recovery_ops.rules.classification.classify import Failure
    from recovery_ops.rules.spending import SpendRuling
    from recovery_ops.rules.tools.results import ToolResult
    from recovery_ops.runtime.partial_results.parts import Unavailable


class RecoveryError(Portable):
    """Base class of all exceptions of this package.

    Pickles and copies keep class, text and fields; an error in a field that cannot be pickled arrives as its text.
    `resume_id` is for `Workflow.resumed`; empty outside workflows.
    Rules: docs/guide/failures.md#errors

    >>> @recovery.guard("search", read_only=True, max_retries=1)
    ... def search():
    ...     raise ConnectionRefusedError("refused")
    >>> try:
    ...     search()
    ... except RecoveryError as error:
    ...     print(error)
    search failed after 2 attempts: network
    """

    resume_id: str = ""


class CallRejected(RecoveryError):
    """The call was rejected. `retry_at` (UTC) is the end of the rejection; None if unknown.

    `operation` and `reason` name the call and the cause. Rules: docs/guide/guarding.md#life-of-a-call

    >>> breaker = CircuitBreaker("search")
    >>> breaker.trip(60)
    >>> try:
    ...     breaker.call(len, "x")
    ... except CallRejected as error:
    ...     print(error.operation, "|", error.reason, "|", error.retry_at is not None)
    search | breaker search is forced_open | True
    """

    def __init__(self, operation: str, *, reason: str, retry_at: datetime | None = None) -> None:
        self.operation = operation
        self.reason = reason
        self.retry_at = retry_at
        super().__init__(f"{operation} was not called: {reason}{_again(retry_at)}")


class CircuitOpen(CallRejected):
    """The breaker of the operation is open, or an operator tripped it.

    `state` is `open`, `half_open` or `forced_open`; `note` is the operator and their reason; `retry_at` is in UTC.
    Rules: docs/guide/guard-options.md#defaults

    >>> lab.trip("search", seconds=60, reason="maintenance")
    >>> try:
    ...     recovery.guard("search")(len)("x")
    ... except CircuitOpen as error:
    ...     print(error.breaker, error.state, error.note)
    search forced_open lab: maintenance
    """

    def __init__(
        self, operation: str, *, breaker: str, state: State, retry_at: datetime | None = None, note: str = ""
    ) -> None:
        self.breaker = breaker
        self.state = state
        self.note = note
        said = f" ({note})" if note else ""
        super().__init__(operation, reason=f"breaker {breaker} is {state.value}{said}", retry_at=retry_at)


class RetryAfterActive(CallRejected):
    """The `Retry-After` of the server has not passed: `retry_at`, in UTC.

    Background calls are rejected until then; foreground calls wait or use the fallback. `credentials` has the labels of
    the keys if all of them pause.
    Rules: docs/guide/runs.md

    >>> class TooManyRequests(Exception):
    ...     status_code, retry_after = 429, 30.0
    >>> @recovery.guard("search")
    ... def search():
    ...     raise TooManyRequests
    >>> for _ in range(2):
    ...     try:
    ...         search()
    ...     except Exception as error:
    ...         print(type(error).__name__)
    TooManyRequests
    RetryAfterActive
    """

    def __init__(self, operation: str, *, retry_at: datetime | None = None, credentials: tuple[str, ...] = ()) -> None:
        self.credentials = credentials
        why = f"all its keys rest ({', '.join(credentials)})" if credentials else "its server asked for a pause"
        super().__init__(operation, reason=why, retry_at=retry_at)


class DeadlineExceeded(CallRejected, TimeoutError):
    """The deadline has passed. Also a TimeoutError.

    `was_begun`: a call in progress was ended, not rejected.
    Rules: docs/guide/guarding.md#life-of-a-call

    >>> try:
    ...     with recovery.run("answer", timeout=5.0):
    ...         lab.clock.push(6.0)  # six seconds pass
    ...         recovery.guard("search")(len)("x")
    ... except DeadlineExceeded as error:
    ...     print(error)
    search was not called: its deadline has passed
    """

    def __init__(self, operation: str, *, was_begun: bool = False) -> None:
        self.was_begun = was_begun
        super().__init__(operation, reason="its deadline has passed")
        if was_begun:
            self.args = (f"{operation} was ended: {self.reason}",)


class LoadShed(CallRejected):
    """Load shedding rejects calls of this priority.

    `note` is the operator and their reason; `retry_at` (UTC) is the end. Rules: docs/guide/runs.md

    >>> print(LoadShed("index_pages", note="Ann: the database is slow"))
    index_pages was not called: load is shed, and this work is not important enough (Ann: the database is slow)
    """

    def __init__(self, operation: str, *, retry_at: datetime | None = None, note: str = "") -> None:
        self.note = note
        said = f" ({note})" if note else ""
        reason = f"load is shed, and this work is not important enough{said}"
        super().__init__(operation, reason=reason, retry_at=retry_at)


class RunsPaused(CallRejected):
    """New runs are paused, or the agent is stopped: the run was not started.

    `note` is the operator and their reason; `retry_at` (UTC) is the end, None without one. `is_stop`:
    the agent is stopped, and a guarded call outside of runs raises this too. `Recovery(on_pause="wait")` waits while
    new runs are paused, never while the agent is stopped. Rules: docs/guide/production.md#with-a-console

    >>> print(RunsPaused("answer", note="Ann: the ledger moves"))
    answer was not begun: new work is paused (Ann: the ledger moves)
    """

    def __init__(
        self,
        operation: str,
        *,
        retry_at: datetime | None = None,
        note: str = "",
        is_stop: bool = False,
        is_run: bool = True,
    ) -> None:
        self.note, self.is_stop = note, is_stop
        state = "the agent is stopped" if is_stop else "new work is paused"
        super().__init__(operation, reason=f"{state}{f' ({note})' if note else ''}", retry_at=retry_at)
        if is_run:
            self.args = (f"{operation} was not begun: {self.reason}{_again(retry_at)}",)


class RecoveryExhausted(RecoveryError):
    """All recovery steps failed.

    `attempts` is the number of calls, `steps` the recovery steps, `retry_at` (UTC) the earliest useful retry. For
    users: `user_message`, `suggestion`, `can_retry`. For developers: `category`, `last_error`, `failure` (the last
    one), `waits_s`, `idempotency_key`. If `retry_result` rejected the last result, `last_result` is that result, and
    there is no `last_error`. Rules:
    docs/guide/guarding.md#exceptions

    >>> @recovery.guard("search", read_only=True, max_retries=2)
    ... def search():
    ...     raise ConnectionRefusedError("refused")
    >>> try:
    ...     search()
    ... except RecoveryExhausted as error:
    ...     print(error.category, error.attempts, error.steps, repr(error.last_error))
    network 3 ('retry', 'fail') ConnectionRefusedError('refused')
    """

    idempotency_key: str | None = None

    def __init__(
        self,
        operation: str,
        *,
        last_error: BaseException | None,
        attempts: int,
        steps: tuple[str, ...] = (),
        reason: StopReason = StopReason.NOT_RETRYABLE,
        category: Category | None = None,
        retry_at: datetime | None = None,
        user_message: str = "",
        suggestion: str = "",
        failure: Failure | None = None,
        waits_s: tuple[float, ...] = (),
        last_result: Any = None,
    ) -> None:
        self.operation = operation
        self.failure = failure
        self.waits_s = waits_s
        self.can_retry = failure is None or failure.can_retry
        self.last_error = last_error
        self.last_result = last_result
        self.attempts = attempts
        self.steps = steps
        self.reason = reason
        self.category = category
        self.retry_at = retry_at
        self.user_message = user_message
        self.suggestion = suggestion
        what = category.value if category else reason.value
        tries = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        super().__init__(f"{operation} failed after {tries}: {what}{_again(retry_at)}")


class StopRun(RecoveryError):
    """The run must end: the model gets no further turn.

    `reason` is a category, `foundational_failed`, or the run limit that was reached (`errors`, `turns`, `spend_cap`:
    then there may be no category). `user_message` is for users. `results` are all tool results of the turn, for the
    transcript. `spend` is the account at its spend cap, else None.
    Rules: docs/guide/run-limits.md#end-of-a-run

    >>> try:
    ...     with recovery.run("answer") as run:
    ...         for turn in run.turns(2):
    ...             pass  # a model that never answers
    ... except StopRun as error:
    ...     print(turn, error.reason)
    2 turns
    """

    def __init__(self, category: Category | None, user_message: str, *, operation: str = "", reason: str = "") -> None:
        self.category = category
        self.user_message = user_message
        self.operation = operation
        self.reason = reason or (category.value if category else "")
        self.results: tuple[ToolResult, ...] = ()
        self.spend: SpendRuling | None = None
        super().__init__(user_message)


class RunCancelled(RecoveryError):
    """The run was cancelled by `Run.cancel`, or aborted in the console; `note` has the user and the reason.

    Rules: docs/guide/guarding.md#exceptions

    >>> try:
    ...     with recovery.run("answer") as run:
    ...         run.cancel()
    ...         recovery.guard("search")(len)("x")
    ... except RunCancelled as error:
    ...     print(error)
    search was called off
    """

    def __init__(self, operation: str, *, note: str = "") -> None:
        self.operation = operation
        self.note = note
        super().__init__(f"{operation} was called off{f' by {note}' if note else ''}")


class SchemaMismatch(RecoveryError):
    """Arguments or the answer of a tool (`what`) do not match their schema; `faults` lists the places.

    Rules: docs/guide/failures.md#categories

    >>> error = SchemaMismatch("the answer of search", ("pages must be an array",))
    >>> classify(error).category
    <Category.SCHEMA_MISMATCH: 'schema_mismatch'>
    """

    def __init__(self, what: str, faults: tuple[str, ...], *, is_model_output: bool = False) -> None:
        self.what = what
        self.faults = faults
        # What the rules go by: whoever wrote it is to blame.
        self.kind = (Category.MODEL_OUTPUT if is_model_output else Category.SCHEMA_MISMATCH).value
        super().__init__(f"{what} does not fit its schema: {'; '.join(faults)}")


class GatherBlocked(RecoveryError):
    """A foundational part of `Recovery.gather` failed.

    `done`: results by name; pass it to the next `gather`, and only the rest is called. `not_done`: names without a
    result. `unavailable`: the reasons of those that failed. Rules: docs/guide/fallbacks.md

    >>> try:
    ...     recovery.gather({"page": lambda: "text", "price": Part.foundational(float, "unknown")})
    ... except GatherBlocked as error:
    ...     print(dict(error.done), error.not_done, error.can_retry)
    {'page': 'text'} ('price',) False
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


class WorkflowLocked(RecoveryError):
    """Another process, or another part of this one, runs the workflow. `until` (UTC) is when its lease ends.

    Rules: docs/guide/workflows.md

    >>> with Workflow("refund", "order-7", recovery=recovery):
    ...     try:
    ...         with Workflow("refund", "order-7", recovery=recovery):
    ...             pass
    ...     except WorkflowLocked as error:
    ...         print(error.workflow, error.workflow_id)
    refund order-7
    """

    def __init__(self, workflow: str, workflow_id: str, *, owner: str = "", until: datetime | None = None) -> None:
        self.workflow = workflow
        self.workflow_id = workflow_id
        self.owner = owner
        self.until = until
        by = f" by {owner}" if owner else ""
        super().__init__(f"workflow {workflow} {workflow_id} is being run{by}{_again(until)}")


class StepChanged(RecoveryError):
    """A finished or started workflow step is called with other arguments.

    `was_done`: it is finished. Rules: docs/guide/workflows.md

    >>> with Workflow("refund", "order-7", recovery=recovery) as flow:
    ...     receipt = flow.step("pay", str, 40)
    >>> try:
    ...     with Workflow("refund", "order-7", recovery=recovery) as flow:
    ...         flow.step("pay", str, 50)
    ... except StepChanged as error:
    ...     print(error.step, error.was_done)
    pay True
    """

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


class CheckpointError(RecoveryError):
    """A checkpoint could not be written or read; the text has the fix. A finished step is never executed again.

    Rules: docs/guide/workflows.md

    >>> flow = Workflow("refund", "order-7", recovery=recovery)
    >>> try:
    ...     flow.step("pay", object)  # no JSON, and no codec for it
    ... except CheckpointError:
    ...     print("done, but not stored")
    done, but not stored
    """


class ConfigurationError(RecoveryError, ValueError):
    """An invalid value or a missing part; also a ValueError. The text has a valid value.

    Rules: docs/guide/guard-options.md#options

    >>> try:
    ...     recovery.guard("search", kind="modle")
    ... except ConfigurationError as error:
    ...     print(error)
    guard search: kind 'modle' does not exist; use "model"
    """


def _again(retry_at: datetime | None) -> str:
    return f"; try again at {retry_at.astimezone(UTC):%H:%M:%S} UTC" if retry_at else ""

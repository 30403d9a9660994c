"""What is remembered of a workflow, and what any store of it must do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import NamedTuple

from recovery_ops.rules.lazy_dataclass import dataclass


class Progress(StrEnum):
    """How far a step has come.

    `started` without anybody at work means: interrupted, outcome unknown. `lost` means: done, but its result could not
    be stored.
    """

    STARTED = "started"
    FINISHED = "finished"
    LOST = "lost"
    FAILED = "failed"


class Flow(NamedTuple):
    """One execution of a workflow: its name, and what it is done for."""

    workflow: str
    workflow_id: str


@dataclass(frozen=True, slots=True)
class StepError:
    """Why a step failed: words for users, words for developers (masked), and whether something may have been done."""

    error_type: str
    category: str
    message: str
    user_message: str
    suggestion: str
    can_retry: bool
    is_outcome_unknown: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """What is known of one step. `content` is its result as `codec` made it; `at` is seconds since the epoch."""

    step: str
    progress: Progress
    input_hash: str
    attempts: int
    at: float
    codec: str = ""
    content: bytes = b""
    error: StepError | None = None


class Holder(NamedTuple):
    """Who runs a workflow, and until when (seconds since the epoch) without renewing."""

    owner: str
    until: float


class CheckpointStore(ABC):
    """The base of a store for workflows, such as one in your database; the default is an SQLite file.

    It is shared by threads; times are seconds since the epoch; failures raise CheckpointError. It returns `Record` and
    `LeaseHolder`. `write` must be atomic: it checks that `owner` has the lease and that the step is not finished, and
    only then writes. Rules: docs/guide/workflows.md

    >>> store = Workflow("refund", "order-7", recovery=recovery).store
    >>> isinstance(store, CheckpointStore)
    True
    """

    Record = StepRecord
    LeaseHolder = Holder

    @abstractmethod
    def acquire(self, flow: Flow, owner: str, *, now: float, lease_s: float) -> Holder | None:
        """Take the lease if it is free, expired, held by the owner, or its process is dead. None: taken."""

    @abstractmethod
    def renew(self, flow: Flow, owner: str, *, now: float, lease_s: float) -> bool:
        """Extend the lease; False if another process has it."""

    @abstractmethod
    def release(self, flow: Flow, owner: str) -> None:
        """Release the lease."""

    @abstractmethod
    def read(self, flow: Flow, step: str) -> StepRecord | None:
        """Read the record of a step."""

    @abstractmethod
    def write(self, flow: Flow, owner: str, record: StepRecord) -> bool:
        """Store a record durably; False without a change if another process has the lease or the step is finished."""

    @abstractmethod
    def steps(self, flow: Flow) -> tuple[StepRecord, ...]:
        """All steps in order of their first start."""

    @abstractmethod
    def forget(self, flow: Flow) -> None:
        """Delete all records of the workflow."""

    @abstractmethod
    def redeem(self, token_id: str, *, now: float) -> bool:
        """True for the first call with this id, ever."""

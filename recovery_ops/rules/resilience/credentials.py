"""The keys of an operation by their labels: which key an attempt uses, and which keys rest. No key is ever in here.

A spent or rejected key rests for all operations of the process. A throttled key, or one whose window is used up, rests
for its operation or model: such limits are those of one model. Lockless and told the time, like a breaker.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.classification.retry_after import meant_s
from recovery_ops.rules.enums import Category, DelaySource
from recovery_ops.rules.events import Event
from recovery_ops.rules.policy.model import Settings
from recovery_ops.rules.resilience.model_chain import SPENT
from recovery_ops.rules.resilience.retry import RetryDecision
from recovery_ops.rules.resilience.retry_after_gate import RetryAfterGate

OF_THE_KEY = SPENT | {Category.AUTH, Category.RATE_LIMITED}
"""Failures of one key that another key may not have."""
_OF_ALL_OPERATIONS = frozenset({Category.QUOTA_EXHAUSTED, Category.AUTH})
LONGEST_TEST_S = 120.0
"""How long one call may test a key that has rested before another call tests it, too."""


class Credential:
    """One key in this process, by its label: until when it rests, because it is spent or rejected."""

    __slots__ = ("_is_proven", "_tested_until", "gate", "label")

    def __init__(self, label: str) -> None:
        self.label = label
        self.gate = RetryAfterGate("", credential=label)
        self._is_proven = True
        self._tested_until = -inf

    def rest(self, now: float, wait_s: float, category: Category, operation: str) -> tuple[Event, ...]:
        """Rest it for `wait_s`; then one call tests it."""
        self.gate.operation, self._is_proven, self._tested_until = operation, False, -inf
        return self.gate.close(now, wait_s, category)

    def is_under_test(self, now: float) -> bool:
        """Whether a call that uses it now finds out whether it works again."""
        return not self._is_proven and now < self._tested_until

    def taken(self, now: float) -> None:
        """A call uses it."""
        if not self._is_proven:
            self._tested_until = now + LONGEST_TEST_S

    def answered(self) -> None:
        """It works."""
        self._is_proven, self._tested_until = True, -inf

    def given_back(self) -> None:
        """The call that used it ended without a word about it."""
        self._tested_until = -inf


class CredentialPool:
    """The keys of a guard at one operation or model, in the order in which they are used.

    `gates` are those of the operation or model for throttled keys, by label. A pool of one key names it in the events,
    and changes nothing else.
    """

    __slots__ = ("_credentials", "_gates", "_operation")

    def __init__(self, operation: str, credentials: Sequence[Credential], gates: dict[str, RetryAfterGate]) -> None:
        self._operation, self._credentials, self._gates = operation, credentials, gates

    def opens_in_s(self, now: float) -> float:
        """How long every key rests; 0 where one is ready."""
        return min(self._rests_s(one, now) for one in self._credentials)

    def next(self, now: float) -> Credential:
        """The key to use now: the first that is ready, and the one that is ready soonest where all rest.

        A key that another call is testing is used where no other is ready.
        """
        return min(self._credentials, key=lambda one: (self._rests_s(one, now), one.is_under_test(now)))

    def take(self, now: float) -> str:
        """The label of the key that an attempt uses now."""
        found = self.next(now)
        found.taken(now)
        return found.label

    def fail(self, label: str, now: float, failure: Failure, settings: Settings) -> tuple[Event, ...] | None:
        """Rest the key whose attempt failed, until its server's or the policy's time. None: not the key's failure."""
        found = self._named(label)
        if len(self._credentials) == 1 or failure.category not in OF_THE_KEY:
            found.given_back()
            return None
        is_throttled = failure.category is Category.RATE_LIMITED
        usual_s = (settings.base_delay_s if is_throttled else settings.quota_rest_s) or 0.0
        wait_s = meant_s(failure.retry_after_s) or usual_s
        if failure.category in _OF_ALL_OPERATIONS:
            return found.rest(now, wait_s, failure.category, self._operation)
        found.given_back()
        gate = self._gates.setdefault(label, RetryAfterGate(self._operation, credential=label))
        return gate.close(now, wait_s, failure.category)

    def is_next_ready(self, label: str, failure: Failure, now: float) -> bool:
        """Whether a sibling of the key that has failed so may be used now."""
        found = self.next(now)
        return found.label != label and failure.category in OF_THE_KEY and not self._rests_s(found, now)

    def answered(self, label: str) -> None:
        """The attempt with this key succeeded."""
        self._named(label).answered()

    def given_back(self, label: str) -> None:
        """The attempt with this key was cancelled."""
        self._named(label).given_back()

    def renew(self, now: float) -> tuple[Event, ...]:
        """Test spent and rejected keys again at the next call: the caller has refreshed them."""
        return tuple(event for one in self._credentials for event in one.gate.open(now))

    def _rests_s(self, one: Credential, now: float) -> float:
        throttled = self._gates.get(one.label)
        return max(one.gate.opens_in_s(now), 0.0 if throttled is None else throttled.opens_in_s(now))

    def _named(self, label: str) -> Credential:
        return next(one for one in self._credentials if one.label == label)


def with_next_key(
    decision: RetryDecision, failure: Failure, *, attempt: int, max_retries: int | None, is_repeatable: bool
) -> RetryDecision:
    """The decision after a failure of a key where a sibling is ready: at once with the sibling, within the retries.

    A throttled key is retried so where it would be retried at all: in foreground, and where the policy retries it. A
    spent or rejected key has no retry of its own; the one with the sibling has the limits of every other retry.
    """
    if failure.category is Category.RATE_LIMITED:
        is_allowed = decision.retry
    else:
        is_harmless = is_repeatable or failure.nothing_was_done
        is_left = max_retries is None or attempt <= max_retries
        is_allowed = is_harmless and is_left and not failure.is_exhausted
    return RetryDecision(True, "retryable", 0.0, DelaySource.IMMEDIATE) if is_allowed else decision

"""Effective settings of this process, reported to the console after each change, never on the path of a call."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from recovery_ops.rules.events import SettingsInForce
from recovery_ops.rules.policy.effective_settings import (
    OVERRIDE,
    SHED,
    EffectiveValues,
    allowed_fallbacks,
    bounded,
    of_operation,
    of_process,
    of_settings,
    within,
)
from recovery_ops.rules.policy.model import OperationPolicy
from recovery_ops.rules.resilience.circuit_breaker import Imposed
from recovery_ops.runtime.calls.operation import Operation
from recovery_ops.runtime.engine import Engine

MOST_OPERATIONS = 200
"""Operations told of; an agent that makes them up must not fill its outbox."""
AGAIN_S = 3600.0
"""Interval in seconds of repeated reports: an outbox may have dropped one."""


class _Marks(NamedTuple):
    """Sources of a table of settings. While these stay the same, so does the table."""

    policy: OperationPolicy
    override: tuple[str, str, int | None] | None
    wanted: tuple[str, int] | None
    fallbacks: tuple[str, ...]
    reduced: tuple[str, ...]


class Reporting:
    """Says which settings changed since it was asked last. Belongs to the housekeeper's thread."""

    def __init__(self, recovery: Engine) -> None:
        self._recovery = recovery
        self._marks: dict[str, _Marks] = {}
        self._told: dict[str, SettingsInForce] = {}
        self._process_marks: tuple[object, ...] = ()
        self._again_at = recovery.clock.now() + AGAIN_S

    def news(self) -> Iterator[SettingsInForce]:
        """An event for each operation, and for the process, whose settings are not what was told last."""
        recovery = self._recovery
        now = recovery.clock.now()
        if now >= self._again_at:
            self._marks, self._told, self._process_marks, self._again_at = {}, {}, (), now + AGAIN_S
        with recovery.lock:
            operations = list(islice(recovery.operations.values(), MOST_OPERATIONS))
        found = [self._of_process(), *map(self._of_operation, operations)]
        for event in found:
            if event is not None and not self._is_told(event):
                self._told[event.operation] = event
                yield event

    def _is_told(self, event: SettingsInForce) -> bool:
        told = self._told.get(event.operation)
        # That a newer revision says the same is told by the revision that the instance reports.
        return told is not None and _said(told) == _said(event)

    def _of_operation(self, operation: Operation) -> SettingsInForce | None:
        recovery = self._recovery
        wall = recovery.clock.wall()
        with recovery.lock:
            policy, imposed = operation.standing.policy, operation.standing.breaker.override
            wanted = recovery.operations.wanted_override(operation.place.breaker)
            marks = _Marks(
                policy,
                _override_of(imposed),
                None if wanted is None else (wanted.id, wanted.revision),
                operation.fallbacks,
                operation.reduced,
            )
            before = self._marks.get(operation.name)
            if before is not None and before.policy is policy and before[1:] == marks[1:]:
                return None
            self._marks[operation.name] = marks
            desired, free = recovery.desired, recovery.operations.policy_of(operation)
        asked, runs = of_settings(free.settings), of_settings(policy.settings)
        held: EffectiveValues = {name: value for name, value in asked.items() if runs.get(name) != value}
        if wanted is not None and recovery.limits.override_allowed(wanted, wall)[0] <= 0:
            held[OVERRIDE] = wanted.mode.value
        return SettingsInForce(
            operation=operation.name,
            revision=desired.revision,
            operation_kind=str(bounded(operation.declaration.kind)),
            breaker=operation.place.breaker,
            settings=within(
                of_operation(
                    policy,
                    fallbacks=allowed_fallbacks(policy, marks.fallbacks, marks.reduced),
                    models=_models_of(operation, policy),
                    mode=imposed.mode if imposed is not None else None,
                    override_id=imposed.id if imposed is not None else "",
                )
            ),
            in_code=of_settings(operation.declaration.code),
            held=held,
        )

    def _of_process(self) -> SettingsInForce | None:
        recovery = self._recovery
        with recovery.lock:
            desired, shed, count = recovery.desired, recovery.load_shed(), len(recovery.operations)
        lasts_s = recovery.limits.shed_allowed(shed, recovery.clock.wall())[0] if shed is not None else 0.0
        marks = (desired.policy, shed if lasts_s > 0 else None, shed, count)
        if marks == self._process_marks:
            return None
        self._process_marks = marks
        limits = recovery.limits
        own: EffectiveValues = {"allow_disable": limits.allow_disable}
        if limits.max_retries is not None:
            own["max_retries"] = limits.max_retries
        if limits.max_override_s is not None:
            own["max_override_s"] = limits.max_override_s
        return SettingsInForce(
            revision=desired.revision,
            settings=of_process(desired.policy, shed=shed.least if shed is not None and lasts_s > 0 else None),
            in_code=own,
            held={SHED: f"below {shed.least.value}"} if shed is not None and lasts_s <= 0 else {},
            count=count,
        )


def _models_of(operation: Operation, policy: OperationPolicy) -> list[str] | None:
    """The models that are asked after the first of its chain; None where it has none, and no rule speaks of any."""
    chain = operation.standing.chain
    if chain is None:
        return None if policy.models is None else []
    return [model.name for model in chain.asked(policy.models)[1:]]


def _override_of(imposed: Imposed | None) -> tuple[str, str, int | None] | None:
    return None if imposed is None else (imposed.id, imposed.mode.value, imposed.revision)


def _said(event: SettingsInForce) -> tuple[object, ...]:
    return (event.operation_kind, event.breaker, event.settings, event.in_code, event.held, event.count)

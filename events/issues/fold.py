"""Names the kind of each failure, and counts failures by kind: of runs, and of minutes. Pure: rows in, values out."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeVar

from events.ingest.records import AgentName, Row
from events.issues.models import FAILURE_MINUTES
from events.models import FINGERPRINT_CHARS
from events.projections.stated import text_of, whole_of
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import FailureClassified
from recovery_ops.wire import names

FAILED = names.EVENTS[FailureClassified].name
_FINGERPRINT = names.attribute_of(FailureClassified, "fingerprint")
_ATTEMPT = names.attribute_of(FailureClassified, "attempt")
_RETRYABLE = names.attribute_of(FailureClassified, "retryable")
_MOST_ATTEMPTS = 3
_RETRYABLE_WORDS = {"true": True, "1": True, "false": False, "0": False}
_RETRYABLE_BITS = (None, True, False)
_MINUTE_US = 60_000_000
_UNNAMED = "unnamed-"


class KindName(NamedTuple):
    """The columns of `FailureKind` but its digest."""

    environment: str
    fingerprint: str
    category: str
    operation: str
    breaker: str
    provider: str
    model: str
    region: str
    service: str


class Variant(NamedTuple):
    """What tells failures of one kind apart beside their moment, instance and run."""

    is_foreground: bool
    attempt: int
    """1, 2 or, for the third and all later ones, 3; 0: not stated."""
    is_retryable: bool | None
    is_derived: bool
    """Whether it was derived from plain instrumentation."""

    @property
    def number(self) -> int:
        """All of it as one number from 0 to 63."""
        retryable = _RETRYABLE_BITS.index(self.is_retryable)
        return self.is_foreground | self.attempt << 1 | retryable << 3 | self.is_derived << 5

    @classmethod
    def of(cls, number: int) -> Variant:
        """The variant of a number."""
        return cls(bool(number & 1), number >> 1 & 3, _RETRYABLE_BITS[number >> 3 & 3], bool(number >> 5 & 1))


class FailureName(NamedTuple):
    """Failures of one kind and variant in one instance in one minute."""

    kind: KindName
    variant: int
    minute: int
    agent: AgentName

    @property
    def cell(self) -> FailureCell:
        """The same of all instances."""
        return FailureCell(self.kind, self.variant, self.minute)


class FailureCell(NamedTuple):
    """Failures of one kind and variant in one minute."""

    kind: KindName
    variant: int
    minute: int


class SumName(NamedTuple):
    """One row of `FailureSum`; `kind` is the digest."""

    environment: str
    minutes: int
    span: int
    kind: bytes
    variant: int


class InstanceSumName(NamedTuple):
    """One row of `InstanceFailureSum`, with the instance by its name."""

    environment: str
    minutes: int
    span: int
    kind: bytes
    variant: int
    agent: AgentName


class RunKind(NamedTuple):
    """One kind of failure in one run."""

    environment: str
    run: str
    kind: KindName


class Failed(NamedTuple):
    """How many failures, and the moments of the first and the last."""

    failures: int
    first_us: int
    last_us: int

    def joined(self, other: Failed) -> Failed:
        """Both together."""
        return Failed(
            self.failures + other.failures, min(self.first_us, other.first_us), max(self.last_us, other.last_us)
        )


class Told(Protocol):
    """What a failure is named by, as it comes in or as it is stored."""

    @property
    def environment(self) -> str: ...
    @property
    def at_us(self) -> int: ...
    @property
    def category(self) -> str: ...
    @property
    def operation(self) -> str: ...
    @property
    def breaker(self) -> str: ...
    @property
    def provider(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def region(self) -> str | None: ...
    @property
    def is_foreground(self) -> bool: ...
    @property
    def attributes(self) -> Mapping[str, Any]: ...
    @property
    def agent(self) -> AgentName: ...


RunFailures = dict[RunKind, Failed]
Failures = dict[FailureName, Failed]
_Name = TypeVar("_Name", bound=Hashable)


def named_mark(mark: str | None, category: str, operation: str) -> str:
    """The fingerprint; failures without one are grouped by category and operation."""
    return mark or f"{_UNNAMED}{category or Category.UNKNOWN.value}-{operation}"


def is_unnamed(fingerprint: str) -> bool:
    """Whether it is not the sender's, but made here of category and operation."""
    return fingerprint.startswith(_UNNAMED)


def unnamed_parts(fingerprint: str) -> tuple[str, str]:
    """Category and operation of an unnamed fingerprint."""
    category, _, operation = fingerprint.removeprefix(_UNNAMED).partition("-")
    return category, operation


def kind_of(row: Told) -> KindName:
    """The kind of a failure."""
    mark = text_of(row.attributes.get(_FINGERPRINT), FINGERPRINT_CHARS)
    category = row.category or Category.UNKNOWN.value
    return KindName(
        row.environment,
        named_mark(mark, category, row.operation),
        category,
        row.operation,
        row.breaker,
        row.provider,
        row.model,
        row.region or "",
        row.agent.service,
    )


def variant_of(row: Told) -> int:
    """The number of a failure's variant."""
    given = row.attributes
    attempt = min(max(whole_of(given.get(_ATTEMPT)), 0), _MOST_ATTEMPTS)
    is_retryable = _RETRYABLE_WORDS.get(str(given.get(_RETRYABLE)).lower())
    return Variant(row.is_foreground, attempt, is_retryable, bool(given.get(names.DERIVED_FROM))).number


def name_of(row: Told) -> FailureName:
    """What a failure is counted under."""
    return FailureName(kind_of(row), variant_of(row), row.at_us // _MINUTE_US, row.agent)


@lru_cache(maxsize=16384)
def digest_of(kind: KindName) -> bytes:
    """16 bytes for a kind."""
    return hashlib.blake2b("\x1f".join(kind).encode(errors="replace"), digest_size=16).digest()


def add_failures(found: Failures, of_runs: RunFailures, rows: Iterable[Row]) -> None:
    """Count the failures among these rows, by minute and by run."""
    for row in rows:
        if row.event == FAILED:
            name, one = name_of(row), Failed(1, row.at_us, row.at_us)
            _add(found, name, one)
            if row.run:
                _add(of_runs, RunKind(row.environment, row.run, name.kind), one)


def sums_of(failures: Mapping[FailureName, Failed]) -> tuple[dict[SumName, Failed], dict[InstanceSumName, Failed]]:
    """The same failures over every span of `FAILURE_MINUTES`: of all instances together, and of each."""
    together: dict[SumName, Failed] = {}
    each: dict[InstanceSumName, Failed] = {}
    for (kind, variant, minute, agent), failed in failures.items():
        digest = digest_of(kind)
        for minutes in FAILURE_MINUTES:
            name = SumName(kind.environment, minutes, minute // minutes, digest, variant)
            _add(together, name, failed)
            _add(each, InstanceSumName(*name, agent), failed)
    return together, each


def _add(found: dict[_Name, Failed], name: _Name, failed: Failed) -> None:
    known = found.get(name)
    found[name] = failed if known is None else known.joined(failed)

"""An entry of the audit log as people read it: what was done, and to what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from events.failures.naming import Called
from recovery_ops.control.core.actions import past_tense
from recovery_ops.control.core.models.audit import AuditEntry

ON_CAUSES = frozenset(
    f"failure.{verb}"
    for verb in ("assign", "unassign", "archive", "resolve", "reopen", "regress", "return", "split", "note")
)
"""Acts whose object is a cause of failures, by its fingerprint."""


def verb_of(entry: AuditEntry) -> str:
    """What was done, as it reads after a name."""
    return past_tense(entry.verb)


def name_of(entry: AuditEntry, called: Mapping[str, Called] = MappingProxyType({})) -> str:
    """What was changed, in a line of its own; a cause of failures by what `called` says of it."""
    if entry.verb not in ON_CAUSES:
        return entry.object
    return f"issue {called[entry.object].words}" if entry.object in called else f"issue {entry.object}"


def causes_in(entries: Iterable[AuditEntry]) -> set[str]:
    """The causes that these entries are about."""
    return {entry.object for entry in entries if entry.verb in ON_CAUSES}

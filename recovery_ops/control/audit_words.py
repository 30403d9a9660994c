"""An entry of the audit log as people read it: what was done, and to what."""

from __future__ import annotations

from recovery_ops.control.actions import PAST
from recovery_ops.control.models import AuditEntry

ON_CAUSES = frozenset(
    f"failure.{verb}"
    for verb in (*("assign", "unassign", "archive", "resolve", "reopen", "regress", "return", "split", "note"),)
)
"""Acts whose object is a cause of failures, by its fingerprint."""


def verb_of(entry: AuditEntry) -> str:
    """What was done, as it reads after a name."""
    return PAST.get(entry.verb, entry.verb.replace(".", " ").replace("_", " "))


def name_of(entry: AuditEntry) -> str:
    """What was changed, in a line of its own: a cause of failures goes by a digest, which would say nothing."""
    return f"cause {entry.object}" if entry.verb in ON_CAUSES else entry.object

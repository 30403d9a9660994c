"""Actions of demonstration: verb of the audit log, its past tense, permission."""

from __future__ import annotations

from recovery_ops.control.core.actions import declare

declare("demonstration.remove", "removed", permission="remove_demonstration")
declare("demonstration.empty", "deleted the data of")

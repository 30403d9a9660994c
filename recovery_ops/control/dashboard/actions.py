"""Actions of dashboard: verb of the audit log, its past tense, permission."""

from __future__ import annotations

from recovery_ops.control.core.actions import declare

declare("annotation.add", "noted", permission="annotate")
declare("annotation.end", "ended", permission="annotate")
declare("annotation.remove", "removed", permission="annotate")

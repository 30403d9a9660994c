"""Actions of runbooks: verb of the audit log, its past tense, permission."""

from __future__ import annotations

from recovery_ops.control.core.actions import declare

declare("runbook.save", "wrote", permission="write_runbooks")
declare("runbook.remove", "deleted", permission="write_runbooks")
declare("runbook.tick", "completed a runbook step for", permission="respond")
declare("runbook.untick", "reopened a runbook step for", permission="respond")

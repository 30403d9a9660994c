"""Actions of issues: verb of the audit log, its past tense, permission."""

from __future__ import annotations

from recovery_ops.control.core.actions import declare

declare("failure.assign", "assigned", permission="respond")
declare("failure.unassign", "unassigned", permission="respond")
declare("failure.archive", "archived", permission="respond")
declare("failure.escalate", "escalated", permission="respond")
declare("failure.resolve", "resolved", permission="respond")
declare("failure.reopen", "reopened", permission="respond")
declare("failure.merge", "merged", permission="arrange")
declare("failure.split", "split", permission="arrange")
declare("failure.regroup", "edited the grouping of", permission="arrange")
declare("failure.undo", "unmerged", permission="arrange")
declare("failure.note", "commented on", permission="respond", needs_reason=True)
declare("failure.return", "returned", permission="respond")
declare("failure.regress", "marked as regressed", permission="respond")

"""Actions of escalations: verb of the audit log, its past tense, permission."""

from __future__ import annotations

from recovery_ops.control.core.actions import declare

declare("escalation.raise", "escalated", permission="respond", needs_reason=True)
declare("escalation.acknowledge", "acknowledged", permission="respond")
declare("escalation.assign", "assigned", permission="respond")
declare("escalation.snooze", "snoozed", permission="respond")
declare("escalation.escalate", "escalated", permission="respond")
declare("escalation.note", "commented on", permission="respond", needs_reason=True)
declare("escalation.label", "labelled", permission="respond")
declare("escalation.entry", "added to the timeline of", permission="respond", needs_reason=True)
declare("escalation.step", "escalated to a later level", permission="respond")
declare("escalation.merge", "merged", permission="respond")
declare("escalation.resolve", "resolved", permission="respond")
declare("escalation.reopen", "reopened", permission="respond")
declare("escalation.approve", "approved", permission="decide")
declare("escalation.reject", "rejected", permission="decide")
declare("escalation.default", "applied the default action of")
declare("escalation.withdraw", "withdrew")

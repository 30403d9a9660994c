"""Actions of self monitoring: verb of the audit log, its past tense, permission."""

from __future__ import annotations

from recovery_ops.control.core.actions import declare

declare("quarantine.replay", "replayed", permission="mend_intake")
declare("quarantine.drop", "dropped", permission="mend_intake", needs_reason=True)

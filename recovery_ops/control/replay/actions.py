"""Actions of replay: verb of the audit log, its past tense, permission."""

from __future__ import annotations

from recovery_ops.control.core.actions import declare

declare("golden.mark", "marked as golden run:", permission="propose_policy")
declare("golden.retire", "retired", permission="propose_policy")
declare("replay.start", "started", permission="propose_policy")
declare("replay.cancel", "cancelled", permission="propose_policy")

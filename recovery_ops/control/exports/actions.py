"""Actions of exports: verb of the audit log, its past tense, permission."""

from __future__ import annotations

from recovery_ops.control.core.actions import declare

declare("export.start", "requested", permission="see")
declare("export.cancel", "cancelled", permission="see")

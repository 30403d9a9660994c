"""Actions of audit: verb of the audit log, its past tense, permission."""

from __future__ import annotations

from recovery_ops.control.core.actions import declare

declare("content.show", "viewed")
declare("form.send", "submitted a form to")

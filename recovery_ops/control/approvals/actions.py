"""Actions of approvals: verb of the audit log, its past tense, permission."""

from __future__ import annotations

from recovery_ops.control.core.actions import declare

declare("request.ask", "requested approval of")
declare("request.agree", "approved", permission="agree", needs_reason=True)
declare("request.reject", "rejected", permission="agree", needs_reason=True)
declare("request.withdraw", "withdrew", permission="agree")
declare("request.expire", "expired")
declare("request.review", "reviewed", permission="agree", needs_reason=True)

"""Actions of notifications: verb of the audit log, its past tense, permission."""

from __future__ import annotations

from recovery_ops.control.core.actions import declare

declare("channel.save", "saved", permission="manage_notifications")
declare("channel.test", "tested", permission="manage_notifications")
declare("channel.remove", "removed", permission="manage_notifications")
declare("digest.save", "set", permission="manage_notifications")
declare("notices.snooze", "snoozed", permission="snooze_notices")
declare("notices.lift", "unmuted", permission="snooze_notices")
declare("rule.save", "saved", permission="manage_notifications")
declare("rule.remove", "removed", permission="manage_notifications")
declare("chain.save", "saved", permission="manage_notifications")
declare("chain.remove", "removed", permission="manage_notifications")

"""Actions of access: verb of the audit log, its past tense, permission."""

from __future__ import annotations

from recovery_ops.control.core.actions import declare

declare("key.create", "created the key", permission="manage_keys", needs_fresh_sign_in=True)
declare("key.rotate", "rotated the key", permission="manage_keys", needs_fresh_sign_in=True)
declare("key.revoke", "revoked the key", permission="manage_keys")
declare("account.create", "created the user", permission="manage_accounts", needs_fresh_sign_in=True)
declare("account.reset", "reset the password of", permission="manage_accounts", needs_fresh_sign_in=True)
declare("account.password", "changed the password of", permission="manage_accounts")
declare("account.email", "changed the e-mail address of", permission="manage_accounts")
declare("account.grant", "changed the role of", permission="manage_accounts", needs_fresh_sign_in=True)
declare("account.take", "removed the role of", permission="manage_accounts")
declare("account.disable", "disabled the user", permission="manage_accounts")
declare("account.enable", "enabled the user", permission="manage_accounts", needs_fresh_sign_in=True)
declare("account.sign_in", "signed in as", permission="manage_accounts")
declare("account.sign_out", "ended sessions of", permission="manage_accounts")
declare("account.lock_out", "rate-limited sign-ins of", permission="manage_accounts")
declare("account.groups", "synchronized the groups of", permission="manage_accounts")
declare("account.factor_add", "added a second factor for", permission="manage_accounts")
declare("account.factor_remove", "removed a second factor of", permission="manage_accounts")
declare("account.factor_codes", "created recovery codes for", permission="manage_accounts")
declare("account.break_glass", "used break-glass with", permission="manage_accounts", needs_reason=True)

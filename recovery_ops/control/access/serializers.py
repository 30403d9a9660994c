"""What the API answers about who is let in, saved views and what could not be taken in: as JSON objects."""

from __future__ import annotations

from recovery_ops.control.access.selectors import KeyLine, PersonLine
from recovery_ops.control.access.services.accounts import Account, version_of_account
from recovery_ops.control.access.services.keys import IssuedKey, version_of_key
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.serializers import Document, utc_text


def key_document(line: KeyLine, *, with_address: bool) -> Document:
    """A key, without what would open anything; from where it was last used, for those alone who manage keys."""
    key = line.key
    return {
        "prefix": key.prefix,
        "name": key.name,
        "scopes": line.scopes,
        "standing": line.standing,
        "is_good": line.is_good,
        "created_at": utc_text(key.created_at),
        "expires_at": utc_text(key.expires_at),
        "revoked_at": utc_text(key.revoked_at),
        "made_by": key.made_by or None,
        "last_used_at": utc_text(key.last_used_at),
        "last_used_from": (key.last_used_from or None) if with_address else None,
        "version": version_of_key(key),
    }


def issued_key_document(done: CommandResult[IssuedKey], line: KeyLine) -> Document:
    """What was done to a key. `token` is told this once, of a key that was made now."""
    is_new = done.object.token is not None
    token = None if done.is_dry_run or done.was_already else done.object.token
    key = key_document(line, with_address=True) | (
        {"prefix": None, "version": None} if done.is_dry_run and is_new else {}
    )
    return {"was_already": done.was_already, "dry_run": done.is_dry_run, "key": key, "token": token}


def account_document(line: PersonLine, *, of_all: bool) -> Document:
    """Somebody's account; what they hold elsewhere for those alone who manage accounts everywhere."""
    user = line.user
    return {
        "number": user.pk,
        "name": user.get_username(),
        "role": line.role or None,
        "is_everywhere": line.is_everywhere,
        "groups": list(line.groups),
        "elsewhere": list(line.elsewhere) if of_all else None,
        "may_sign_in": user.is_active,
        "last_signed_in": utc_text(user.last_login),
        "version": version_of_account(user),
    }


def account_result_document(done: CommandResult[Account], line: PersonLine, *, of_all: bool) -> Document:
    """What was done to an account. `password` is told this once, where one was made up now."""
    password = None if done.is_dry_run or done.was_already else done.object.password
    told = account_document(line, of_all=of_all)
    if done.is_dry_run and done.object.password is not None:
        told["version"] = None  # nothing that was made up holds
    return {"was_already": done.was_already, "dry_run": done.is_dry_run, "account": told, "password": password}

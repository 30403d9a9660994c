"""What the API answers about who is let in, saved views and what could not be taken in: as JSON objects."""

from __future__ import annotations

from events.models import Quarantine
from events.moments import from_us
from events.quarantine import Settled
from recovery_ops.control.actions import Done
from recovery_ops.control.actions.keys import IssuedKey, version_of_key
from recovery_ops.control.actions.people import Account, version_of_account
from recovery_ops.control.actions.views import version_of_view
from recovery_ops.control.documents import Document
from recovery_ops.control.documents.intent import moment
from recovery_ops.control.let_in import KeyLine, PersonLine
from recovery_ops.control.models import SavedView


def of_key(line: KeyLine, *, with_address: bool) -> Document:
    """A key, without what would open anything; from where it was last used, for those alone who manage keys."""
    key = line.key
    return {
        "prefix": key.prefix,
        "name": key.name,
        "scopes": line.scopes,
        "standing": line.standing,
        "is_good": line.is_good,
        "created_at": moment(key.created_at),
        "expires_at": moment(key.expires_at),
        "revoked_at": moment(key.revoked_at),
        "made_by": key.made_by or None,
        "last_used_at": moment(key.last_used_at),
        "last_used_from": (key.last_used_from or None) if with_address else None,
        "version": version_of_key(key),
    }


def of_issued(done: Done[IssuedKey], line: KeyLine) -> Document:
    """What was done to a key. `token` is told this once, of a key that was made now."""
    is_new = done.object.token is not None
    token = None if done.is_dry_run or done.was_already else done.object.token
    key = of_key(line, with_address=True) | ({"prefix": None, "version": None} if done.is_dry_run and is_new else {})
    return {"was_already": done.was_already, "dry_run": done.is_dry_run, "key": key, "token": token}


def of_account(line: PersonLine, *, of_all: bool) -> Document:
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
        "last_signed_in": moment(user.last_login),
        "version": version_of_account(user),
    }


def of_done_account(done: Done[Account], line: PersonLine, *, of_all: bool) -> Document:
    """What was done to an account. `password` is told this once, where one was made up now."""
    password = None if done.is_dry_run or done.was_already else done.object.password
    told = of_account(line, of_all=of_all)
    if done.is_dry_run and done.object.password is not None:
        told["version"] = None  # nothing that was made up holds
    return {"was_already": done.was_already, "dry_run": done.is_dry_run, "account": told, "password": password}


def of_view(view: SavedView, *, owner: str, is_mine: bool, is_default: bool) -> Document:
    """A saved view; its page is `/<screen>?<query>`."""
    return {
        "number": view.pk,
        "screen": view.screen,
        "name": view.name,
        "query": view.query,
        "is_team": view.is_team,
        "owner": owner,
        "is_mine": is_mine,
        "is_default": is_default,
        "version": version_of_view(view),
    }


def of_line(one: Quarantine) -> Document:
    """A record, or a body, that was set aside; without its content, which is guarded."""
    return {
        "number": one.pk,
        "received_at": moment(from_us(one.received_us)),
        "reason": one.reason,
        "signal": one.signal,
        "key_prefix": one.key_prefix,
        "size_bytes": one.size_bytes,
        "tries": one.tries,
        "is_replayable": bool(one.encoding),
    }


def of_shown_line(one: Quarantine) -> Document:
    """As `of_line`, with the content: masked and cut. Only for who is written down to have asked for it."""
    return of_line(one) | {"content": one.content}


def of_settled(done: Done[Settled]) -> Document:
    """What became of lines that were replayed or dropped."""
    settled = done.object
    return {
        "was_already": done.was_already,
        "dry_run": done.is_dry_run,
        "stored": settled.stored,
        "settled": settled.settled,
        "left": settled.left,
    }

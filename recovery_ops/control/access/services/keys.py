"""The keys that let programs in: made, replaced with an overlap, revoked. Only a digest of them is ever kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NotRequired, Required, Unpack

from django.db import transaction

from events.keys import KeyInvalid, create_key, end_key, forget_keys, revoke_key
from events.models import AgentKey
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute, state_version
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CONFLICT, NOT_FOUND, CommandRejected
from recovery_ops.rules.policy.scope import Scope

PERMISSION = "manage_keys"
LONGEST_DAYS = 36_500
LONGEST_OVERLAP_S = 30 * 24 * 3600.0
DEFAULT_OVERLAP_S = 24 * 3600.0
_CHANGING = ("key.rotate", "key.revoke")


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedKey:
    """A key, and its secret where this is the one moment at which it can be told."""

    key: AgentKey
    token: str | None = None


class Making(CommandContext):
    """What `make_key` is given. `days`: how long it is good for; None for ever.

    `requests_per_s`: how often it may ask each process, for each scope, instead of what the settings say; 0: no limit.
    """

    name: Required[str]
    scopes: Required[Sequence[str]]
    days: NotRequired[int | None]
    requests_per_s: NotRequired[int | None]


def make_key(**asked: Unpack[Making]) -> CommandResult[IssuedKey]:
    """Let a program in. Asked for again with the same idempotency key, the secret is not told again.

    Raises CommandRejected: 403, 400 by field.
    """
    name, days = asked["name"].strip(), asked.get("days")
    faults = {
        "name": "" if name.isprintable() else "has to be one printable line",
        "days": _fault_of_days(days),
    }
    command = _attempt("key.create", asked, name or "a key", faults)

    def write(revision: int) -> Change[IssuedKey]:
        expires_at = None if days is None else command.now + timedelta(days=days)
        issued = _issued(command, name, asked["scopes"], expires_at, asked.get("requests_per_s"))
        return Change(object=issued, revision=revision, after=_told(issued.key))

    with command.noted():
        command.check()
        return execute(command, write, recall=_recalled)


class Rotating(CommandContext):
    """What `rotate_key` is given. `overlap_s`: how long the old key goes on, in seconds."""

    prefix: Required[str]
    overlap_s: NotRequired[float]


def rotate_key(**asked: Unpack[Rotating]) -> CommandResult[IssuedKey]:
    """Make a key like another one, which ends after an overlap in which both are good.

    Raises CommandRejected: 403, 400, 404 for no such key here, 409 for one that is over.
    """
    prefix, overlap_s = asked["prefix"], asked.get("overlap_s", DEFAULT_OVERLAP_S)
    faults = {"overlap_s": _fault_of_overlap(overlap_s)}
    command = _attempt("key.rotate", asked, prefix, faults)

    def write(revision: int) -> Change[IssuedKey]:
        old = _found(command, prefix)
        command.check_version(version_of_key(old), _CHANGING)
        if not is_good(old, command.now):
            detail = f"{old.name} ({prefix}) is inactive; create a new key."
            raise CommandRejected("key_over", detail, status=CONFLICT)
        meant_until = _meant_until(old)
        expires_at = None if meant_until is None else command.now + (meant_until - old.created_at)
        issued = _issued(command, old.name, old.scopes.split(), expires_at, old.requests_per_s)
        before = _told(old)
        ends_at = end_key(old, command.now + timedelta(seconds=overlap_s))
        transaction.on_commit(forget_keys)
        return Change(
            object=issued,
            revision=revision,
            before=before,
            after=_told(issued.key) | {"replaces": prefix, "old_ends_at": ends_at.isoformat()},
        )

    with command.noted():
        command.check()
        return execute(command, write, recall=_recalled)


def _meant_until(key: AgentKey) -> datetime | None:
    """Until when a key was to be good when it was made: one that was replaced already ends with its overlap."""
    replaced = AuditEntry.objects.filter(
        environment=key.environment, verb="key.rotate", object=key.prefix, result=AuditEntry.OK
    )
    first = replaced.order_by("number").first()
    if first is None:
        return key.expires_at
    told = first.before["expires_at"]
    return None if told is None else datetime.fromisoformat(told)


class Revoking(CommandContext):
    """What `revoke` is given: the beginning of the key."""

    prefix: Required[str]


def revoke(**asked: Unpack[Revoking]) -> CommandResult[IssuedKey]:
    """Shut a program out for good; obeyed by every process within seconds. Raises CommandRejected: 403, 400, 404."""
    prefix = asked["prefix"]
    command = _attempt("key.revoke", asked, prefix)

    def write(revision: int) -> Change[IssuedKey]:
        held = _found(command, prefix)
        if held.revoked_at is not None:
            return Change(object=IssuedKey(key=held), revision=revision, was_already=True)
        command.check_version(version_of_key(held), _CHANGING)
        key = revoke_key(prefix)
        transaction.on_commit(forget_keys)  # what another thread read before the commit
        return Change(
            object=IssuedKey(key=key or held), revision=revision, before=_told(held), after={"prefix": prefix}
        )

    with command.noted():
        command.check()
        return execute(command, write, recall=_recalled)


def version_of_key(key: AgentKey) -> int:
    """What `seen` is compared with: another one after whatever is done to the key."""
    return state_version(key.prefix, key.name, key.scopes, key.expires_at, key.revoked_at)


def is_good(key: AgentKey, now: datetime) -> bool:
    """Whether the key lets anybody in at this moment."""
    return key.revoked_at is None and (key.expires_at is None or key.expires_at > now)


def _attempt(verb: str, asked: Any, about: str, faults: dict[str, str] | None = None) -> Command:
    return Command.of(verb, Scope(), asked, faults, about=about)


def _issued(
    command: Command, name: str, scopes: Sequence[str], expires_at: datetime | None, requests_per_s: int | None
) -> IssuedKey:
    more: dict[str, Any] = {"requests_per_s": requests_per_s, "made_by": command.by.name}
    try:
        key, token = create_key(name, scopes, command.environment, expires_at=expires_at, **more)
    except KeyInvalid as error:
        detail = f"Invalid key: {error}."
        raise CommandRejected("invalid", detail, fields={error.field: error.reason}) from None
    return IssuedKey(key=key, token=token)


def _found(command: Command, prefix: str) -> AgentKey:
    key = AgentKey.objects.filter(environment=command.environment, prefix=prefix).first()
    if key is None:
        detail = f"Key {prefix} does not exist in {command.environment}."
        raise CommandRejected("unknown_key", detail, status=NOT_FOUND, fields={"prefix": "is unknown"})
    return key


def _told(key: AgentKey) -> dict[str, Any]:
    """What the audit log keeps of a key: nothing that would open anything."""
    ends = None if key.expires_at is None else key.expires_at.isoformat()
    told = {"prefix": key.prefix, "name": key.name, "scopes": key.scopes, "expires_at": ends}
    return told if key.requests_per_s is None else told | {"requests_per_s": key.requests_per_s}


def _recalled(entry: AuditEntry) -> IssuedKey:
    return IssuedKey(key=AgentKey.objects.get(prefix=entry.after["prefix"]))


def _fault_of_days(days: object) -> str:
    is_whole = isinstance(days, int) and not isinstance(days, bool)
    return "" if days is None or (is_whole and 1 <= days <= LONGEST_DAYS) else "is a whole number from 1"  # type: ignore[operator]  # it is whole


def _fault_of_overlap(overlap_s: object) -> str:
    if isinstance(overlap_s, bool) or not isinstance(overlap_s, int | float):
        return "is a number of seconds"
    if not 0 <= overlap_s <= LONGEST_OVERLAP_S:  # neither is NaN
        return f"is from 0 to {LONGEST_OVERLAP_S:.0f} seconds (30 days)"
    return ""

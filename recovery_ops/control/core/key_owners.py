"""Whose hand did it: what a key does is also the deed of whoever made the key, however many keys lie between."""

from __future__ import annotations

from recovery_ops.control.core.actors import Actor
from recovery_ops.control.core.models.audit import AuditEntry

_KEY = "key:"
_MADE = ("key.create", "key.rotate")


def owner_identities(identity: str, environment: str) -> frozenset[str]:
    """The identities (`Actor.identity`) behind a deed in an environment: who did it, and who made the key that did."""
    hands = {identity}
    while (maker := _maker_of(identity, environment)) and maker not in hands:
        hands.add(maker)
        identity = maker
    return frozenset(hands)


def entry_identity(entry: AuditEntry) -> str:
    """Who did what an entry of the audit log tells, as `Actor.identity` says it."""
    return f"{entry.actor_kind}:{entry.actor_id or entry.actor_name}"


def is_own(by: Actor, identity: str, environment: str) -> bool:
    """Whether a deed is the asker's own, in person or through keys of their making."""
    return by.identity in owner_identities(identity, environment)


def _maker_of(identity: str, environment: str) -> str:
    """Who made a key; empty for who is no key, and for a key that nobody was seen to make."""
    if not identity.startswith(_KEY):
        return ""
    prefix = identity.removeprefix(_KEY)
    made = AuditEntry.objects.filter(environment=environment, verb__in=_MADE, after_text__contains=f'"{prefix}"')
    found = (entry_identity(one) for one in made.order_by("number") if one.after.get("prefix") == prefix)
    return next(found, "")

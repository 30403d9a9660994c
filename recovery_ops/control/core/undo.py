"""What takes an action back: the opposite form, filled in, behind a button in the notice of the action.

It travels with the notice, among its tags: the cookie of the notices is signed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from recovery_ops.control.core.forms import new_key
from recovery_ops.control.core.models.audit import AuditEntry

REASON = "Undo, with the button of the notice"
_TAG = "undo:"


@dataclass(frozen=True, slots=True)
class Undo:
    """The address of a form, and what is sent to it."""

    address: str
    fields: Sequence[tuple[str, str]]


def undo(address: str, environment: str, **fields: str | Sequence[str]) -> Undo:
    """What is sent to `address` to take back what was done in an environment. Sent twice, it is done once."""
    sent = [("environment", environment), ("key", new_key()), ("reason", REASON)]
    for name, values in fields.items():
        sent += [(name, value) for value in ((values,) if isinstance(values, str) else values)]
    return Undo(address, sent)


def has_replaced(environment: str, revision: int) -> bool:
    """Whether the change of this revision took the place of something, which an undo would not bring back."""
    entry = AuditEntry.objects.filter(environment=environment, revision=revision).first()
    return entry is not None and bool(entry.before)


def tag_of(one: Undo) -> str:
    """As a tag of a notice: without blanks."""
    return f"{_TAG}{one.address}?{urlencode(one.fields)}"


def undo_in(tags: str) -> Undo | None:
    """The undo among the tags of a notice."""
    for tag in tags.split():
        if tag.startswith(_TAG):
            address, _, query = tag.removeprefix(_TAG).partition("?")
            return Undo(address, parse_qsl(query, keep_blank_values=True))
    return None

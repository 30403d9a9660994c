"""Records that the intake set aside, as JSON."""

from __future__ import annotations

from events.ingest.quarantine import Settled
from events.models import Quarantine
from events.moments import from_us
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.serializers import Document, utc_text


def rejected_record_document(one: Quarantine) -> Document:
    """A record, or a body, that was set aside; without its content, which is guarded."""
    return {
        "number": one.pk,
        "received_at": utc_text(from_us(one.received_us)),
        "reason": one.reason,
        "signal": one.signal,
        "key_prefix": one.key_prefix,
        "size_bytes": one.size_bytes,
        "tries": one.tries,
        "is_replayable": bool(one.encoding),
    }


def shown_record_document(one: Quarantine) -> Document:
    """As `of_line`, with the content: masked and cut. Only for who is written down to have asked for it."""
    return rejected_record_document(one) | {"content": one.content}


def settled_document(done: CommandResult[Settled]) -> Document:
    """What became of lines that were replayed or dropped."""
    settled = done.object
    return {
        "was_already": done.was_already,
        "dry_run": done.is_dry_run,
        "stored": settled.stored,
        "settled": settled.settled,
        "left": settled.left,
    }

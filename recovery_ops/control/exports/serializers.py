"""Exports as documents: what programs are told about a file that is being written, or is there."""

from __future__ import annotations

from recovery_ops.control.core.serializers import Document, utc_text
from recovery_ops.control.exports.models import Export


def export_document(one: Export) -> Document:
    """An export and how far it has come: `done` of `total`, in what its list counts itself by."""
    return {
        "number": one.number,
        "list": one.what,
        "format": one.kind,
        "narrowed": one.query,
        "columns": one.columns,
        "start": utc_text(one.start_at),
        "end": utc_text(one.end_at),
        "state": one.state,
        "asked_at": utc_text(one.asked_at),
        "started_at": utc_text(one.started_at),
        "finished_at": utc_text(one.finished_at),
        "done": one.done,
        "total": one.total,
        "rows": one.rows,
        "bytes": one.size_bytes,
        "is_cut": one.is_cut,
        "problem": one.problem,
        "address": one.address,
        "file": f"/api/v1/exports/{one.number}/file" if one.state == Export.DONE else None,
    }

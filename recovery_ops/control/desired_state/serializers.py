"""How far a revision has come, as JSON."""

from __future__ import annotations

from recovery_ops.control.core.serializers import Document, utc_text
from recovery_ops.control.desired_state.document import ApplySummary
from recovery_ops.rules.enums import ApplyStatus


def propagation_document(summary: ApplySummary) -> Document:
    """Progress of a revision: `counts`, and the instances without it, with the reason."""
    names = {
        status.value: [f"{row.service}/{row.instance}" for row in rows] for status, rows in summary.by_status.items()
    }
    counts = {status: len(rows) for status, rows in names.items()}
    failed = {f"{row.service}/{row.instance}": row.rejected_reason for row in summary.by_status[ApplyStatus.FAILED]}
    return {
        "revision": summary.revision,
        "made_at": utc_text(summary.made_at),
        "total": summary.total,
        "counts": counts,
        **names,
        "reasons": failed,
    }

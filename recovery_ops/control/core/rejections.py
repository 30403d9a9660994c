"""The one error of a change that is not made: what is wrong, with which field, and what else has happened meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recovery_ops.control.core.models.approval_requests import ApprovalRequest
from recovery_ops.control.core.models.audit import AuditEntry

ACCEPTED = 202
INVALID, FORBIDDEN, NOT_FOUND, CONFLICT = 400, 403, 404, 409


class CommandRejected(Exception):
    """A change that was not made; nothing is different from before.

    `code` is a word for programs, `detail` a sentence for people that says what to do, `fields` the fault of each field
    by its name, `status` as in HTTP, `changes` what others did since the asker looked (newest first).
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        status: int = INVALID,
        fields: Mapping[str, str] | None = None,
        changes: Sequence[AuditEntry] = (),
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.status = status
        self.fields = dict(fields or {})
        self.changes = tuple(changes)


class ApprovalPending(CommandRejected):
    """A change that waits for a second person: `request` was written down, and nothing else is different."""

    def __init__(self, detail: str, request: ApprovalRequest) -> None:
        super().__init__("second_person_needed", detail, status=ACCEPTED)
        self.request = request

"""Every list that a file may be too long of for an answer, by its name."""

from __future__ import annotations

from recovery_ops.control.audit.export import AuditFile
from recovery_ops.control.escalations.export import EscalationsFile
from recovery_ops.control.exports.lists import FileList
from recovery_ops.control.runs.export import RunsFile

LISTS: dict[str, FileList] = {one.name: one for one in (AuditFile(), EscalationsFile(), RunsFile())}

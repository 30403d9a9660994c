"""Every list that a file may be too long of for an answer, by its name."""

from __future__ import annotations

from recovery_ops.control.exporting.audit import AuditFile
from recovery_ops.control.exporting.escalations import EscalationsFile
from recovery_ops.control.exporting.lists import FileList
from recovery_ops.control.exporting.runs import RunsFile

LISTS: dict[str, FileList] = {one.name: one for one in (AuditFile(), EscalationsFile(), RunsFile())}

"""Guarded content: what strangers sent, as it came, masked and no more. Shown on request; who saw it is written down.

Guarded are a record that could not be taken in, and the facts of a run with all that was sent beside what is understood
of them. Whoever asks is checked first; then the entry is written and committed, in a transaction of its own; only then
is anything handed out. Where it cannot be written nobody sees anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from django.db import transaction
from django.utils import timezone

from events.models import Quarantine
from events.runs.records import RunRecord, records_of
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core.actors import Actor
from recovery_ops.control.core.commands import require_permission
from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected

PERMISSION = "show_content"
VERB = "content.show"

T = TypeVar("T")


def show_line(*, by: Actor, environment: str, number: int, now: datetime | None = None) -> Quarantine:
    """A record that could not be taken in, with its content. Raises CommandRejected: 403, 404."""

    def read() -> Quarantine | None:
        return Quarantine.objects.filter(environment=environment, pk=number).defer("payload").first()

    return _shown(by, environment, f"quarantined record {number}", read, now)


def show_facts(*, by: Actor, environment: str, run: str, now: datetime | None = None) -> Sequence[RunRecord]:
    """Everything that is stored of a run, as it was sent. Raises CommandRejected: 403, 404."""

    def read() -> Sequence[RunRecord] | None:
        return records_of(environment, run) if run.isprintable() and len(run) <= NAME_CHARS else None

    return _shown(by, environment, f"the events of run {run}", read, now)


def _shown(by: Actor, environment: str, about: str, read: Callable[[], T | None], now: datetime | None) -> T:
    at = now or timezone.now()
    try:
        require_permission(by, PERMISSION, environment)
    except CommandRejected as rejection:
        if by.kind != "person" or by.may("see", environment):  # else anybody could fill a log that they may not read
            audit.append(environment, _deed(about, code=rejection.code), by=by, at=at)
        raise
    found = read()
    if not found:
        raise CommandRejected("not_found", f"The object does not exist in {environment}.", status=NOT_FOUND)
    with transaction.atomic():
        audit.append(environment, _deed(about), by=by, at=at)
    return found


def _deed(about: str, code: str = "") -> audit.AuditRecord:
    shown = "".join(one if one.isprintable() else "?" for one in about)
    return audit.AuditRecord(verb=VERB, object=shown, code=code)

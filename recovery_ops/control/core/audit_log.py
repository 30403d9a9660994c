"""Who did what, when and why: appended in the transaction of the change itself, chained so that tampering shows.

One chain per environment. Each entry's hash covers the entry and the hash before it; `AuditHead` keeps the end of the
chain, so that entries missing at the end show too. It proves what happened to whoever noted a head elsewhere; against
somebody who rewrites entries *and* head, only that noted head helps.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.db.models import F

from recovery_ops.control.core.actors import Actor
from recovery_ops.control.core.models.audit import AuditEntry, AuditHead
from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.control.core.models.revisions import Revision

_HASHED = tuple(field.attname for field in AuditEntry._meta.concrete_fields if field.attname not in ("id", "hash"))
_CHUNK = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """What an entry says beside who and when. `before` and `after` are JSON values; `code` is why it was refused."""

    verb: str
    object: str
    operation: str = ""
    reason: str = ""
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    revision: int | None = None
    code: str = ""
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Anchor:
    """The end of a chain as it was at some time, to be kept where whoever writes to the database cannot."""

    environment: str
    number: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainReport:
    """Whether one environment's chain is whole. `broken_number` is the first entry that is wrong or missing."""

    environment: str
    verified: int
    """How many entries were found as they were written."""
    head_hash: str
    broken_number: int | None = None
    problem: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether every entry ever written is there, unchanged and in its place."""
        return self.broken_number is None

    @property
    def words(self) -> str:
        """A few words for a badge."""
        return f"verified to row {self.verified}" if self.is_whole else f"broken at row {self.broken_number}"


def lock(environment: str) -> AuditHead:
    """Hold the environment's chain until the transaction ends: one change at a time, on both engines alike.

    An UPDATE takes the row on PostgreSQL; on SQLite the whole transaction already waits its turn.
    """
    head = AuditHead.objects.filter(environment=environment)
    if not head.update(number=F("number")):
        AuditHead.objects.bulk_create([AuditHead(environment=environment)], ignore_conflicts=True)
        head.update(number=F("number"))
    return head.get()


def append(environment: str, deed: AuditRecord, *, by: Actor, at: datetime) -> AuditEntry:
    """Write down what was done or refused, at the end of the chain. To be called in the transaction of the change."""
    with transaction.atomic():
        head = lock(environment)
        entry = AuditEntry(
            environment=environment,
            number=head.number + 1,
            at=at.astimezone(UTC),
            actor_kind=by.kind,
            actor_name=by.name,
            actor_id=by.id,
            verb=deed.verb,
            object=deed.object[: 4 * NAME_CHARS],
            operation=deed.operation,
            reason=deed.reason,
            before_text=_json(deed.before),
            after_text=_json(deed.after),
            revision=deed.revision,
            result=AuditEntry.REFUSED if deed.code else AuditEntry.OK,
            code=deed.code,
            channel=by.channel,
            ip=by.ip,
            user_agent=by.user_agent,
            request_id=by.request_id,
            key=deed.key,
        )
        entry.hash = hash_of(entry, head.hash)
        entry.save()
        AuditHead.objects.filter(environment=environment).update(number=entry.number, hash=entry.hash)
    return entry


def hash_of(entry: AuditEntry, previous_hash: str) -> str:
    """SHA-256 of the previous hash and the entry's canonical JSON, in hexadecimal."""
    content = {name: getattr(entry, name) for name in _HASHED}
    content["at"] = entry.at.astimezone(UTC).isoformat(timespec="microseconds")
    return hashlib.sha256((previous_hash + _json(content)).encode("utf-8", "surrogatepass")).hexdigest()


def verify_chain(environment: str, read: Callable[[int], None] = lambda _: None) -> ChainReport:
    """Walk the whole chain of an environment and say where it first breaks. Reads every entry once.

    Says to `read` now and then how many it has read so far.
    """
    first_head = _head(environment)
    number, previous_hash, hash_at_head = 0, "", ""

    def broken(at_number: int, problem: str) -> ChainReport:
        return ChainReport(
            environment=environment,
            verified=number,
            head_hash=first_head.hash,
            broken_number=at_number,
            problem=problem,
        )

    entries = AuditEntry.objects.filter(environment=environment).order_by("number")
    for entry in entries.iterator(chunk_size=_CHUNK):
        if entry.number != number + 1:
            return broken(number + 1, f"Row {number + 1} is missing: after row {number} comes row {entry.number}.")
        if hash_of(entry, previous_hash) != entry.hash:
            return broken(entry.number, f"Row {entry.number} was modified or moved.")
        number, previous_hash = entry.number, entry.hash
        if number == first_head.number:
            hash_at_head = entry.hash
        if not number % _CHUNK:
            read(number)
    if number < first_head.number:
        return broken(number + 1, f"Rows {number + 1} to {first_head.number} are missing from the end.")
    # What was appended while we walked lies behind the first head, and never behind the one that is noted now.
    head = first_head if number == first_head.number else _head(environment)
    if number > head.number or hash_at_head != first_head.hash:
        return broken(first_head.number + 1, "The end of the chain differs from the recorded end.")
    if not number and Revision.objects.filter(environment=environment, number__gt=0).exists():
        return broken(1, "The audit log is empty although there were changes.")
    return ChainReport(environment=environment, verified=number, head_hash=previous_hash)


def list_anchors() -> list[Anchor]:
    """Where each environment's chain ends now; environments in which nothing was written yet have no end."""
    heads = AuditHead.objects.filter(number__gt=0).order_by("environment")
    return [Anchor(head.environment, head.number, head.hash) for head in heads]


def refuted_anchors(kept: Iterable[Anchor]) -> list[Anchor]:
    """Those of the kept ends that the log denies: it was written anew since, however whole it looks."""
    return [
        one
        for one in kept
        if not AuditEntry.objects.filter(environment=one.environment, number=one.number, hash=one.hash).exists()
    ]


def entry_document(entry: AuditEntry) -> dict[str, Any]:
    """One row in full, as it is exported: the hashed fields by name, and the hash."""
    values = {name: getattr(entry, name) for name in _HASHED}
    return {**values, "at": entry.at.astimezone(UTC).isoformat(timespec="microseconds"), "hash": entry.hash}


def list_chains() -> list[str]:
    """The environments in which anything was ever written down or changed."""
    known = {*AuditHead.objects.values_list("environment", flat=True)}
    known |= {*AuditEntry.objects.values_list("environment", flat=True).distinct()}
    return sorted(known | {*Revision.objects.values_list("environment", flat=True)})


def _head(environment: str) -> AuditHead:
    return AuditHead.objects.filter(environment=environment).first() or AuditHead(environment=environment)


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

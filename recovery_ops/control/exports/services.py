"""Asks for a long list as a file, and calls it off: the work itself is done in a process of its own.

A file is its owner's: the person who asked, or the key, and only while they may read what it was made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import NotRequired, Required, Unpack

from django.db.models import QuerySet
from django.http import QueryDict

from events.pages.table_files import CSV, KINDS
from events.pages.window import LONGEST, in_utc
from recovery_ops.control.core.actors import Actor
from recovery_ops.control.core.commands import (
    Change,
    Command,
    CommandContext,
    CommandResult,
    execute,
    require_permission,
)
from recovery_ops.control.core.jobs import cancel_job
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CONFLICT, NOT_FOUND, CommandRejected
from recovery_ops.control.exports.catalogue import LISTS
from recovery_ops.control.exports.job import wish_of
from recovery_ops.control.exports.lists import FileList
from recovery_ops.control.exports.models import QUERY_CHARS, Export
from recovery_ops.rules.policy.scope import Scope

MOST_UNFINISHED = 5
"""Of one environment: they run one after the other."""


class Exporting(CommandContext):
    """What `start_export` is given. `query` narrows the list as its address does, `address` is that for a browser;
    `columns` are those of the file, none for all. A list of a range takes `start` and `end`.
    """

    what: Required[str]
    query: Required[str]
    address: Required[str]
    kind: NotRequired[str]
    columns: NotRequired[Sequence[str]]
    start: NotRequired[datetime | None]
    end: NotRequired[datetime | None]


def start_export(**asked: Unpack[Exporting]) -> CommandResult[Export]:
    """Have a list written into a file. Raises CommandRejected: 403, 400 by field, 409 when too many wait already."""
    found = LISTS.get(asked["what"])
    command = Command.of(
        "export.start",
        Scope(),
        asked,
        _faults(asked, found),
        about=f"the export {found.title if found else 'of an unknown list'}",
    )

    def write(revision: int) -> Change[Export]:
        mine = Export.objects.filter(environment=command.environment)
        if mine.filter(state__in=Export.UNFINISHED).count() >= MOST_UNFINISHED:
            detail = f"{MOST_UNFINISHED} exports of {command.environment} are running, the limit; cancel one."
            raise CommandRejected("too_many", detail, status=CONFLICT)
        made = _made(command, asked)
        told = {"number": made.number, "what": made.what, "kind": made.kind, "narrowed": made.query}
        return Change(object=made, revision=revision, after=told)

    with command.noted():
        command.check()
        permission, where = LISTS[asked["what"]].needs(wish_of(_row(command, asked)))
        require_permission(asked["by"], permission, where)
        return execute(command, write, recall=partial(_recalled, asked["by"]))


class Cancelling(CommandContext):
    """What `cancel_export` is given."""

    number: Required[int]


def cancel_export(**asked: Unpack[Cancelling]) -> CommandResult[Export]:
    """Call one's own export off: what is written of it is thrown away.

    Raises CommandRejected: 404 for anybody else's.
    """
    number = asked["number"]
    command = Command.of("export.cancel", Scope(), asked, about=f"export {number}")

    def write(revision: int) -> Change[Export]:
        found = exports_of(command.by, command.environment).filter(number=number).first()
        if found is None:
            detail = f"Export {number} does not exist in {command.environment}."
            raise CommandRejected("unknown_export", detail, status=NOT_FOUND, fields={"number": "is unknown"})
        if not found.is_unfinished or found.is_cancel_asked:
            return Change(object=found, revision=revision, was_already=True)
        cancel_job(found, now=command.now)
        return Change(object=found, revision=revision, after={"number": number})

    with command.noted():
        command.check()
        return execute(command, write, recall=partial(_recalled, asked["by"]))


def exports_of(by: Actor, environment: str) -> QuerySet[Export]:
    """Those that somebody asked for in an environment."""
    mine = Export.objects.filter(environment=environment)
    if by.user_id is not None:
        return mine.filter(by_user_id=by.user_id)
    return mine.filter(key_prefix=by.key_prefix) if by.key_prefix else mine.none()


def may_fetch(by: Actor, export: Export) -> bool:
    """Whether its owner may still read what it was made of."""
    permission, where = LISTS[export.what].needs(wish_of(export))
    return by.may(permission, where)


def _made(command: Command, asked: Exporting) -> Export:
    newest = Export.objects.filter(environment=command.environment).order_by("-number").first()
    made = _row(command, asked)
    made.number = 1 if newest is None else newest.number + 1
    made.save()
    return made


def _row(command: Command, asked: Exporting) -> Export:
    found, given, kept = LISTS[asked["what"]], QueryDict(asked["query"]), QueryDict(mutable=True)
    for name in found.asks:
        if given.get(name):
            kept[name] = given[name]
    return Export(
        environment=command.environment,
        what=found.name,
        kind=asked.get("kind") or CSV,
        query=kept.urlencode(),
        address=asked["address"],
        columns=list(asked.get("columns") or ()),
        start_at=asked.get("start"),
        end_at=asked.get("end"),
        by_user_id=command.by.user_id,
        by=command.by.name,
        key_prefix="" if command.by.user_id is not None else command.by.key_prefix,
        asked_at=command.now,
    )


def _faults(asked: Exporting, found: FileList | None) -> dict[str, str]:
    if found is None:
        return {"list": f"is one of {', '.join(LISTS)}"}
    faults = {}
    if (asked.get("kind") or CSV) not in KINDS:
        faults["format"] = f"is one of {', '.join(KINDS)}"
    unknown = [name for name in asked.get("columns") or () if name not in found.columns]
    if unknown:
        faults["columns"] = f"are some of {', '.join(found.columns)}"
    if len(asked["query"]) > QUERY_CHARS or len(asked["address"]) > 2 * QUERY_CHARS:
        faults["narrowed"] = f"has at most {QUERY_CHARS} characters"
    return faults | _faults_of_range(asked, found)


def _faults_of_range(asked: Exporting, found: FileList) -> dict[str, str]:
    start, end = asked.get("start"), asked.get("end")
    if start is None and end is None:
        return {"start": "is missing; the list needs a range"} if found.has_range else {}
    if start is None or end is None:
        return {"start" if start is None else "end": "is missing"}
    if odd := [name for name, at in (("start", start), ("end", end)) if in_utc(at) is None]:
        return dict.fromkeys(odd, "is out of range")
    if start >= end:
        return {"end": "has to be after the start"}
    is_too_long = found.has_range and end - start > LONGEST
    return {"start": f"exceeds {LONGEST.days} days before the end"} if is_too_long else {}


def _recalled(by: Actor, entry: AuditEntry) -> Export:
    """What was asked for before. Numbers begin anew once every row was swept: then it is gone, or is another's."""
    found = exports_of(by, entry.environment).filter(number=entry.after["number"]).first()
    if found is None:
        raise CommandRejected("unknown_export", "The result of this key is no longer stored.", status=NOT_FOUND)
    return found

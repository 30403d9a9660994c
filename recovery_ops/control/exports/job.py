"""Writes the file of an export that was claimed, part by part, says how far it has come, and stops when told to."""

from __future__ import annotations

import gzip
import logging
import time
from collections.abc import Callable, Iterator
from datetime import datetime

from django.http import QueryDict
from django.utils import timezone

from events.pages.table_files import pieces_of
from recovery_ops.control.core import jobs
from recovery_ops.control.core.jobs import BEAT_S, CancelAsked, finish
from recovery_ops.control.exports.catalogue import LISTS
from recovery_ops.control.exports.lists import Cells, FileList, Wish
from recovery_ops.control.exports.models import Export, ExportPart

logger = logging.getLogger(__name__)

PART_CHARS = 1_000_000
MOST_ROWS = 1_000_000
MOST_CHARS = 256_000_000
"""A file that would be longer is cut, and says so."""


def run(export: Export, *, clock: Callable[[], float] = time.monotonic) -> None:
    """Do the work of one export that was claimed, and write down what came of it.

    Rows are read batch by batch and each part is written by itself: no reading and no writing lasts.
    """
    try:
        _Writing(export, clock).write()
    except CancelAsked:
        _thrown_away(export)
        finish(export, Export.CANCELLED)
    except Exception as error:
        logger.exception("an export failed")
        _thrown_away(export)
        finish(export, Export.FAILED, problem=f"{type(error).__name__}: {error}"[:1000])
    else:
        finish(export, Export.DONE)


def start_next(*, now: datetime, start: Callable[[Export], None]) -> Export | None:
    """Start the export that has waited longest, unless one runs; tell of one whose process is gone."""
    return jobs.start_next(Export, now=now, start=start)


def in_child(export: Export) -> None:
    """Do the work in a process of its own, so that nothing that answers people or agents waits for it."""
    jobs.in_child(export, command="export", folder="exports")


def wish_of(export: Export) -> Wish:
    """Which rows an export is to hold: those that there were when it was asked for."""
    return Wish(
        environment=export.environment,
        given=QueryDict(export.query),
        start=export.start_at,
        end=export.end_at,
        user_id=export.by_user_id,
        now=export.asked_at,
    )


class _Writing:
    """One file while it is written."""

    def __init__(self, export: Export, clock: Callable[[], float]) -> None:
        self._export, self._clock = export, clock
        self._list: FileList = LISTS[export.what]
        self._wish = wish_of(export)
        self._next_s = clock() + BEAT_S
        self._looked, self._rows, self._size_bytes, self._parts, self._chars = 0, 0, 0, 0, 0
        self._is_cut = False

    def write(self) -> None:
        """Raise CancelAsked when somebody called it off."""
        mine = Export.objects.filter(pk=self._export.pk)
        mine.update(total=self._list.total(self._wish))
        held: list[str] = []
        held_chars = 0
        for piece in pieces_of(
            self._export.kind,
            self._list.columns,
            self._every_row(),
            only=self._export.columns,
            address=self._export.address,
        ):
            held.append(piece)
            held_chars += len(piece)
            self._chars += len(piece)
            if held_chars >= PART_CHARS:
                self._put("".join(held))
                held, held_chars = [], 0
        self._put("".join(held))
        mine.update(rows=self._rows, done=self._looked, size_bytes=self._size_bytes, is_cut=self._is_cut)

    def _every_row(self) -> Iterator[Cells]:
        for batch in self._list.batches(self._wish):
            for row in batch.rows:
                if self._rows >= MOST_ROWS or self._chars >= MOST_CHARS:
                    self._is_cut = True
                    return
                self._rows += 1
                yield row
            self._looked += batch.looked
            self._look()

    def _put(self, text: str) -> None:
        content = text.encode()
        ExportPart.objects.create(export_id=self._export.pk, number=self._parts, content=gzip.compress(content, 6))
        self._parts += 1
        self._size_bytes += len(content)

    def _look(self) -> None:
        """Tell the row how far it has come, about once a second, and hear whether it is to stop."""
        if self._clock() < self._next_s:
            return
        self._next_s = self._clock() + BEAT_S
        mine = Export.objects.filter(pk=self._export.pk, state=Export.RUNNING)
        told = {"done": self._looked, "rows": self._rows, "size_bytes": self._size_bytes}
        if not mine.update(**told, beat_at=timezone.now()):
            raise CancelAsked  # given up as lost, while this process stood still
        if mine.values_list("is_cancel_asked", flat=True).first():
            raise CancelAsked


def _thrown_away(export: Export) -> None:
    ExportPart.objects.filter(export=export).delete()

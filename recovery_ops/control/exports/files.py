"""The file of an export that is done, as an answer."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

from django.http import StreamingHttpResponse

from events.pages.table_files import KINDS, as_file
from recovery_ops.control.exports.models import Export, ExportPart


def file_answer(export: Export) -> StreamingHttpResponse:
    """The file, read part by part while it is sent."""
    answer = StreamingHttpResponse(_contents(export.pk), content_type=KINDS[export.kind])
    answer["Content-Length"] = str(export.size_bytes)
    return as_file(answer, f"{export.what} {export.environment} {export.number}.{export.kind}")


def _contents(pk: int) -> Iterator[bytes]:
    number = 0
    while True:
        part = ExportPart.objects.filter(export_id=pk, number=number).values_list("content", flat=True).first()
        if part is None:
            return
        yield gzip.decompress(bytes(part))
        number += 1

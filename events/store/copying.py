"""What is stored in PostgreSQL's own words: facts as lines of COPY, columns of other rows as arrays.

The driver looks at each value by itself, which takes two to ten times as long. Most columns say
the same for many facts of a transaction, so those are written once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter

from events.ingest.records import Row
from events.store.statements import SHARED_COLUMNS

_LINES_EACH = 64
"""So little memory is given again and again; what is larger is asked of the system each time, which costs as much."""
_MOST_ROWS = 1000
_MOST_CHARACTERS = 1_000_000
"""Of one statement's arrays. What a transaction merges is mostly less."""
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
_NOTHING = r"\N"
_BACKSLASH, _ESCAPED = "\\", r"\\"
_shared_of = attrgetter(*SHARED_COLUMNS)


def written(rows: Iterable[Row]) -> Iterator[bytes]:
    """The lines of these facts, many at once. Raises ValueError where a text has half a character."""
    heads = _Heads()
    remaining = iter(rows)
    while part := [_line(row, heads[_shared_of(row)]) for row in islice(remaining, _LINES_EACH)]:
        yield "".join(part).encode()


class _Heads(dict[tuple[object, ...], str]):
    """How the lines of facts begin that have these columns in common."""

    def __missing__(self, shared: tuple[object, ...]) -> str:
        head = self[shared] = "\t".join([_NOTHING if value is None else _text(str(value)) for value in shared])
        return head


def _line(row: Row, head: str) -> str:
    """What facts share, and then `statements.OWN_COLUMNS` in their order."""
    stated = _NOTHING if row.stated_us is None else row.stated_us
    # Ids are hexadecimal, and JSON has no tab and no end of a line but in an escape of its own.
    return (
        f"{head}\t\\\\x{row.uid.hex()}\t{row.at_us}\t{stated}\t{row.sequence_number}\t{_text(row.run)}"
        f"\t{row.trace_id}\t{row.span_id}\t{row.attributes_json.replace(_BACKSLASH, _ESCAPED)}\t{_text(row.body)}\n"
    )


def _text(text: str) -> str:
    return text.replace(_BACKSLASH, _ESCAPED) if text.isprintable() else text.translate(_ESCAPES)


# -- columns -----------------------------------------------------------------------------------------------------------


def arrays_of(rows: Sequence[tuple[object, ...]]) -> Iterator[list[str]]:
    """An array for each column of these rows, of so many rows at once as make a statement of bounded size.

    PostgreSQL takes none of more than a gigabyte, and each character may become four on its way.
    """
    yield from _in_parts(rows, _MOST_ROWS)


def _in_parts(rows: Sequence[tuple[object, ...]], most: int) -> Iterator[list[str]]:
    for start in range(0, len(rows), most):
        part = rows[start : start + most]
        columns = [array_of(column) for column in zip(*part, strict=True)]
        parts = math.ceil(sum(map(len, columns)) / _MOST_CHARACTERS)
        if parts == 1 or len(part) == 1:
            yield columns
        else:
            del columns
            yield from _in_parts(part, math.ceil(len(part) / parts))


def array_of(values: Sequence[object]) -> str:
    """A column of texts, numbers, truths, bytes or nothing, as the text of an array."""
    kinds = set(map(type, values))
    if kinds == {int}:
        return f"{{{','.join(map(str, values))}}}"
    if kinds == {str}:
        joined = '","'.join(values)  # type: ignore[arg-type]  # all are texts
        if _BACKSLASH not in joined and joined.count('"') == 2 * (len(values) - 1):
            return f'{{"{joined}"}}'
    return f"{{{','.join(map(_element, values))}}}"


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return rf'"\\x{value.hex()}"'
    if isinstance(value, str):
        return '"' + value.replace(_BACKSLASH, _ESCAPED).replace('"', r"\"") + '"'
    return str(value)

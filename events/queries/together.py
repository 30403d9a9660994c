"""Several questions asked of the store as one, each of which is answered in rows of its own kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from django.db.models import IntegerField, QuerySet, Value


class Question(NamedTuple):
    """What is asked, and the kind of its rows: a named tuple whose fields are columns of the query, in their order.

    Fields of two questions at the same place are both numbers or both text: the store answers in one table.
    """

    asked: QuerySet[Any, Any]
    kind: Any


def read_together(questions: Sequence[Question]) -> list[list[Any]]:
    """The rows of each question, in the order of the questions. One query; each part takes its own index."""
    width = max(len(one.kind._fields) for one in questions)
    parts = []
    for number, (asked, kind) in enumerate(questions):
        fill = {f"fill_{place}": Value(0, IntegerField()) for place in range(len(kind._fields), width)}
        parts.append(asked.annotate(question=Value(number), **fill).values_list("question", *kind._fields, *fill))
    found: list[list[Any]] = [[] for _ in questions]
    for number, *row in parts[0].union(*parts[1:], all=True):
        kind = questions[number].kind
        found[number].append(kind._make(row[: len(kind._fields)]))
    return found

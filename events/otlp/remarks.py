"""What the answer to a request says beside its events: what of them was not understood. Counted for the intake page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache

from recovery_ops.wire import names, required_attributes


class Remark(StrEnum):
    """Reason of a remark; the value is that of its tally."""

    WRONG_ID = "remark_wrong_id"
    MISSING = "remark_missing"
    UNKNOWN_NAME = "remark_unknown_name"
    UNKNOWN_VALUE = "remark_unknown_value"
    EQUAL = "remark_equal"
    NO_TIME = "remark_no_time"


WORDS = {
    Remark.WRONG_ID: "events with a malformed trace or span id",
    Remark.MISSING: "events without a required attribute",
    Remark.UNKNOWN_NAME: "records with an unknown recovery.* name",
    Remark.UNKNOWN_VALUE: "events with an unknown state or category",
    Remark.EQUAL: "records without log.record.uid, equal to another",
    Remark.NO_TIME: "records without time and log.record.uid",
}
"""What the intake page calls them."""

Remarks = Counter[tuple[str, str]]
"""How often, by reason and by what the sender's developer reads."""

MOST_TEXTS = 100
"""Different remarks of one request; of more, each has the text of its reason alone."""


def remark(remarks: Remarks, reason: Remark, text: str) -> None:
    """Count one; `text` names what it is about."""
    known = (reason.value, text)
    if known not in remarks and len(remarks) >= MOST_TEXTS:
        known = (reason.value, WORDS[reason])
    remarks[known] += 1


def remark_unknown(remarks: Remarks, name: str) -> None:
    """Count a record whose name begins like those of our events and is none."""
    remark(remarks, Remark.UNKNOWN_NAME, f"{name} is no event of this console; it is stored as a log")


def remark_nameless(remarks: Remarks, is_equal: bool, *, is_timeless: bool) -> None:
    """Count a record without a uid that says the same as another of its request, or that has no time either."""
    if is_equal:
        remark(remarks, Remark.EQUAL, "a record without log.record.uid says the same as another and was taken for it")
    if is_timeless:
        text = "a record has neither a time nor log.record.uid: one that says the same later is taken for it"
        remark(remarks, Remark.NO_TIME, text)


WRONG_ID_TEXT = "a trace or span id is not hexadecimal of the right length; what can be read of it is stored"


def remark_missing(remarks: Remarks, event: str, given: Mapping[str, object]) -> None:
    """Count an event that lacks a required attribute; it is stored without it."""
    missing = [name for name in _required_of(event) if name not in given]
    if missing:
        remark(remarks, Remark.MISSING, f"{names.PREFIX}{event} lacks the required {', '.join(missing)}")


@lru_cache(maxsize=64)
def _required_of(event: str) -> tuple[str, ...]:
    return required_attributes(names.KIND_OF[event])


def counted_by_reason(several: Iterable[tuple[str, Remarks]]) -> Counter[tuple[str, str]]:
    """How often each reason came up, by environment and reason."""
    counts: Counter[tuple[str, str]] = Counter()
    for environment, remarks in several:
        for (reason, _), count in remarks.items():
            counts[environment, reason] += count
    return counts
